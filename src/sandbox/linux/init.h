/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Process 1 of a sandbox: applies the plan, starts the command, reaps, reports. Runs in the cloned child. */
#include "sandbox/linux/cgroup.h"
#include "sandbox/sandbox.h"

struct init_args {
        int control;
        int terminal;
        bool foreground;
        const sigset_t *mask;
        bool degraded;     /* no namespaces were made */
        unsigned uid, gid; /* outside: inside they cannot be asked for before they are mapped */
        struct cgroup group;
        const struct sandbox_ids *ids; /* NULL: the command has its caller's identity */
};

_Noreturn void init_main(const struct init_args *args);

/* The command, in its own process with init's memory until exec: everything it needs was prepared. */
struct command {
        const struct plan *plan;
        int terminal;     /* lent to the command, -1 for none */
        int landlock;     /* ruleset, -1 for none */
        int landlock_own; /* one more, for the command and not for its broker, -1 for none */
        int events;       /* for the broker's reports, -1 for no broker */
        int record;       /* where the broker notes repositories that are made, -1 for nowhere */
        int watcher;      /* where the watcher waits for the command's filter, -1 for no watcher */
        bool kept;        /* started by the keeper: it is in the Landlock domain already, and shares descriptors */
        const sigset_t *mask;
        /* results, read by init after exec or exit */
        bool not_run; /* the command itself could not be executed */
        int error;
        int notify; /* kept: of its filter, in the keeper's descriptors; -1 for none */
        char text[SANDBOX_TEXT_MAX];
};
/* Returns the process number or a negative errno; c->error is set when the command could not be started. */
pid_t command_start(struct command *command);
/* For this thread and what it starts, for good. */
int command_enter_landlock(const struct command *command);
