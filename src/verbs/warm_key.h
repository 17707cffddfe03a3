/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which calls of `bailey exec` can share what was prepared: those that would make the same sandbox, as far as the
 * caller decides it. The same options, program, directory and variables; the same identity, rights, limits, namespaces
 * and control group; the same Bailey. What else a sandbox depends on is looked at when the command comes
 * (run/run_spare.h).
 */
#include "base/digest.h"
#include "verbs/command_exec.h"

/* Two parts of its hex digits and this in front name a socket. */
#define WARM_PREFIX "warm-"
enum { WARM_KEY_SHOWN = 12 };

/* Of this process. `program` is the first word of the command. */
int warm_key(const struct exec_request *request, const char *program, unsigned char ret[static DIGEST_BYTES]);

/* The options as words again, for another process of ours: NULL-terminated, on the heap; texts_free(). */
int warm_options(const struct exec_request *request, bool for_key, char ***ret);
void warm_options_free(char **words);
