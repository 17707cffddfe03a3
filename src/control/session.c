/* SPDX-License-Identifier: Apache-2.0 */
#include "control/session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/signals.h"
#include "base/secrets/secret.h"
#include "roles/host_addresses.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

void session_init(struct session *session, const struct session_calls *calls, void *owner) {
        session->calls = calls;
        session->owner = owner;
        session->vault = &session->vaults[0];
        for (size_t i = 0; i < 2; i++) {
                session->vaults[i].gateway = &session->gateway;
                session->vaults[i].audit = &session->audit;
        }
}

/*
 * The record.
 */
int session_open_audit(struct session *session, const char *path, const char *sandbox, struct err *err) {
        const struct audit_settings settings = { .path = path, .run_id = session->id, .sandbox = sandbox };

        return audit_open(&settings, &session->audit, err);
}

void session_close_audit(struct session *session, int status) {
        struct err err = { 0 };

        if (!session->audit)
                return;

        (void)audit_note(session->audit, "end: status %d", status);
        if (audit_close(session->audit, &err) < 0)
                log_error("the audit is not whole: %s", err_text(&err));

        session->audit = NULL;
}

/*
 * People and programs.
 */
int session_open_control(struct session *session, const struct live_parts *parts, struct err *err) {
        struct live_parts all = *parts;

        all.id = session->id;
        all.brings_policies = session->link != NULL;
        all.link = session->link;
        all.policy = &session->policy;
        all.network = &session->network;
        all.gateway = &session->gateway;
        all.terminal = &session->terminal;
        all.audit = &session->audit;

        return live_new(&all, &session->control, err);
}

void session_close_control(struct session *session, int status) {
        live_free(session->control, status);
        session->control = NULL;
}

static void session_on_ask(void *arg, uint64_t id, const struct authority *target, enum event_via via,
                           const char *push) {
        struct session *session = arg;

        if (strcmp(push, ASK_RATCHET) == 0) {
                if (session->calls->on_ratchet)
                        session->calls->on_ratchet(session->owner, id, target);
                else
                        gateway_process_answer(session->gateway, id, DECISION_DENY);

                return;
        }

        if (session->link_asks && link_answers(session->link, push)) {
                if (!link_ask(session->link, id, target, push))
                        gateway_process_answer(session->gateway, id, DECISION_DENY);
        } else if (session->control) {
                live_ask(session->control, id, target, via, push);
        } else {
                gateway_process_answer(session->gateway, id, DECISION_DENY);
        }
}

static void session_on_ask_gone(void *arg, uint64_t id, bool expired) {
        struct session *session = arg;

        /* Whoever was not asked under this id knows nothing of it. */
        if (session->link_asks)
                link_ask_gone(session->link, id, expired);
        if (session->control)
                live_ask_gone(session->control, id, expired);
}

/*
 * The gateway.
 */
static void session_on_event(void *arg, const struct event *event, const struct snapshot_rule *rule) {
        struct session *session = arg;

        if (session->calls->on_event)
                session->calls->on_event(session->owner, event, rule);
        live_event(session->control, event, rule);
}

static void session_on_notice(void *arg, enum gateway_notice notice, const char *text) {
        struct session *session = arg;

        live_notice(session->control, notice, text);
        if (session->calls->on_notice)
                session->calls->on_notice(session->owner, notice, text);
        else if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                log_error("gateway: %s", text_or(text, "failed"));
}

static void session_on_program(void *arg, const struct ipc_message *message) {
        struct session *session = arg;

        session->calls->on_program(session->owner, message);
}

int session_compile(struct session *session, void **ret_snapshot, size_t *ret_n, struct err *err) {
        const struct policy *policy = session->network ? session->network : session->policy;

        if (session->calls && session->calls->compile)
                return session->calls->compile(session->owner, policy, ret_snapshot, ret_n, err);
        return host_addresses_compile(policy, ret_snapshot, ret_n, err);
}

static int session_compile_again(void *arg, void **ret_snapshot, size_t *ret_n, struct err *err) {
        return session_compile(arg, ret_snapshot, ret_n, err);
}

int session_open_gateway(struct session *session, struct gateway_settings *settings, int *addresses,
                         const void *snapshot, size_t n, struct err *err) {
        settings->audit = session->audit;
        settings->addresses = *addresses > 0 ? take_fd(addresses) : 0;
        settings->compile = session_compile_again;
        settings->arg = session;

        if (session->calls) {
                settings->on_event = session_on_event;
                settings->on_notice = session_on_notice;
                settings->on_ask = session_on_ask;
                settings->on_ask_gone = session_on_ask_gone;
                settings->on_program = session->calls->on_program ? session_on_program : NULL;
        }

        settings->start.can_ask = session->calls != NULL; /* session_on_ask() denies when there is nobody to ask */
        vault_session_gateway(session->vault, settings);

        int r = gateway_process_new(settings, snapshot, n, &session->gateway, err);
        secret_wipe(settings->start.upstream_password, sizeof settings->start.upstream_password);
        secret_wipe(settings->start.client_secret, sizeof settings->start.client_secret);

        return r;
}

