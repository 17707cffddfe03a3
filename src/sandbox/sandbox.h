/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A sandbox, from plan to end. The one interface that the manager uses; linux/ implements it.
 *
 *     survey_host(policy, rules, command, &host, e)     facts, once per launch
 *     plan_build(&request, &plan, e)
 *     sandbox_launch(plan, &options, &sandbox, e)       clones init, which applies the plan and starts the command
 *     poll(sandbox.control), sandbox_receive(...)       listeners, then what happens to the command
 *     sandbox_finish(&sandbox)                          everything in it is dead when this returns
 *
 * Init is process 1 of the sandbox. It dies with the supervisor (its control socket ends) and the sandbox dies with it.
 */
#include "plan/build.h"
#include "plan/plan.h"

#include <signal.h>
#include <sys/types.h>

enum sandbox_event_kind {
        SANDBOX_LISTENERS, /* value: how many; they are in sandbox.listeners, in the plan's order */
        SANDBOX_STARTED,   /* the command runs */
        SANDBOX_STOPPED,   /* the command stopped; value: the signal */
        SANDBOX_EXITED,    /* value: wait status */
        SANDBOX_FAILED,    /* a step of the launch failed; value: errno, text: which step on what */
        SANDBOX_NOT_RUN,   /* the command itself could not be executed; value: errno */
        SANDBOX_GUARDED,   /* init removed something that must not stay; text: the path */
        SANDBOX_SIGNAL,    /* to init: send this signal to the command's process group */
        SANDBOX_ENDED,     /* init is gone without a word */
        SANDBOX_EVENT_KINDS
};

#define SANDBOX_TEXT_MAX ERR_TEXT_MAX

struct sandbox_event {
        uint32_t kind;
        int32_t value;
        char text[SANDBOX_TEXT_MAX];
};

struct sandbox_options {
        int terminal;         /* the controlling terminal, given to the command's process group; -1 for none */
        const sigset_t *mask; /* signal mask of the command */
};

struct sandbox {
        pid_t pid; /* of init, as the host counts */
        int pidfd; /* -1 where the kernel has none */
        int control;
        int listeners[PLAN_LISTENERS_MAX];
        size_t n_listeners;
};

int sandbox_launch(const struct plan *p, const struct sandbox_options *o, struct sandbox *ret, struct err *e);
/* Takes one message; SANDBOX_ENDED when there will be no more. Blocks unless `control` is readable. */
int sandbox_receive(struct sandbox *s, struct sandbox_event *ret, struct err *e);
int sandbox_signal(struct sandbox *s, int signal_number);
/* Ends whatever is left of it and waits until it is gone. Safe on a half-built one and twice. */
void sandbox_finish(struct sandbox *s);

/* Facts about this host that the plan needs. Strings belong to *ret. */
int survey_host(const struct policy *policy, const struct path_rules *rules, struct plan_host *ret, struct err *e);
void survey_done(struct plan_host *host);

/* Removes what appeared at the guarded paths; called when nothing of the sandbox lives any more. Each removed path is
 * reported. Returns how many were removed or a negative errno; a link is removed, never followed. */
int guard_sweep(const struct plan *p, void (*report)(const char *path, void *context), void *context, struct err *e);
