/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/gateway_service.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secret.h"
#include "control/link.h"
#include "control/live.h"
#include "policy/load.h"
#include "roles/gateway_changes.h"
#include "roles/gateway_config.h"
#include "roles/gateway_process.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "roles/vault_session.h"
#include "store/audit_keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { RUN_ID = 9, CHANGES_MAX = 65536 };

struct service {
        const struct service_settings *settings;
        struct gateway_start start;
        struct policy *policy; /* that judges now */
        int listeners[GATEWAY_LISTENERS_MAX];
        struct endpoint endpoints[GATEWAY_LISTENERS_MAX];
        struct service_listener shown[GATEWAY_LISTENERS_MAX];
        size_t n_listeners, n_shown;
        char run_id[RUN_ID];
        struct audit *audit;
        struct gateway_process *gateway;
        struct vault_session vaults[2], *vault; /* the second is there while one takes over from the other */
        struct {
                bool asked;
                int ticket;
                struct buf changes;
        } reload;             /* whoever wants to know is told when the gateway has it */
        struct live *control; /* NULL: a program is asked instead (link) */
        struct terminal terminal;
        struct policy *no_network; /* for live: none but the policy itself */
        char *words[4];            /* what people see of it */
        int signals;
        sigset_t old_mask;
        bool masked, was_ready, ended, link_gone;
        struct err failure; /* why it could not start */
};

static void say(const struct service *s, bool bad, const char *text) {
        s->settings->on_message(s->settings->arg, bad, text);
}

/*
 * Listeners.
 */
static int add_listener(struct service *s, enum listener_kind kind, int fd, const struct endpoint *at, struct err *e) {
        if (s->n_listeners == GATEWAY_LISTENERS_MAX) {
                close(fd);
                return err_set(e, EINVAL, "more than %d listeners", GATEWAY_LISTENERS_MAX);
        }
        s->start.listeners[s->n_listeners].kind = (uint16_t)kind;
        s->endpoints[s->n_listeners] = *at;
        s->listeners[s->n_listeners++] = fd;
        return 0;
}

static void show_listener(struct service *s, const char *kind, const struct endpoint *at) {
        struct service_listener *l = &s->shown[s->n_shown++];
        char text[LISTEN_TEXT_MAX];
        listen_text(at, text);
        l->kind = kind;
        snprintf(l->address, sizeof l->address, "%s", text);
}

static int open_one(struct service *s, const char *kind, const char *text, struct err *e) {
        struct endpoint at;
        int fd, tcp = -1, r = listen_parse(str_of(text), &at, e);
        if (r < 0)
                return err_wrap(e, r, "--%s", kind);
        bool dns = strcmp(kind, "dns") == 0;
        r = dns ? listen_dns(&at, &fd, &tcp, e) : listen_tcp(&at, &fd, e);
        if (r < 0)
                return r;
        enum listener_kind first = dns ? LISTENER_DNS_UDP : strcmp(kind, "http") == 0 ? LISTENER_HTTP : LISTENER_SOCKS5;
        r = add_listener(s, first, fd, &at, e);
        if (dns && r < 0)
                close(tcp);
        else if (dns)
                r = add_listener(s, LISTENER_DNS_TCP, tcp, &at, e);
        if (r == 0)
                show_listener(s, kind, &at);
        return r;
}

static int open_listeners(struct service *s, struct err *e) {
        const struct {
                const char *kind;
                const char *const *texts;
        } all[] = { { "http", s->settings->http }, { "socks", s->settings->socks }, { "dns", s->settings->dns } };
        int r = 0;
        for (size_t k = 0; k < 3; k++)
                for (const char *const *t = all[k].texts; t && *t && r == 0; t++)
                        r = open_one(s, all[k].kind, *t, e);
        if (r == 0 && s->n_listeners == 0)
                return err_set(e, EINVAL, "nothing to listen on: give --http, --socks or --dns with ADDRESS:PORT");
        return r;
}

/*
 * The policy. This host's own addresses and the listeners themselves stay out of reach.
 */
static int compile_policy(const struct service *s, const struct policy *p, void **ret, size_t *ret_n, struct err *e) {
        cleanup(endpoints_done) endpoints self = { 0 };
        int r = host_addresses(&self, e);
        for (size_t i = 0; r == 0 && i < s->n_listeners; i++)
                if (vec_push(&self, s->endpoints[i]) < 0)
                        r = err_set(e, ENOMEM, "out of memory");
        return r < 0 ? r : policy_compile_network(p, self.p, self.n, ret, ret_n, e);
}

