/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What all supervisors share: a name, a policy, an audit, a vault, a gateway, control by people and programs, signals,
 * a deadline, and one loop over all of it. `bailey run` (run/), a container (container/), the gateway by itself
 * (egress/), a command that waits for its approval (command_room.c) and `bailey secrets test` add their own parts to
 * the same poller, in the order in which they want them stepped:
 *
 *     struct session session = SESSION_NONE;
 *     session_init(&session, &calls, owner);
 *     session_catch(&session, numbers, n, err);
 *     session_open_audit(), _control(), _gateway()           as far as it has them
 *     session_add(&session, SESSION_SIGNALS); poller_add(&session.poller, &own_part); session_add(...)
 *     session_loop(&session, err);                            until session.ended
 *     session_done(&session);
 *
 * Ownership: everything in the struct, but the link and the owner. The struct must not move once session_init() was
 * called: its parts point into it.
 */
#include "base/processes/poller.h"
#include "control/link.h"
#include "control/live.h"
#include "roles/gateway_process.h"
#include "roles/vault_session.h"

#include <signal.h>
#include <sys/signalfd.h>

enum { SESSION_ID_MAX = 13 };

/* The owner's side. Each may be NULL. */
struct session_calls {
        void (*on_signal)(void *owner, const struct signalfd_siginfo *info);
        int (*on_deadline)(void *owner, struct err *err);
        /* The program behind the link is gone, or brings a policy; what was heard with it is the owner's then. */
        int (*on_link_gone)(void *owner, struct err *err);
        int (*on_link_policy)(void *owner, const struct link_heard *heard, struct err *err);
        /* Of the gateway. The control has been told before. */
        void (*on_event)(void *owner, const struct event *event, const struct snapshot_rule *rule);
        void (*on_notice)(void *owner, enum gateway_notice notice, const char *text); /* NULL: failures are logged */
        /* The gateway asks for a program of the host (ipc/gateway_messages.h), or needs one no more. */
        void (*on_program)(void *owner, const struct ipc_message *message);
        /* A connection waits until a ratchet has closed, of which its target is a trigger; gateway_process_answer().
         * NULL: it is refused. */
        void (*on_ratchet)(void *owner, uint64_t id, const struct authority *target);
        /* The rules for the gateway. NULL: of the policy and of this host's addresses. */
        int (*compile)(void *owner, const struct policy *policy, void **ret_snapshot, size_t *ret_n, struct err *err);
};

struct session {
        const struct session_calls *calls; /* NULL: none, and the gateway's words go to nobody */
        void *owner;
        char id[SESSION_ID_MAX];
        struct policy *policy;
        struct policy *network; /* not NULL: judges connections in its place; a newer one came by the link */
        struct audit *audit;
        char *audit_path;
        struct vault_session vaults[2], *vault; /* the second is there while one takes over from the other */
        struct gateway_process *gateway;        /* NULL: none yet */
        struct live *control;                   /* NULL: none */
        struct terminal terminal;
        const struct link *link; /* NULL: no program started this */
        bool link_asks;          /* questions are for that program, as far as the link says */
        bool link_gone;
        int signals;
        sigset_t mask_before;
        bool masked;
        uint64_t deadline_ns; /* CLOCK_NEVER: none */
        struct poller poller;
        bool ended; /* the loop's end; parts that come later in this round have nothing to do */
};
#define SESSION_NONE                                                                                                   \
        {                                                                                                              \
                .vaults = { VAULT_SESSION_NONE, VAULT_SESSION_NONE }, .terminal.fd = -1, .signals = -1,                \
                .deadline_ns = CLOCK_NEVER                                                                             \
        }

void session_init(struct session *session, const struct session_calls *calls, void *owner);
/* The control's last words, the gateway's, then the vault's; the record; everything. */
void session_done(struct session *session);

/* These signals come through the poller from now on. */
int session_catch(struct session *session, const int *numbers, size_t n, struct err *err);

int session_open_audit(struct session *session, const char *path, const char *sandbox, struct err *err);
/* Its last line, and its end; failures are logged. */
void session_close_audit(struct session *session, int status);

/* `parts` says what the owner adds (argv, options, freezing, the end); the rest is the session's. */
int session_open_control(struct session *session, const struct live_parts *parts, struct err *err);
void session_close_control(struct session *session, int status);

/* What the gateway is to judge by now. */
int session_compile(struct session *session, void **ret_snapshot, size_t *ret_n, struct err *err);
/* A gateway for settings->start and the listeners in it; the rest is the session's. The password in `start` is wiped.
 * Takes `addresses` (of host_addresses_watch(); -1: not followed) in any case. */
int session_open_gateway(struct session *session, struct gateway_settings *settings, int *addresses,
                         const void *snapshot, size_t n, struct err *err);
/* The same with the rules and the addresses of now. */
int session_make_gateway(struct session *session, struct gateway_settings *settings, struct err *err);
/* With its last word. */
void session_close_gateway(struct session *session);
void session_close_vaults(struct session *session);

enum session_part {
        SESSION_DEADLINE,
        SESSION_SIGNALS,
        SESSION_LINK,
        SESSION_VAULT,
        SESSION_GATEWAY,
        SESSION_CONTROL,
        SESSION_PARTS
};
void session_add(struct session *session, enum session_part part);
/* Until session->ended, or an error. */
int session_loop(struct session *session, struct err *err);
