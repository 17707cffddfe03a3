/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of one run: its listeners until somebody connects, then the gateway, what it reports and asks, and the
 * policy by which it judges.
 */
#include "run/run_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/link.h"
#include "control/live.h"
#include "roles/host_addresses.h"
#include "run/learn.h"
#include "run/run_gateway.h"

#include <stdlib.h>
#include <sys/socket.h>

/* A refusal is told when it happens: a program that tries for ten minutes should not keep it from anybody. Where a
 * program draws on the screen it waits for the end. */
static void tell_refusal(struct run *r) {
        cleanup(buf_done) struct buf line = BUF(8192);

        if (r->q->quiet || r->q->link || terminal_is_drawn_on(&r->terminal))
                return;
        if (terminal_can_write(STDERR_FILENO) && run_report_news(&r->report, &line) == 0)
                terminal_write(STDERR_FILENO, buf_str(&line));
}

static void on_event(void *arg, const struct event *ev, const struct snapshot_rule *rule) {
        struct run *r = arg;
        r->report.quiet = &r->policy->network.quiet; /* a policy that is read again is another one */
        if (run_report_event(&r->report, ev, rule))
                tell_refusal(r);
        if (r->q->learn)
                learn_connection(r->q->learn, ev);
        live_event(r->control, ev, rule);
}

static void on_ask(void *arg, uint64_t id, const struct authority *target, enum event_via via, const char *push) {
        struct run *r = arg;
        bool by_link = r->q->link && r->q->link->asks;
        if (r->control && !by_link)
                live_ask(r->control, id, target, via, push);
        else if (!by_link || push[0] || !link_ask(r->q->link, id, target))
                gateway_process_answer(r->gateway, id, DECISION_DENY);
}

static void on_ask_gone(void *arg, uint64_t id, bool expired) {
        struct run *r = arg;
        if (r->q->link && r->q->link->asks)
                link_ask_gone(r->q->link, id);
        else if (r->control)
                live_ask_gone(r->control, id, expired);
}

static void on_notice(void *arg, enum gateway_notice notice, const char *text) {
        struct run *r = arg;
        live_notice(r->control, notice, text);
        if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                log_error("gateway: %s", text ? text : "failed");
}

static int compile_network(void *arg, void **ret, size_t *ret_n, struct err *e) {
        const struct run *r = arg;
        return host_addresses_compile(r->network ? r->network : r->policy, ret, ret_n, e);
}

/* At the first connection: most commands make none, and then none of this is paid for. */
static int make_gateway(struct run *r, struct err *e) {
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        cleanup(close_fd) int addresses = -1;
        int s = host_addresses_watch(&addresses, e);
        if (s == 0)
                s = compile_network(r, &snapshot, &n, e);
        if (s < 0)
                return s;
        struct gateway_settings settings = {
                .listeners = r->sandbox.listeners,
                .n_listeners = r->sandbox.n_listeners,
                .audit = r->audit,
                .compile = compile_network,
                .on_event = on_event,
                .on_ask = on_ask,
                .on_ask_gone = on_ask_gone,
                .on_notice = on_notice,
                .arg = r,
        };
        vault_session_gateway(&r->vault, &settings);
        s = run_gateway_start(r->network ? r->network : r->policy, r->plan, r->id, r->q, &settings.start, e);
        settings.start.can_ask = 1; /* what nobody can be asked is denied by on_ask() */
        settings.addresses = s < 0 ? 0 : take_fd(&addresses);
        s = s < 0 ? s : gateway_process_new(&settings, snapshot, n, &r->gateway, e);
        secret_wipe(settings.start.upstream_password, sizeof settings.start.upstream_password);
        return s;
}

size_t run_network_watch(const struct run *r, struct pollfd fds[static GATEWAY_POLL_MAX], int *timeout) {
        if (r->gateway)
                return gateway_process_poll(r->gateway, fds, GATEWAY_POLL_MAX, timeout);
        for (size_t i = 0; i < r->sandbox.n_listeners; i++)
                fds[i] = (struct pollfd){ .fd = r->sandbox.listeners[i], .events = POLLIN };
        return r->sandbox.n_listeners;
}

int run_network_step(struct run *r, const struct pollfd *fds, size_t n, struct err *e) {
        if (r->gateway) {
                gateway_process_step(r->gateway, fds, n);
                return 0;
        }
        for (size_t i = 0; i < n; i++)
                if (fds[i].revents)
                        return make_gateway(r, e);
        return 0;
}

int run_network_use(struct run *r, struct policy *p, int judged, struct err *e) {
        cleanup(close_fd) int told = judged;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        int s;

        policy_free(r->network);
        r->network = p;
        if (!r->gateway) { /* one that starts later takes it then */
                (void)!send(told, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
                return 0;
        }

        s = compile_network(r, &snapshot, &n, e);
        if (s < 0)
                return s;

        s = gateway_process_reload(r->gateway, p, snapshot, n, e);
        if (s < 0)
                return s;

        gateway_process_when_judged(r->gateway, take_fd(&told));
        return 0;
}

/* Attempts that nobody has looked at yet: the command ended right after them. */
static bool attempts_wait(const struct run *r) {
        struct pollfd fds[GATEWAY_POLL_MAX];
        size_t n = r->sandbox.n_listeners;

        for (size_t i = 0; i < n; i++)
                fds[i] = (struct pollfd){ .fd = r->sandbox.listeners[i], .events = POLLIN };
        return n > 0 && poll(fds, n, 0) > 0;
}

void run_network_end(struct run *r) {
        struct err e = { 0 };
        int s = 0;

        if (r->audit && attempts_wait(r)) {
                if (!r->gateway)
                        s = make_gateway(r, &e);
                if (s == 0)
                        s = gateway_process_start(r->gateway, &e);
                if (s < 0)
                        log_warning("the last attempts of the command are not on record: %s", err_text(&e));
        }
        gateway_process_free(r->gateway);
        r->gateway = NULL;
}