/* A service has no terminal for questions. It is said once, not at every reload. */
static void ask_nobody(struct service *s, struct policy *p) {
        p->network.ask = ASK_NEVER;
        if (!s->policy)
                say(s, true,
                    "nobody can be asked here: hosts that no rule names are refused; with --ask control they wait for "
                    "\"bailey "
                    "allow\"");
}

static int load_policy(struct service *s, struct policy **ret_policy, void **ret_snapshot, size_t *ret_n,
                       struct err *e) {
        struct policy_request request = { .command_line = s->settings->options };
        cleanup(policy_freep) struct policy *p = NULL;
        if (s->settings->policy)
                request = *s->settings->policy;
        request.network_only = true;
        request.remembered = true;
        int r = policy_load(&request, &p, e);
        if (r == 0 && p->network.ask == ASK_TTY && !s->settings->link)
                ask_nobody(s, p);
        r = r < 0 ? r : live_keep_rules(s->control, p, e);
        r = r < 0 ? r : compile_policy(s, p, ret_snapshot, ret_n, e);
        if (r == 0)
                *ret_policy = take_ptr(&p);
        return r;
}

/* This host's addresses have changed. The policy is the one that judges, not the file, which may be half edited. */
static int compile_again(void *arg, void **ret_snapshot, size_t *ret_n, struct err *e) {
        const struct service *s = arg;
        return compile_policy(s, s->policy, ret_snapshot, ret_n, e);
}

static void answer(struct service *s, bool ok, const char *text) {
        if (s->reload.asked && s->settings->on_reloaded)
                s->settings->on_reloaded(s->settings->arg, s->reload.ticket, ok, text);
        s->reload.asked = false;
}

static void answer_done(struct service *s) {
        const char *changes = buf_text(&s->reload.changes);
        answer(s, true, changes ? changes : "");
}

static int make_gateway(struct service *s, int *addresses, const void *snapshot, size_t n, struct err *e);
static int configure(struct service *s, const struct policy *p, struct err *e);
static int open_vault(struct service *s, struct policy *p, struct vault_session *v, struct err *e);

/* What a vault and a gateway are told only once has changed: new ones take their place, on the same listeners. All that
 * can fail because of what the policy says is done before the old ones go. */
static int renew(struct service *s, struct policy *p, const void *snapshot, size_t n, struct err *e) {
        cleanup(close_fd) int addresses = -1;
        struct vault_session *next = s->vault == &s->vaults[0] ? &s->vaults[1] : &s->vaults[0];
        int r = host_addresses_watch(&addresses, e);
        r = r < 0 ? r : open_vault(s, p, next, e);
        r = r < 0 ? r : configure(s, p, e);
        if (r < 0) {
                vault_session_close(next);
                return r;
        }
        live_notice(s->control, NOTICE_DIED, "replaced, since the settings have changed"); /* with its questions */
        gateway_process_free(s->gateway);
        s->gateway = NULL;
        vault_session_close(s->vault);
        s->vault = next;
        r = make_gateway(s, &addresses, snapshot, n, e);
        if (r < 0) { /* this machine's fault, and nothing serves now */
                err_set(&s->failure, -r, "%s", err_text(e));
                s->ended = true;
        }
        return r;
}

static int take_policy(struct service *s, struct policy *p, const void *snapshot, size_t n, struct err *e) {
        bool told_once = !gateway_config_equal(s->policy, p), fits = vault_session_fits(s->vault, p);
        if (s->settings->place && (told_once || !fits))
                return renew(s, p, snapshot, n, e);
        int r = gateway_process_reload(s->gateway, p, snapshot, n, e);
        if (r == 0 && s->vault->process)
                vault_process_reload(s->vault->process);
        if (r == 0 && !fits)
                say(s, true,
                    "the credentials of the policy have changed; they count when the gateway is started again");
        if (r == 0 && told_once)
                say(s, true,
                    "name servers or the upstream proxy have changed; they count when the gateway is started again");
        return r;
}

