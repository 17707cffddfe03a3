/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_gateway.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secrets/secret.h"
#include "roles/gateway_config.h"
#include "roles/gateway_process.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "roles/vault_session.h"
#include "verbs/macos/macos_link.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

enum { SECRET_LENGTH = 48 /* of 32 letters and digits: 240 bits */ };
static_assert((int)SECRET_LENGTH >= (int)PROXY_SECRET_MIN && (int)SECRET_LENGTH <= (int)PROXY_SECRET_MAX,
              "a secret that is accepted");

static int listen_one(int *ret_fd, uint16_t *ret_port, struct err *err) {
        struct endpoint at = { .addr = host_loopback[0] };
        int r = listen_tcp(&at, ret_fd, err);

        *ret_port = at.port;
        return r;
}

int macos_gateway_listen(struct macos_gateway *gateway, const struct policy *policy, struct err *err) {
        gateway->policy = policy;
        if (policy->mode == MODE_READ_ONLY || policy->mode == MODE_WORKSPACE_WRITE)
                return 0;

        random_id(gateway->secret, SECRET_LENGTH + 1);
        int r = listen_one(&gateway->listeners[0], &gateway->http_port, err);
        return r < 0 ? r : listen_one(&gateway->listeners[1], &gateway->socks_port, err);
}

static void gateway_on_event(void *arg, const struct event *event, const struct snapshot_rule *rule) {
        struct macos_gateway *gateway = arg;
        cleanup(buf_done) struct buf target = BUF(16384);

        if (gateway->link && gateway->link->link)
                (void)run_report_event(&gateway->link->report, event, rule);
        if (event->allowed || gateway->quiet || event->kind == EVENT_NOTE || event->kind == EVENT_TUNNEL_CLOSE)
                return;
        if (escape_text(&target, event->domain, 512) == 0)
                (void)fprintf(stderr, "bailey: refused: %.*s:%u: %s\n", STR_FMT(buf_str(&target)), event->port,
                              text_or(reason_text((enum reason)event->reason), "?"));
}

static void gateway_on_notice(void *arg, enum gateway_notice notice, const char *text) {
        (void)arg;
        if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                (void)fprintf(stderr, "bailey: gateway: %s\n", text_or(text, "failed"));
}

/* --- questions, which only a program behind a link answers --- */

static void gateway_on_ask(void *arg, uint64_t id, const struct authority *target, enum event_via via,
                           const char *about) {
        const struct macos_gateway *gateway = arg;
        const struct link *link = gateway->link->link;

        (void)via;
        if (!link_answers(link, about) || !link_ask(link, id, target, about))
                gateway_process_answer(gateway->process, id, DECISION_DENY);
}

static void gateway_on_ask_gone(void *arg, uint64_t id, bool expired) {
        const struct macos_gateway *gateway = arg;

        link_ask_gone(gateway->link->link, id, expired);
}

void macos_gateway_answer(struct macos_gateway *gateway, uint64_t id, bool allow) {
        if (gateway->process)
                gateway_process_answer(gateway->process, id, allow ? DECISION_ALLOW : DECISION_DENY);
}

/* --- its rules --- */

static int gateway_compile(void *arg, void **ret_snapshot, size_t *ret_n, struct err *err) {
        const struct macos_gateway *gateway = arg;

        return host_addresses_compile(gateway->network ? gateway->network : gateway->policy, ret_snapshot, ret_n, err);
}

