/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Without namespaces: the run's own directory for temporary files. It is removed at the end; a run that was killed
 * leaves it behind, and then the next one removes it. A lock on the directory says that somebody still uses it.
 */
#include "base/err.h"

struct run_tmpdir {
        char *path; /* NULL: none */
        int lock;   /* held by supervisor and init for as long as either lives */
};
#define RUN_TMPDIR                                                                                                     \
        { NULL, -1 }

int run_tmpdir_make(struct run_tmpdir *tmpdir, const char *id, struct err *err);
void run_tmpdir_remove(struct run_tmpdir *tmpdir);