/* From the files as they are now, or `given`, which it takes. */
static int reload(struct service *s, struct policy *given, struct err *ret) {
        cleanup(policy_freep) struct policy *p = given;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        struct err e = { 0 };
        int r = p ? compile_policy(s, p, &snapshot, &n, &e) : load_policy(s, &p, &snapshot, &n, &e);
        if (r == 0) {
                buf_clear(&s->reload.changes);
                r = gateway_changes(s->policy, p, &s->reload.changes);
                r = r < 0 ? err_set(&e, -r, "what has changed is too much to be told")
                          : take_policy(s, p, snapshot, n, &e);
        }
        if (r == 0) { /* NOTICE_RELOADED, or of a new gateway NOTICE_READY, follows */
                policy_free(s->policy);
                s->policy = take_ptr(&p);
                r = live_policy(s->control, &e);
                if (r < 0)
                        say(s, true, err_text(&e));
                return 0;
        }
        char text[ERR_TEXT_MAX + 64];
        snprintf(text, sizeof text, "not reloaded, the old rules stay: %s", err_text(&e));
        (void)audit_note(s->audit, "%s", text);
        say(s, true, text);
        answer(s, false, err_text(&e));
        return err_set(ret, -r, "%s", err_text(&e));
}

/*
 * The gateway.
 */
static void on_notice(void *arg, enum gateway_notice notice, const char *text) {
        struct service *s = arg;
        char line[ERR_TEXT_MAX + 128];
        live_notice(s->control, notice, text);
        const struct service_info info = { .listeners = s->shown,
                                           .n_listeners = s->n_shown,
                                           .audit = audit_path(s->audit),
                                           .run_id = s->run_id,
                                           .gateway_pid = gateway_process_pid(s->gateway),
                                           .ca_bundle = s->vault->bundle,
                                           .stand_ins = (const char *const *)s->vault->stand_ins.p,
                                           .base_urls = (const char *const *)s->vault->base_urls.p };
        switch (notice) {
        case NOTICE_READY:
                s->was_ready = true;
                s->settings->on_ready(s->settings->arg, &info);
                answer_done(s);
                return;
        case NOTICE_CANNOT_START:
                if (!s->was_ready) { /* nothing worked yet: this is a failure to start, not a fault on the way */
                        err_set(&s->failure, EPROTO, "the gateway could not start: %s", text);
                        gateway_process_stop(s->gateway);
                        return;
                }
                snprintf(line, sizeof line, "the gateway could not be started again: %s", text);
                answer(s, false, line);
                break;
        case NOTICE_DIED:
                snprintf(line, sizeof line, "the gateway died, open connections are closed: %s", text);
                break;
        case NOTICE_AUDIT_FAILED:
                snprintf(line, sizeof line, "new connections are refused, since the audit log fails: %s", text);
                break;
        case NOTICE_AUDIT_RESTORED:
                say(s, false, "the audit log can be written again");
                return;
        case NOTICE_RELOADED:
                snprintf(line, sizeof line, "reloaded: %s", text);
                say(s, false, line);
                answer_done(s);
                return;
        case NOTICE_STOPPED:
                s->ended = true;
                return;
        }
        say(s, true, line);
}

/* A program that started it is asked, or people (bailey pending). */
static void on_ask(void *arg, uint64_t id, const struct authority *target, enum event_via via, const char *push) {
        struct service *s = arg;

        if (s->control)
                live_ask(s->control, id, target, via, push);
        else if (!s->settings->link || push[0] || !link_ask(s->settings->link, id, target))
                gateway_process_answer(s->gateway, id, DECISION_DENY);
}

static void on_ask_gone(void *arg, uint64_t id, bool expired) {
        const struct service *s = arg;

        if (s->control)
                live_ask_gone(s->control, id, expired);
        else if (s->settings->link)
                link_ask_gone(s->settings->link, id);
}

static void on_event(void *arg, const struct event *ev, const struct snapshot_rule *rule) {
        live_event(((const struct service *)arg)->control, ev, rule);
}

static int make_gateway(struct service *s, int *addresses, const void *snapshot, size_t n, struct err *e) {
        struct gateway_settings g = { .start = s->start,
                                      .listeners = s->listeners,
                                      .n_listeners = s->n_listeners,
                                      .audit = s->audit,
                                      .addresses = take_fd(addresses),
                                      .compile = compile_again,
                                      .on_notice = on_notice,
                                      .on_event = on_event,
                                      .on_ask = on_ask,
                                      .on_ask_gone = on_ask_gone,
                                      .arg = s };
        vault_session_gateway(s->vault, &g);
        int r = gateway_process_new(&g, snapshot, n, &s->gateway, e);
        secret_wipe(g.start.upstream_password, sizeof g.start.upstream_password);
        secret_wipe(s->start.upstream_password, sizeof s->start.upstream_password);
        return r < 0 ? r : gateway_process_start(s->gateway, e);
}

