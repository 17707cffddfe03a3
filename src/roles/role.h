/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A role: a process of Bailey's own that is supervised, whatever it does (gateway_process.c, vault_process.c). One
 * machine for all of them:
 *
 *     IDLE ──► STARTING ──► SERVING ──► STOPPING ──► STOPPED
 *      ▲           └────┬──────┘ it died
 *      └── WAITING ◄────┘ for a delay that doubles with each death in a row
 *
 * Its owner sends its messages and interprets its replies. This decides when it may run, notices its end, and cleans up
 * after it. role_set() is the only place that changes the state.
 *
 * Not thread-safe; the thread that starts it must live as long as the process (PDEATHSIG is bound to it).
 */
#include "base/processes/poller.h"
#include "roles/helper.h"

enum role_state {
        ROLE_IDLE,     /* no process */
        ROLE_STARTING, /* it runs and has not said that it is ready */
        ROLE_SERVING,
        ROLE_WAITING,  /* it died; the next one may start a little later */
        ROLE_STOPPING, /* asked to end; ended by force when it takes too long */
        ROLE_STOPPED,  /* for good */
        ROLE_STATES
};
const char *role_state_name(enum role_state state);

enum { ROLE_DELAY_FIRST_MS = 100, ROLE_DELAY_MOST_MS = 10000, ROLE_STEADY_MS = 30000, ROLE_END_TEXT_MAX = 160 };

struct role {
        const char *name; /* for the log; a constant */
        enum role_state state;
        pid_t pid; /* 0: none */
        int pidfd, control;
        uint64_t started_ns;
        uint64_t due_ns; /* when the state has lasted long enough, or CLOCK_NEVER */
        unsigned delay_ms;
        bool condemned; /* killed for a reason that was reported already */
};
#define ROLE_NONE(role_name) ((struct role){ .name = (role_name), .pidfd = -1, .control = -1, .due_ns = CLOCK_NEVER })

/* For at most so long; 0: without a limit. */
void role_set(struct role *role, enum role_state state, uint64_t limit_ms);
/* A process was made for it. Both descriptors are the role's from now on. */
void role_started(struct role *role, const struct helper *process, int control, uint64_t limit_ms);
/* It could not be started, or it died: not sooner again than after the delay. One that lived for ROLE_STEADY_MS starts
 * the delays anew. */
void role_delay(struct role *role);
/* SIGKILL. Its end is seen by role_reap(). */
void role_kill(struct role *role);
/* True once when it has ended, with how it did. From then on its number may be another process's, and nothing is
 * signalled by it. What it had sent can still be read; then role_forget(). */
bool role_reap(struct role *role, char ret_how[static ROLE_END_TEXT_MAX]);
/* Closes what belonged to a process that was reaped. */
void role_forget(struct role *role);
/* Kills it, waits for its end, and forgets it. Nothing to do without one. */
void role_end(struct role *role);

/* For the owner's part of a poller: the process, its words, and the deadline of the state. */
void role_watch(const struct role *role, struct poller *poller);
bool role_is_due(const struct role *role);