int macos_gateway_use(struct macos_gateway *gateway, const struct link_heard *heard, struct err *err) {
        cleanup(close_fd) int told = heard->judged;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;

        policy_free(gateway->network);
        gateway->network = heard->policy;
        if (!gateway->process) { /* nothing is judged, or one that starts later takes it then */
                (void)!send(told, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
                return 0;
        }

        int r = gateway_compile(gateway, &snapshot, &n, err);
        if (r < 0)
                return r;

        r = gateway_process_reload(gateway->process, heard->policy, snapshot, n, err);
        if (r < 0)
                return r;

        gateway_process_when_judged(gateway->process, take_fd(&told));
        return 0;
}

/* --- the part of the poller --- */

static void gateway_watch(void *arg, struct poller *poller) {
        const struct macos_gateway *gateway = arg;

        gateway_process_watch(gateway->process, poller);
        if (gateway->vault)
                vault_session_watch(gateway->vault, poller);
        poller_until(poller, 0); /* whoever takes a turn does not wait here */
}

static int gateway_step(void *arg, struct poller *poller, struct err *err) {
        const struct macos_gateway *gateway = arg;

        (void)err;
        if (gateway->vault)
                vault_session_step(gateway->vault, poller);
        gateway_process_step(gateway->process, poller);
        return 0;
}

/* --- its start --- */

static int fill_start(const struct macos_gateway *gateway, const char *id, const char *hosts_file,
                      struct gateway_start *start, struct err *err) {
        gateway_start_init(start);
        start->dns_mode = DNS_REAL;
        start->n_listeners = 2;
        start->listeners[0].kind = LISTENER_HTTP;
        start->listeners[1].kind = LISTENER_SOCKS5;
        (void)snprintf(start->client_secret, sizeof start->client_secret, "%s", gateway->secret);
        (void)snprintf(start->sandbox_id, sizeof start->sandbox_id, "%s", id);

        int n = snprintf(start->hosts_file, sizeof start->hosts_file, "%s", text_or(hosts_file, ""));
        if ((size_t)n >= sizeof start->hosts_file)
                return err_set(err, E2BIG, "the hosts file's path is too long");
        n = snprintf(start->ca_bundle, sizeof start->ca_bundle, "%s", text_or(gateway->ca_bundle, ""));
        if ((size_t)n >= sizeof start->ca_bundle)
                return err_set(err, E2BIG, "the path of the roots is too long");

        return gateway_config_apply(start, gateway->policy, err);
}

static int make_process(struct macos_gateway *gateway, struct gateway_settings *settings, struct err *err) {
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        int r = host_addresses_watch(&settings->addresses, err); /* first: an address that comes meanwhile is seen */
        if (r < 0)
                return r;

        r = gateway_compile(gateway, &snapshot, &n, err);
        if (r < 0) {
                close_fd(&settings->addresses);
                return r;
        }

        return gateway_process_new(settings, snapshot, n, &gateway->process, err);
}

int macos_gateway_start(struct macos_gateway *gateway, struct audit *audit, const char *id, const char *hosts_file,
                        struct err *err) {
        if (gateway->listeners[0] < 0)
                return 0;

        (void)signal(SIGPIPE, SIG_IGN); /* a gateway that dies; older kernels know no MSG_NOSIGNAL */
        struct gateway_settings settings = { .listeners = gateway->listeners,
                                             .n_listeners = 2,
                                             .audit = audit,
                                             .compile = gateway_compile,
                                             .on_event = gateway_on_event,
                                             .on_notice = gateway_on_notice,
                                             .arg = gateway };
        if (gateway->vault)
                vault_session_gateway(gateway->vault, &settings);
        bool asks = gateway->link && gateway->link->link && gateway->link->link->asks;
        if (asks) {
                settings.on_ask = gateway_on_ask;
                settings.on_ask_gone = gateway_on_ask_gone;
        }

        int r = fill_start(gateway, id, hosts_file, &settings.start, err);
        settings.start.can_ask = asks;
        if (r == 0)
                r = make_process(gateway, &settings, err);
        secret_wipe(&settings.start, sizeof settings.start);
        if (r < 0)
                return r;

        poller_add(&gateway->poller, &(struct poller_part){ gateway_watch, gateway_step, gateway });
        return gateway_process_start(gateway->process, err);
}

void macos_gateway_turn(struct macos_gateway *gateway) {
        struct err failed = { 0 };

        if (gateway->process && poller_round(&gateway->poller, &failed) < 0)
                (void)fprintf(stderr, "bailey: gateway: %s\n", err_text(&failed));
}

void macos_gateway_done(struct macos_gateway *gateway) {
        gateway_process_free(gateway->process);
        gateway->process = NULL;
        poller_done(&gateway->poller);
        close_fd(&gateway->listeners[0]);
        close_fd(&gateway->listeners[1]);
        policy_free(gateway->network);
        gateway->network = NULL;
        secret_wipe(gateway->secret, sizeof gateway->secret);
}