int session_make_gateway(struct session *session, struct gateway_settings *settings, struct err *err) {
        cleanup(close_fd) int addresses = -1;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        int r;

        r = host_addresses_watch(&addresses, err); /* first: an address that comes meanwhile is compiled in again */
        if (r < 0)
                return r;

        r = session_compile(session, &snapshot, &n, err);
        if (r < 0)
                return r;

        return session_open_gateway(session, settings, &addresses, snapshot, n, err);
}

void session_close_gateway(struct session *session) {
        gateway_process_free(session->gateway);
        session->gateway = NULL;
}

void session_close_vaults(struct session *session) {
        vault_session_close(&session->vaults[0]);
        vault_session_close(&session->vaults[1]);
}

/*
 * Signals.
 */
int session_catch(struct session *session, const int *numbers, size_t n, struct err *err) {
        session->signals = signals_catch(numbers, n, &session->mask_before);
        if (session->signals < 0)
                return err_errno(err, "cannot watch signals");

        session->masked = true;
        return 0;
}

/*
 * The loop: the session's own parts.
 */
static void watch_deadline(void *arg, struct poller *poller) {
        poller_until(poller, ((const struct session *)arg)->deadline_ns);
}

static int step_deadline(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        (void)poller;

        if (session->ended || clock_ns() < session->deadline_ns)
                return 0;
        session->deadline_ns = CLOCK_NEVER;
        return session->calls->on_deadline(session->owner, err);
}

static void watch_signals(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct session *)arg)->signals, POLLIN);
}

static int step_signals(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        struct signalfd_siginfo info;

        (void)err;

        if (!poller_ready(poller, session->signals))
                return 0;

        while (!session->ended && read(session->signals, &info, sizeof info) == (ssize_t)sizeof info)
                session->calls->on_signal(session->owner, &info);

        return 0;
}

static void watch_link(void *arg, struct poller *poller) {
        const struct session *session = arg;

        if (session->link && !session->link_gone)
                poller_watch(poller, session->link->fd, POLLIN);
}

static int step_link(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        struct link_heard heard = { 0 };

        if (session->ended || !session->link || !poller_ready(poller, session->link->fd))
                return 0;

        switch (link_hear(session->link, &heard)) {
        case LINK_GONE:
                session->link_gone = true;
                return session->calls->on_link_gone(session->owner, err);
        case LINK_ANSWER:
                if (session->gateway)
                        gateway_process_answer(session->gateway, heard.id,
                                               heard.allow ? DECISION_ALLOW : DECISION_DENY);
                return 0;
        case LINK_STAND:
                if (session->control)
                        live_stand(session->control, heard.id, heard.allow);
                else if (heard.allow)
                        link_stood(session->link, heard.id, EOPNOTSUPP);
                return 0;
        case LINK_POLICY:
                return session->calls->on_link_policy(session->owner, &heard, err);
        default:
                return 0;
        }
}

static void watch_vault(void *arg, struct poller *poller) {
        vault_session_watch(((const struct session *)arg)->vault, poller);
}

static int step_vault(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        (void)err;

        if (!session->ended)
                vault_session_step(session->vault, poller);
        return 0;
}

static void watch_gateway(void *arg, struct poller *poller) {
        const struct session *session = arg;

        if (session->gateway)
                gateway_process_watch(session->gateway, poller);
}

static int step_gateway(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        (void)err;

        if (session->gateway && !session->ended)
                gateway_process_step(session->gateway, poller);
        return 0;
}

static void watch_control(void *arg, struct poller *poller) {
        live_watch(((const struct session *)arg)->control, poller);
}

static int step_control(void *arg, struct poller *poller, struct err *err) {
        struct session *session = arg;
        (void)err;

        if (!session->ended)
                live_step(session->control, poller);
        return 0;
}

void session_add(struct session *session, enum session_part part) {
        static const struct poller_part parts[] = {
                [SESSION_DEADLINE] = { watch_deadline, step_deadline, NULL },
                [SESSION_SIGNALS] = { watch_signals, step_signals, NULL },
                [SESSION_LINK] = { watch_link, step_link, NULL },
                [SESSION_VAULT] = { watch_vault, step_vault, NULL },
                [SESSION_GATEWAY] = { watch_gateway, step_gateway, NULL },
                [SESSION_CONTROL] = { watch_control, step_control, NULL },
        };
        static_assert(sizeof parts / sizeof *parts == SESSION_PARTS, "one for each part");
        struct poller_part added = parts[part];

        added.arg = session;
        poller_add(&session->poller, &added);
}

int session_loop(struct session *session, struct err *err) {
        while (!session->ended) {
                int r = poller_round(&session->poller, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

void session_done(struct session *session) {
        session_close_control(session, 0);
        session_close_gateway(session);
        session_close_vaults(session);
        audit_free(session->audit);
        terminal_close(&session->terminal);
        close_fd(&session->signals);

        if (session->masked)
                sigprocmask(SIG_SETMASK, &session->mask_before, NULL);

        policy_free(session->policy);
        policy_free(session->network);
        free(session->audit_path);
        poller_done(&session->poller);
}
