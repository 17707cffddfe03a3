/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/gateway_service.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secret.h"
#include "control/session.h"
#include "policy/load.h"
#include "policy/served.h"
#include "roles/gateway_changes.h"
#include "roles/gateway_config.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "store/audit_keep.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { ID_SIZE = 9, CHANGES_MAX = 65536 };

struct service {
        const struct service_settings *settings;
        struct gateway_start start;
        struct session session;
        int listeners[GATEWAY_LISTENERS_MAX];
        struct endpoint endpoints[GATEWAY_LISTENERS_MAX];
        struct service_listener shown[GATEWAY_LISTENERS_MAX];
        size_t n_listeners, n_shown;
        struct {
                bool asked;
                int ticket;
                struct buf changes;
        } reload;       /* whoever wants to know is told when the gateway has it */
        char *words[6]; /* what people see of it */
        bool was_ready;
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

/* Rules for one container are those of a gateway that is for that container alone. */
static int take_clients(struct service *s, struct err *e) {
        for (const char *const *t = s->settings->from; t && *t; t++) {
                if (s->start.n_clients == GATEWAY_CLIENTS_MAX)
                        return err_set(e, EINVAL, "more than %d times --from", GATEWAY_CLIENTS_MAX);
                if (!cidr_parse(str_of(*t), &s->start.clients[s->start.n_clients]))
                        return err_set(e, EINVAL, "--from %s: this is no address and no network (10.1.2.0/24)", *t);
                s->start.n_clients++;
        }
        return 0;
}

/*
 * The policy. This host's own addresses and the listeners themselves stay out of reach.
 */
static int compile_policy(const struct service *s, const struct policy *p, void **ret, size_t *ret_n, struct err *e) {
        cleanup(endpoints_done) endpoints self = { 0 };
        int r = host_addresses(&self, e);
        for (size_t i = 0; r == 0 && i < s->n_listeners; i++)
                if (vec_push(&self, s->endpoints[i]) < 0)
                        r = err_memory(e);
        return r < 0 ? r : policy_compile_network(p, self.p, self.n, ret, ret_n, e);
}

/* A service has no terminal for questions. It is said once, not at every reload. */
static void ask_nobody(struct service *s, struct policy *p) {
        p->network.ask = ASK_NEVER;
        if (!s->session.policy)
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
        if (r == 0)
                r = policy_check_served(p, PLACE_GATEWAY, e);
        if (r == 0 && p->network.ask == ASK_TTY && !s->settings->link)
                ask_nobody(s, p);
        r = r < 0 ? r : live_keep_rules(s->session.control, p, e);
        r = r < 0 ? r : compile_policy(s, p, ret_snapshot, ret_n, e);
        if (r == 0)
                *ret_policy = take_ptr(&p);
        return r;
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
        struct vault_session *next =
            s->session.vault == &s->session.vaults[0] ? &s->session.vaults[1] : &s->session.vaults[0];
        int r = host_addresses_watch(&addresses, e);
        r = r < 0 ? r : open_vault(s, p, next, e);
        r = r < 0 ? r : configure(s, p, e);
        if (r < 0) {
                vault_session_close(next);
                return r;
        }
        live_notice(s->session.control, NOTICE_DIED,
                    "replaced, since the settings have changed"); /* with its questions */
        session_close_gateway(&s->session);
        vault_session_close(s->session.vault);
        s->session.vault = next;
        r = make_gateway(s, &addresses, snapshot, n, e);
        if (r < 0) { /* this machine's fault, and nothing serves now */
                err_set(&s->failure, -r, "%s", err_text(e));
                s->session.ended = true;
        }
        return r;
}

static int take_policy(struct service *s, struct policy *p, const void *snapshot, size_t n, struct err *e) {
        bool told_once = !gateway_config_equal(s->session.policy, p), fits = vault_session_fits(s->session.vault, p);
        if (s->settings->place && (told_once || !fits))
                return renew(s, p, snapshot, n, e);
        int r = gateway_process_reload(s->session.gateway, p, snapshot, n, e);
        if (r == 0 && s->session.vault->process)
                vault_process_reload(s->session.vault->process);
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
                r = gateway_changes(s->session.policy, p, &s->reload.changes);
                r = r < 0 ? err_set(&e, -r, "what has changed is too much to be told")
                          : take_policy(s, p, snapshot, n, &e);
        }
        if (r == 0) { /* NOTICE_RELOADED, or of a new gateway NOTICE_READY, follows */
                policy_free(s->session.policy);
                s->session.policy = take_ptr(&p);
                r = live_policy(s->session.control, &e);
                if (r < 0)
                        say(s, true, err_text(&e));
                return 0;
        }
        char text[ERR_TEXT_MAX + 64];
        snprintf(text, sizeof text, "not reloaded, the old rules stay: %s", err_text(&e));
        (void)audit_note(s->session.audit, "%s", text);
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
        const struct service_info info = { .listeners = s->shown,
                                           .n_listeners = s->n_shown,
                                           .audit = audit_path(s->session.audit),
                                           .run_id = s->session.id,
                                           .gateway_pid = gateway_process_pid(s->session.gateway),
                                           .ca_bundle = s->session.vault->bundle,
                                           .stand_ins = (const char *const *)s->session.vault->stand_ins.p,
                                           .base_urls = (const char *const *)s->session.vault->base_urls.p };
        switch (notice) {
        case NOTICE_READY:
                s->was_ready = true;
                s->settings->on_ready(s->settings->arg, &info);
                answer_done(s);
                return;
        case NOTICE_CANNOT_START:
                if (!s->was_ready) { /* nothing worked yet: this is a failure to start, not a fault on the way */
                        err_set(&s->failure, EPROTO, "the gateway could not start: %s", text);
                        gateway_process_stop(s->session.gateway);
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
                s->session.ended = true;
                return;
        }
        say(s, true, line);
}

static int make_gateway(struct service *s, int *addresses, const void *snapshot, size_t n, struct err *e) {
        struct gateway_settings settings = { .start = s->start,
                                             .listeners = s->listeners,
                                             .n_listeners = s->n_listeners };

        int r = session_open_gateway(&s->session, &settings, addresses, snapshot, n, e);
        secret_wipe(s->start.upstream_password, sizeof s->start.upstream_password);
        return r < 0 ? r : gateway_process_start(s->session.gateway, e);
}

static int open_audit(struct service *s, const struct policy *p, struct err *e) {
        cleanup(free_ptr) char *path = NULL;
        random_id(s->session.id, ID_SIZE);
        int r = p->audit_path ? 0 : audit_run_path(s->session.id, &path, e);
        if (r < 0)
                return r;
        r = session_open_audit(&s->session, path ? path : p->audit_path, "gateway", e);
        if (r == 0)
                r = audit_note(s->session.audit, "gateway of its own, run %s", s->session.id);
        if (r == 0)
                r = audit_flush(s->session.audit, e);
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
        gateway_process_stop(s->session.gateway);
}

static int compile_for_service(void *arg, const struct policy *p, void **ret, size_t *ret_n, struct err *e) {
        return compile_policy(arg, p, ret, ret_n, e);
}

static int reload_for_control(void *arg, struct err *e) {
        return reload(arg, NULL, e);
}

static int open_control(struct service *s, struct err *e) {
        const struct live_parts parts = { .argv = s->words,
                                          .freeze = cannot_freeze,
                                          .thaw = cannot_freeze,
                                          .cannot_freeze = true,
                                          .end = end_by_order,
                                          .compile = compile_for_service,
                                          .reload = reload_for_control,
                                          .run = s };
        if (s->settings->link)
                return 0;
        s->words[0] = (char *)"bailey";
        s->words[1] = (char *)(s->settings->name ? s->settings->name : "gateway");
        s->words[2] = s->n_shown ? s->shown[0].address : NULL;
        if (s->words[2] && s->settings->from && s->settings->from[0]) {
                s->words[3] = (char *)"--from";
                s->words[4] = (char *)s->settings->from[0];
        }
        cleanup(free_ptr) char *directory = NULL;
        int r = live_place(false, &directory, e);
        return r < 0 ? r : session_open_control(&s->session, &parts, e);
}

/*
 * The loop.
 */
static void service_on_signal(void *owner, const struct signalfd_siginfo *info) {
        struct service *s = owner;

        if (info->ssi_signo == SIGHUP) {
                s->reload.asked = true;
                s->reload.ticket = info->ssi_code == SI_QUEUE ? info->ssi_int : 0;
                (void)reload(s, NULL, NULL);
        } else if (gateway_process_state(s->session.gateway) == ROLE_STOPPING) {
                s->session.ended = true; /* asked twice: at once */
        } else {
                (void)audit_note(s->session.audit, "asked to end by signal %u", info->ssi_signo);
                gateway_process_stop(s->session.gateway);
        }
}

static int service_on_link_gone(void *owner, struct err *err) {
        struct service *s = owner;
        (void)err;

        (void)audit_note(s->session.audit, "asked to end by the program that started it");
        gateway_process_stop(s->session.gateway);
        return 0;
}

static int service_on_link_policy(void *owner, const struct link_heard *heard, struct err *err) {
        struct service *s = owner;
        int judged = heard->judged;
        (void)err;

        if (reload(s, heard->policy, NULL) == 0)
                gateway_process_when_judged(s->session.gateway, judged);
        else
                close_fd(&judged);
        return 0;
}

static const struct session_calls service_calls = {
        .on_signal = service_on_signal,
        .on_link_gone = service_on_link_gone,
        .on_link_policy = service_on_link_policy,
        .on_notice = on_notice,
        .compile = compile_for_service,
};

/* From the control on, vault and gateway may be others at the end of a step. */
static void service_loop(struct service *s) {
        session_add(&s->session, SESSION_VAULT);
        session_add(&s->session, SESSION_GATEWAY);
        session_add(&s->session, SESSION_CONTROL);
        session_add(&s->session, SESSION_SIGNALS);
        session_add(&s->session, SESSION_LINK);
        (void)session_loop(&s->session, NULL);
}

/* Values must be there before anybody connects. */
static int open_vault(struct service *s, struct policy *p, struct vault_session *v, struct err *e) {
        const struct vault_session_request q = {
                .policy = p,
                .id = s->session.id,
                .roots = s->settings->ca_bundle,
                .environment = environ,
                .place = s->settings->place,
                .service = true,
        };
        return vault_session_open(v, &q, e);
}

static void service_done(struct service *s) {
        session_done(&s->session);
        buf_done(&s->reload.changes);
        for (size_t i = 0; i < s->n_listeners; i++)
                close(s->listeners[i]);
}

static int prepare(struct service *s, struct err *e) {
        static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };
        cleanup(close_fd) int addresses = -1;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        err_blame(e, ERR_USAGE);
        int r = take_clients(s, e);
        r = r < 0 ? r : open_listeners(s, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = host_addresses_watch(&addresses, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_CONFIG);
        r = load_policy(s, &s->session.policy, &snapshot, &n, e);
        if (r == 0)
                r = configure(s, s->session.policy, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = open_audit(s, s->session.policy, e);
        if (r == 0)
                r = session_catch(&s->session, numbers, sizeof numbers / sizeof *numbers, e);
        if (r == 0)
                r = open_vault(s, s->session.policy, s->session.vault, e);
        if (r == 0)
                r = open_control(s, e);
        return r < 0 ? r : make_gateway(s, &addresses, snapshot, n, e);
}

int gateway_service_run(const struct service_settings *settings, struct err *e) {
        cleanup(service_done) struct service s = { .settings = settings,
                                                   .session = SESSION_NONE,
                                                   .reload.changes = BUF(CHANGES_MAX) };

        session_init(&s.session, &service_calls, &s);
        s.session.link = settings->link;
        s.session.link_asks = settings->link != NULL;
        gateway_start_init(&s.start);
        int r = prepare(&s, e);
        if (r < 0)
                return r;

        service_loop(&s);
        session_close_control(&s.session, 0);
        session_close_gateway(&s.session);
        session_close_vaults(&s.session);
        r = audit_close(s.session.audit, e);
        s.session.audit = NULL;
        if (s.failure.code)
                return err_set(e, s.failure.code, "%s", err_text(&s.failure));
        return r;
}
