/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the sandbox's own home. */
#include "kept/home.h"

/* How the names of homes begin that are forgotten at the end of their run, or on their way out. */
#define HOME_RUN_PREFIX "run."

/* Where all of them are. Heap text in *ret. */
int home_top(char **ret, struct err *err);
char *home_id_of_workspace(const char *workspace);

/* -EBUSY while a run uses it. */
int home_remove(const char *id, struct err *err);
/* Removes what runs that were killed left behind. */
void home_sweep(void);

int home_read_records(struct home *home, struct err *err);
