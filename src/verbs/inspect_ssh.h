/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Repositories as git writes their addresses for ssh. */
#include "verbs/inspect.h"

enum { INSPECT_SSH_MAX = 1024 };

/* ssh://USER@HOST[:PORT]/PATH or USER@HOST:PATH, as HOST[:PORT]/PATH. False: it is neither. */
bool inspect_ssh_address(const char *text, char ret[static INSPECT_SSH_MAX]);
/* The entry may allow it, but git has no ssh. Takes the answer. */
int inspect_ssh_closed(struct inspect_verdict *answer, struct inspect_verdict *ret, struct err *err);
