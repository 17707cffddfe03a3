/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between warm.c (who wants a sandbox) and warm_wait.c (the process that has one). */
#include "base/vec.h"
#include "verbs/command_exec.h"

enum { WARM_NAME_MAX = 32 };

/* The sockets of those with this key begin with it. */
void warm_name(const unsigned char *key, char ret[static WARM_NAME_MAX]);

typedef VEC(char *) warm_names;
void warm_names_done(warm_names *names);
/* Names of sockets, whether or not somebody listens. */
int warm_list(const char *directory, const char *prefix, warm_names *ret);

/* The first word of what is run. */
static inline const char *warm_program(const struct exec_request *request) {
        return request->question.args ? request->question.words[0] : request->shell;
}

/* Of the process that waits: `bailey spare` with the same options. */
int warm_command_line(const struct exec_request *request, char ***ret);
