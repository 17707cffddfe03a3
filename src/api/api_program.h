/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bailey executable: from the config, else relative to this library (or to the program, if linked statically), else
 * from the install prefix. Never by a search path from the environment.
 */
#include "bailey/error.h"

/* Heap text in *ret. BAILEY_E_DEPENDENCY says what was looked for. */
int program_find(const char *named, const char *base, char **ret, struct bailey_error *error);
/* Where it is in an installation with this library's prefix. */
const char *program_installed(void);
/* The gateway's executable that belongs to it. */
int program_find_gateway(const char *program, char **ret, struct bailey_error *error);