static int open_audit(struct service *s, const struct policy *p, struct err *e) {
        cleanup(free_ptr) char *path = NULL;
        random_id(s->run_id, sizeof s->run_id);
        int r = p->audit_path ? 0 : audit_run_path(s->run_id, &path, e);
        if (r < 0)
                return r;
        const struct audit_settings a = { .path = path ? path : p->audit_path,
                                          .run_id = s->run_id,
                                          .sandbox = "gateway" };
        r = audit_open(&a, &s->audit, e);
        if (r == 0)
                r = audit_note(s->audit, "gateway of its own, run %s", s->run_id);
        if (r == 0)
                r = audit_flush(s->audit, e);
        if (r == 0 && path)
                audit_keep_sometimes(&(struct audit_limits){ p->log.max_age_ns, p->log.max_bytes });
        return r;
}

static int configure(struct service *s, const struct policy *p, struct err *e) {
        const struct service_settings *o = s->settings;
        int r = gateway_config_apply(&s->start, p, e);
        s->start.dns_mode = DNS_REAL;
        s->start.workers = o->workers;
        s->start.log_level = o->log_level;
        s->start.can_ask = 1; /* what nobody can be asked is denied by on_ask() */
        int a = snprintf(s->start.hosts_file, sizeof s->start.hosts_file, "%s", o->hosts_file ? o->hosts_file : "");
        int b = snprintf(s->start.ca_bundle, sizeof s->start.ca_bundle, "%s", o->ca_bundle ? o->ca_bundle : "");
        if (r == 0 && (a >= (int)sizeof s->start.hosts_file || b >= (int)sizeof s->start.ca_bundle))
                return err_set(e, ENAMETOOLONG, "the path of the hosts file or of the CA bundle is too long");
        return r;
}

/*
 * What people see of it: bailey ps, pending, allow, deny, events, kill.
 */
static int cannot_freeze(void *arg) {
        (void)arg;
        return -EOPNOTSUPP;
}

static void end_by_order(void *arg, int status) {
        struct service *s = arg;
        (void)status;
        gateway_process_stop(s->gateway);
}

static int compile_for_control(void *arg, const struct policy *p, void **ret, size_t *ret_n, struct err *e) {
        return compile_policy(arg, p, ret, ret_n, e);
}

static int reload_for_control(void *arg, struct err *e) {
        return reload(arg, NULL, e);
}

static int open_control(struct service *s, struct err *e) {
        const struct live_parts parts = { .id = s->run_id,
                                          .argv = s->words,
                                          .policy = &s->policy,
                                          .network = &s->no_network,
                                          .gateway = &s->gateway,
                                          .freeze = cannot_freeze,
                                          .thaw = cannot_freeze,
                                          .cannot_freeze = true,
                                          .terminal = &s->terminal,
                                          .audit = &s->audit,
                                          .end = end_by_order,
                                          .compile = compile_for_control,
                                          .reload = reload_for_control,
                                          .run = s };
        if (s->settings->link)
                return 0;
        s->words[0] = (char *)"bailey";
        s->words[1] = (char *)(s->settings->name ? s->settings->name : "gateway");
        s->words[2] = s->n_shown ? s->shown[0].address : NULL;
        cleanup(free_ptr) char *directory = NULL;
        int r = live_place(false, &directory, e);
        return r < 0 ? r : live_new(&parts, &s->control, e);
}

/*
 * The loop.
 */
static int catch_signals(struct service *s, struct err *e) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &set, &s->old_mask) < 0)
                return err_errno(e, "cannot hold signals back");
        s->masked = true;
        s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return s->signals < 0 ? err_errno(e, "cannot watch for signals") : 0;
}

static void on_signals(struct service *s) {
        struct signalfd_siginfo info;
        while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
                if (info.ssi_signo == SIGHUP) {
                        s->reload.asked = true;
                        s->reload.ticket = info.ssi_code == SI_QUEUE ? info.ssi_int : 0;
                        (void)reload(s, NULL, NULL);
                } else if (gateway_process_state(s->gateway) == GATEWAY_STOPPING)
                        s->ended = true; /* asked twice: at once */
                else {
                        (void)audit_note(s->audit, "asked to end by signal %u", info.ssi_signo);
                        gateway_process_stop(s->gateway);
                }
        }
}

