/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Repositories as git writes their addresses, for ssh and for its own daemon. */
#include "bridge/ssh_command.h"
#include "policy/policy.h"
#include "verbs/inspect/inspect.h"

enum { INSPECT_SSH_MAX = 1024 };

struct inspect_ssh {
        char plain[INSPECT_SSH_MAX]; /* HOST[:PORT]/PATH */
        char user[SSH_USER_MAX + 1]; /* that git would log in with */
        bool short_form;             /* [USER@]HOST:PATH: a file may have such a name */
        bool certain;                /* it has a scheme or a user: nothing else is written so */
};

/* ssh://[USER@]HOST[:PORT]/PATH (also git+ssh, ssh+git), [USER@]HOST:PATH or [USER@HOST:PORT]:PATH, as git tells them
 * from paths: with a slash before the colon it is a path. [USER@]HOST:PORT, HOST:PORT/PATH and C:/PATH are no
 * addresses of ssh. False: it is none. */
bool inspect_ssh_address(struct str word, struct inspect_ssh *ret);
/* git://HOST[:PORT]/PATH: who is connected to. False: it is none. */
bool inspect_git_daemon(struct str word, char ret[static AUTHORITY_TEXT_MAX]);

/* What is asked for, and what the network rules and the entries under git say about it. */
struct inspect_ssh_question {
        const struct inspect_ssh *ssh;
        struct str word, ref; /* HOST[:PORT]/PATH; in full, empty without a push */
        struct verdict verdict;
};
/* Whatever the entries under git say, git cannot reach it so: it has no ssh, or not as this user. Writes that into the
 * answer, and what a person can do. 0 also if ssh is open; -ENOMEM. */
int inspect_ssh_closed(const struct policy *policy, const struct inspect_ssh_question *question,
                       struct inspect_verdict *answer);
/* The network rules may open the port for whatever speaks there. -ENOMEM is the only failure. */
int inspect_ssh_note(const struct snapshot *snapshot, const struct authority *target, struct inspect_verdict *answer);
