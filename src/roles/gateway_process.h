/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The gateway as the supervisor sees it: one process, started when the first connection arrives (or at once), watched,
 * fed with policies and questions, and replaced when it dies. The listeners stay here, so that a connection that
 * arrives while there is no gateway waits for the next one; it is never let through another way. If three gateways in
 * a row cannot start, what waits is refused, until one can; macOS lets it wait (ipc/listener_refuse.h).
 *
 *     gateway_process_new(&settings, snapshot, n, &g, e);
 *     gateway_process_watch() and _step() in a part of a poller, round by round
 *     gateway_process_free(g);
 *
 * Not thread-safe; the thread that steps must live as long as the gateway (PDEATHSIG is bound to it).
 */
#include "base/err.h"
#include "ipc/event.h"
#include "ipc/gateway_messages.h"
#include "policy/judge/snapshot.h"
#include "roles/role.h"
#include "roles/vault_process.h"
#include "store/audit.h"

#include <sys/types.h>

struct gateway_process; /* opaque */

enum gateway_notice {
        NOTICE_READY,          /* a gateway accepts connections */
        NOTICE_DIED,           /* it ended without being asked; text says how. Open connections are gone */
        NOTICE_CANNOT_START,   /* it could not be started, or said why it cannot work */
        NOTICE_RELOADED,       /* the new policy judges now, and tunnels that it refuses are closed */
        NOTICE_AUDIT_FAILED,   /* the audit cannot be written: new connections are refused */
        NOTICE_AUDIT_RESTORED, /* it can be written again */
        NOTICE_STOPPED,
};

struct gateway_settings {
        /* Everything but version, size, n_listeners, generation and audit; the listeners' kinds are in listeners[]. The
         * password in it is copied into secret memory: the caller wipes its own. */
        struct gateway_start start;
        const int *listeners; /* n_listeners descriptors, bound and listening; duplicated */
        size_t n_listeners;
        struct audit *audit; /* borrowed; must outlive the process */
        /* With both, TLS is opened where credentials or rules ask for it. Borrowed, as long as the process lives. */
        struct vault_process *vault; /* NULL: none */
        int credentials;             /* the credential table, sealed; used with a vault only */
        const char *program;         /* NULL: gateway_program() */
        int addresses;               /* of host_addresses_watch(), taken over in any case; 0: they are not followed */
        /* This host's addresses have changed: the same policy, compiled with those of now. */
        int (*compile)(void *arg, void **ret_snapshot, size_t *ret_n, struct err *e);
        /* All optional. `rule` is what decided, or NULL. Pointers are valid during the call only. */
        void (*on_event)(void *arg, const struct event *ev, const struct snapshot_rule *rule);
        void (*on_ask)(void *arg, uint64_t id, const struct authority *target, enum event_via via,
                       const char *push); /* push: "", or the one push that it is about. NULL: denied */
        void (*on_ask_gone)(void *arg, uint64_t id, bool expired);
        void (*on_notice)(void *arg, enum gateway_notice notice, const char *text);
        /* IPC_SSH, IPC_TOOL and IPC_PROGRAM_GONE; NULL: no program of the host runs. */
        void (*on_program)(void *arg, const struct ipc_message *m);
        void *arg;
};

/* The policy is copied; -EINVAL when it is not a valid snapshot. Starts nothing. */
int gateway_process_new(const struct gateway_settings *settings, const void *snapshot, size_t n,
                        struct gateway_process **ret, struct err *err);
/* Ends the gateway at once if it still runs, and records what it had reported. */
void gateway_process_free(struct gateway_process *process);
void gateway_process_freep(struct gateway_process **process);

/* Starts it now, to be ready when somebody connects. If nobody does for a while it ends again, and starts at the first
 * connection. No notice follows before that. */
int gateway_process_ahead(struct gateway_process *process, struct err *err);
/* Whether it was started ahead and nobody has connected, or there is none. */
bool gateway_process_is_held(const struct gateway_process *process);
/* Starts it now instead of at the first connection. NOTICE_READY or NOTICE_CANNOT_START follows. */
int gateway_process_start(struct gateway_process *process, struct err *err);
/* New rules, and with `limits` (may be NULL) the limits and the time for an answer as in that policy, for what begins
 * from now on, also in a gateway that is started later. Checked whole, then handed over; on error all stays as it was.
 * NOTICE_RELOADED follows if a gateway runs. */
int gateway_process_reload(struct gateway_process *process, const struct policy *limits, const void *snapshot, size_t n,
                           struct err *err);
/* Takes a socket that gets one byte once no connection is judged by a policy older than the current newest; at once if
 * no gateway runs. It is closed without that byte if this ends first. */
void gateway_process_when_judged(struct gateway_process *process, int fd);
/* The vault serves again: every worker is connected to it. */
void gateway_process_vault(struct gateway_process *process);
/* The answer to a question: DECISION_ALLOW or DECISION_DENY. An id that is gone is no error. */
void gateway_process_answer(struct gateway_process *process, uint64_t id, enum decision decision);
/* Of a program that on_program() was asked for: its descriptors, which stay the caller's, and its end. */
void gateway_process_program_fd(struct gateway_process *process, uint64_t id, enum ipc_program_fd which, int fd);
void gateway_process_program_status(struct gateway_process *process, uint64_t id, int status, const char *why);
/* What judges now. */
const struct snapshot *gateway_process_snapshot(const struct gateway_process *process);
/* Begins to end it; NOTICE_STOPPED follows within GATEWAY_STOP_MS. */
void gateway_process_stop(struct gateway_process *process);
#define GATEWAY_STOP_MS 4000

/* Its side of a poller (base/processes/poller.h). Without a process and before its first, the listeners are watched
 * too. Failures become notices. */
void gateway_process_watch(const struct gateway_process *process, struct poller *poller);
void gateway_process_step(struct gateway_process *process, const struct poller *poller);

enum role_state gateway_process_state(const struct gateway_process *process);
pid_t gateway_process_pid(const struct gateway_process *process); /* 0 when none runs */

/* The executable: beside this one, in its libexec, or in the build tree; never by PATH. Heap text. */
int gateway_program(char **ret, struct err *err);
/* The same executable for one narrow errand ("door", "courier", "callback"): it has these descriptors from 3 up, says
 * nothing, and ends with the thread that started it. `word` may be NULL. */
int gateway_errand(const char *errand, const char *word, const int *fds, size_t n_fds, pid_t *ret_pid, struct err *err);