static void on_link(struct service *s) {
        struct link_heard heard = { 0 };
        switch (link_hear(s->settings->link, &heard)) {
        case LINK_GONE:
                (void)audit_note(s->audit, "asked to end by the program that started it");
                s->link_gone = true;
                gateway_process_stop(s->gateway);
                break;
        case LINK_ANSWER:
                gateway_process_answer(s->gateway, heard.id, heard.allow ? DECISION_ALLOW : DECISION_DENY);
                break;
        case LINK_POLICY:
                if (reload(s, heard.policy, NULL) == 0)
                        gateway_process_when_judged(s->gateway, heard.judged);
                else
                        close_fd(&heard.judged);
                break;
        default:
                break;
        }
}

enum { WATCHED = 2 }; /* signals, the link */

static void loop(struct service *s) {
        const struct link *link = s->settings->link;
        while (!s->ended) {
                struct pollfd fds[WATCHED + GATEWAY_POLL_MAX + VAULT_POLL_MAX + LIVE_POLL_MAX] = {
                        { .fd = s->signals, .events = POLLIN },
                        { .fd = link && !s->link_gone ? link->fd : -1, .events = POLLIN },
                };
                int timeout = -1;
                size_t n = gateway_process_poll(s->gateway, fds + WATCHED, GATEWAY_POLL_MAX, &timeout);
                struct pollfd *vault = fds + WATCHED + n;
                size_t v = vault_session_poll(s->vault, vault, VAULT_POLL_MAX, &timeout);
                struct pollfd *control = vault + v;
                size_t k = live_poll(s->control, control, &timeout);
                if (poll(fds, n + v + k + WATCHED, timeout) < 0 && errno != EINTR)
                        return;
                vault_session_step(s->vault, vault, v);
                gateway_process_step(s->gateway, fds + WATCHED, n);
                if (!s->ended) /* from here on vault and gateway may be others */
                        live_step(s->control, control, k);
                if (fds[0].revents && !s->ended)
                        on_signals(s);
                if (fds[1].revents && !s->ended)
                        on_link(s);
        }
}

/* Values must be there before anybody connects. */
static int open_vault(struct service *s, struct policy *p, struct vault_session *v, struct err *e) {
        const struct vault_session_request q = {
                .policy = p,
                .id = s->run_id,
                .roots = s->settings->ca_bundle,
                .environment = environ,
                .place = s->settings->place,
                .service = true,
        };
        v->gateway = &s->gateway;
        v->audit = &s->audit;
        return vault_session_open(v, &q, e);
}

static void service_done(struct service *s) {
        live_free(s->control, 0);
        gateway_process_free(s->gateway);
        vault_session_close(&s->vaults[0]);
        vault_session_close(&s->vaults[1]);
        buf_done(&s->reload.changes);
        policy_free(s->policy);
        audit_free(s->audit);
        for (size_t i = 0; i < s->n_listeners; i++)
                close(s->listeners[i]);
        close_fd(&s->signals);
        if (s->masked)
                sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

static int prepare(struct service *s, struct err *e) {
        cleanup(close_fd) int addresses = -1;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        err_blame(e, ERR_USAGE);
        int r = open_listeners(s, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = host_addresses_watch(&addresses, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_CONFIG);
        r = load_policy(s, &s->policy, &snapshot, &n, e);
        if (r == 0)
                r = configure(s, s->policy, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = open_audit(s, s->policy, e);
        if (r == 0)
                r = catch_signals(s, e);
        if (r == 0)
                r = open_vault(s, s->policy, s->vault, e);
        if (r == 0)
                r = open_control(s, e);
        return r < 0 ? r : make_gateway(s, &addresses, snapshot, n, e);
}

int gateway_service_run(const struct service_settings *settings, struct err *e) {
        cleanup(service_done) struct service s = { .settings = settings,
                                                   .vaults = { VAULT_SESSION_NONE, VAULT_SESSION_NONE },
                                                   .reload.changes = BUF(CHANGES_MAX),
                                                   .terminal.fd = -1,
                                                   .signals = -1 };
        s.vault = &s.vaults[0];
        gateway_start_init(&s.start);
        int r = prepare(&s, e);
        if (r < 0)
                return r;
        loop(&s);
        live_free(s.control, 0);
        s.control = NULL;
        gateway_process_free(s.gateway);
        s.gateway = NULL;
        vault_session_close(s.vault);
        r = audit_close(s.audit, e);
        s.audit = NULL;
        if (s.failure.code)
                return err_set(e, s.failure.code, "%s", err_text(&s.failure));
        return r;
}
