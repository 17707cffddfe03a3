/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bailey executable: where the config says, else by where this library (or, linked into it, the program) is, else
 * where it was to be installed. Never by a search path that the environment decides.
 */
#include "bailey/error.h"

/* Heap text in *ret. BAILEY_E_DEPENDENCY says what was looked for. */
int program_find(const char *named, const char *base, char **ret, struct bailey_error *error);
/* The gateway's executable that belongs to it. */
int program_find_gateway(const char *program, char **ret, struct bailey_error *error);
