/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Repositories as git writes their addresses for ssh. */
#include "bridge/ssh_command.h"
#include "policy/policy.h"
#include "verbs/inspect.h"

enum { INSPECT_SSH_MAX = 1024 };

struct inspect_ssh {
        char plain[INSPECT_SSH_MAX]; /* HOST[:PORT]/PATH */
        char user[SSH_USER_MAX + 1]; /* that git would log in with */
};

/* ssh://[USER@]HOST[:PORT]/PATH or USER@HOST:PATH. False: it is neither. */
bool inspect_ssh_address(const char *text, struct inspect_ssh *ret);
/* Whatever the entries under git say, git cannot reach it so: it has no ssh, or not as this user. Writes that into the
 * answer. 0 also if ssh is open; -ENOMEM. */
int inspect_ssh_closed(const struct policy *policy, const struct inspect_ssh *ssh, struct inspect_verdict *answer);
