/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/gateway_service.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secrets/secret.h"
#include "control/session.h"
#include "policy/load.h"
#include "policy/paths/served.h"
#include "roles/gateway_changes.h"
#include "roles/gateway_config.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "store/audit_keep.h"

#include <errno.h>
#include <fcntl.h>
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
        } reload;       /* reported when the gateway has it */
        char *words[7]; /* what people see of it */
        bool was_ready;
        struct err failure; /* why it could not start */
};

static void service_say(const struct service *service, bool bad, const char *text) {
        service->settings->on_message(service->settings->arg, bad, text);
}

/*
 * Listeners.
 */
static int add_listener(struct service *service, enum listener_kind kind, int fd, const struct endpoint *at,
                        struct err *err) {
        if (service->n_listeners == GATEWAY_LISTENERS_MAX) {
                close(fd);
                return err_set(err, EINVAL, "more than %d listeners", GATEWAY_LISTENERS_MAX);
        }

        service->start.listeners[service->n_listeners].kind = (uint16_t)kind;
        service->endpoints[service->n_listeners] = *at;
        service->listeners[service->n_listeners++] = fd;

        return 0;
}

static void show_listener(struct service *service, const char *kind, const struct endpoint *at) {
        struct service_listener *listener = &service->shown[service->n_shown++];
        char text[LISTEN_TEXT_MAX];
        listen_text(at, text);
        listener->kind = kind;
        snprintf(listener->address, sizeof listener->address, "%s", text);
}

static int open_one(struct service *service, const char *kind, const char *text, struct err *err) {
        struct endpoint at;
        int fd, tcp = -1, r = listen_parse(str_of(text), &at, err);

        if (r < 0)
                return err_wrap(err, r, "--%s", kind);

        bool dns = strcmp(kind, "dns") == 0;
        if (dns)
                r = listen_dns(&at, &fd, &tcp, err);
        else
                r = listen_tcp(&at, &fd, err);
        if (r < 0)
                return r;

        enum listener_kind first;
        if (dns)
                first = LISTENER_DNS_UDP;
        else if (strcmp(kind, "http") == 0)
                first = LISTENER_HTTP;
        else
                first = LISTENER_SOCKS5;

        r = add_listener(service, first, fd, &at, err);
        if (dns && r < 0)
                close(tcp);
        else if (dns)
                r = add_listener(service, LISTENER_DNS_TCP, tcp, &at, err);

        if (r == 0)
                show_listener(service, kind, &at);

        return r;
}

/* The address is this service's as much as one that it listens on: nobody is led there. */
static int open_handed(struct service *service, const struct service_handed *handed, struct err *err) {
        struct endpoint at;
        int r = listen_parse(str_of(handed->address), &at, err);

        if (r < 0)
                return r;

        int fd = fcntl(handed->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return err_errno(err, "cannot take the connections that are handed over");

        r = add_listener(service, LISTENER_HANDED, fd, &at, err);
        if (r == 0)
                show_listener(service, "http", &at);

        return r;
}

static int open_listeners(struct service *service, struct err *err) {
        const struct {
                const char *kind;
                const char *const *texts;
        } all[] = { { "http", service->settings->http },
                    { "socks", service->settings->socks },
                    { "dns", service->settings->dns } };
        int r = 0;

        for (size_t k = 0; k < 3; k++)
                for (const char *const *t = all[k].texts; t && *t && r == 0; t++)
                        r = open_one(service, all[k].kind, *t, err);

        if (r == 0 && service->settings->handed)
                r = open_handed(service, service->settings->handed, err);

        if (r == 0 && service->n_listeners == 0)
                return err_set(err, EINVAL, "nothing to listen on: give --http, --socks or --dns with ADDRESS:PORT");

        return r;
}

/* Rules for one container are those of a gateway that is for that container alone. */
static int take_clients(struct service *service, struct err *err) {
        for (const char *const *t = service->settings->from; t && *t; t++) {
                if (service->start.n_clients == GATEWAY_CLIENTS_MAX)
                        return err_set(err, EINVAL, "more than %d times --from", GATEWAY_CLIENTS_MAX);
                if (!cidr_parse(str_of(*t), &service->start.clients[service->start.n_clients]))
                        return err_set(err, EINVAL, "--from %s: this is no address and no network (10.1.2.0/24)", *t);
                service->start.n_clients++;
        }

        return 0;
}

/*
 * The policy. This host's own addresses and the listeners themselves stay out of reach.
 */
static int compile_policy(const struct service *service, const struct policy *policy, void **ret, size_t *ret_n,
                          struct err *err) {
        cleanup(endpoints_done) endpoints self = { 0 };
        int r = host_addresses(&self, err);
        for (size_t i = 0; r == 0 && i < service->n_listeners; i++)
                if (vec_push(&self, service->endpoints[i]) < 0)
                        r = err_memory(err);

        if (r < 0)
                return r;

        return policy_compile_network(policy, self.p, self.n, ret, ret_n, err);
}

/* A service has no terminal for questions. It is said once, not at every reload. */
static void ask_nobody(struct service *service, struct policy *policy) {
        policy->network.ask = ASK_NEVER;
        if (!service->session.policy)
                service_say(
                    service, true,
                    "nobody can be asked here: hosts that no rule names are refused; with --ask control they wait for "
                    "\"bailey "
                    "allow\"");
}

static int load_policy(struct service *service, struct policy **ret_policy, void **ret_snapshot, size_t *ret_n,
                       struct err *err) {
        struct policy_request request = { .command_line = service->settings->options };
        cleanup(policy_freep) struct policy *p = NULL;

        if (service->settings->policy)
                request = *service->settings->policy;

        request.network_only = true;
        request.remembered = true;
        int r = policy_load(&request, &p, err);
        if (r == 0)
                r = policy_check_served(p, PLACE_GATEWAY, err);
        if (r == 0 && p->network.ask == ASK_TTY && !service->settings->link)
                ask_nobody(service, p);

        if (r < 0)
                return r;
        r = live_keep_rules(service->session.control, p, err);
        if (r < 0)
                return r;
        r = compile_policy(service, p, ret_snapshot, ret_n, err);
        if (r == 0)
                *ret_policy = take_ptr(&p);

        return r;
}

static void service_answer(struct service *service, bool ok, const char *text) {
        if (service->reload.asked && service->settings->on_reloaded)
                service->settings->on_reloaded(service->settings->arg, service->reload.ticket, ok, text);
        service->reload.asked = false;
}

static void answer_done(struct service *service) {
        const char *changes = buf_text(&service->reload.changes);
        service_answer(service, true, text_or(changes, ""));
}

static int make_gateway(struct service *service, int *addresses, const void *snapshot, size_t n, struct err *err);
static int service_configure(struct service *service, const struct policy *policy, struct err *err);
static int open_vault(struct service *service, struct policy *policy, struct vault_session *session, struct err *err);

/* Settings that a vault and a gateway get only at their start have changed: new ones take over the same listeners.
 * Every step that can fail because of the policy comes before the old ones end. */
static int service_renew(struct service *service, struct policy *policy, const void *snapshot, size_t n,
                         struct err *err) {
        cleanup(close_fd) int addresses = -1;
        struct vault_session *next = service->session.vault == &service->session.vaults[0]
                                         ? &service->session.vaults[1]
                                         : &service->session.vaults[0];
        int r = host_addresses_watch(&addresses, err);

        if (r >= 0)
                r = open_vault(service, policy, next, err);
        if (r >= 0)
                r = service_configure(service, policy, err);
        if (r < 0) {
                vault_session_close(next);
                return r;
        }

        live_notice(service->session.control, NOTICE_DIED,
                    "replaced, since the settings have changed"); /* with its questions */
        session_close_gateway(&service->session);
        vault_session_close(service->session.vault);
        service->session.vault = next;
        r = make_gateway(service, &addresses, snapshot, n, err);
        if (r < 0) { /* this machine's fault, and nothing serves now */
                err_set(&service->failure, -r, "%s", err_text(err));
                service->session.ended = true;
        }

        return r;
}

static int take_policy(struct service *service, struct policy *policy, const void *snapshot, size_t n,
                       struct err *err) {
        bool told_once = !gateway_config_equal(service->session.policy, policy),
             fits = vault_session_fits(service->session.vault, policy);
        if (service->settings->place && (told_once || !fits))
                return service_renew(service, policy, snapshot, n, err);

        int r = gateway_process_reload(service->session.gateway, policy, snapshot, n, err);
        if (r == 0 && service->session.vault->process)
                vault_process_reload(service->session.vault->process);

        if (r == 0 && !fits)
                service_say(service, true,
                            "the credentials of the policy have changed; they count when the gateway is started again");

        if (r == 0 && told_once)
                service_say(
                    service, true,
                    "name servers or the upstream proxy have changed; they count when the gateway is started again");

        return r;
}

/* From the files as they are now, or `given`, which it takes. */
static int service_reload(struct service *service, struct policy *given, struct err *ret) {
        cleanup(policy_freep) struct policy *p = given;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        struct err err = { 0 };
        int r = p ? compile_policy(service, p, &snapshot, &n, &err) : load_policy(service, &p, &snapshot, &n, &err);
        if (r == 0) {
                buf_clear(&service->reload.changes);
                r = gateway_changes(service->session.policy, p, &service->reload.changes);
                if (r < 0)
                        r = err_set(&err, -r, "what has changed is too much to be told");
                else
                        r = take_policy(service, p, snapshot, n, &err);
        }

        if (r == 0) { /* NOTICE_RELOADED, or of a new gateway NOTICE_READY, follows */
                policy_free(service->session.policy);
                service->session.policy = take_ptr(&p);
                r = live_policy(service->session.control, &err);
                if (r < 0)
                        service_say(service, true, err_text(&err));

                return 0;
        }

        char text[ERR_TEXT_MAX + 64];
        snprintf(text, sizeof text, "not reloaded, the old rules stay: %s", err_text(&err));
        (void)audit_note(service->session.audit, "%s", text);
        service_say(service, true, text);
        service_answer(service, false, err_text(&err));

        return err_set(ret, -r, "%s", err_text(&err));
}

/*
 * The gateway.
 */
static void on_notice(void *arg, enum gateway_notice notice, const char *text) {
        struct service *service = arg;
        char line[ERR_TEXT_MAX + 128];
        const struct service_info info = { .listeners = service->shown,
                                           .n_listeners = service->n_shown,
                                           .audit = audit_path(service->session.audit),
                                           .run_id = service->session.id,
                                           .gateway_pid = gateway_process_pid(service->session.gateway),
                                           .ca_bundle = service->session.vault->bundle,
                                           .stand_ins = (const char *const *)service->session.vault->stand_ins.p,
                                           .base_urls = (const char *const *)service->session.vault->base_urls.p };

        switch (notice) {
        case NOTICE_READY:
                service->was_ready = true;
                service->settings->on_ready(service->settings->arg, &info);
                answer_done(service);
                return;
        case NOTICE_CANNOT_START:
                if (!service->was_ready) { /* nothing worked yet: this is a failure to start, not a fault on the way */
                        err_set(&service->failure, EPROTO, "the gateway could not start: %s", text);
                        gateway_process_stop(service->session.gateway);
                        return;
                }
                snprintf(line, sizeof line, "the gateway could not be started again: %s", text);
                service_answer(service, false, line);
                break;
        case NOTICE_DIED:
                snprintf(line, sizeof line, "the gateway died, open connections are closed: %s", text);
                break;
        case NOTICE_AUDIT_FAILED:
                snprintf(line, sizeof line, "new connections are refused, since the audit log fails: %s", text);
                break;
        case NOTICE_AUDIT_RESTORED:
                service_say(service, false, "the audit log can be written again");

                return;
        case NOTICE_RELOADED:
                snprintf(line, sizeof line, "reloaded: %s", text);
                service_say(service, false, line);
                answer_done(service);

                return;
        case NOTICE_STOPPED:
                service->session.ended = true;
                return;
        }

        service_say(service, true, line);
}

static int make_gateway(struct service *service, int *addresses, const void *snapshot, size_t n, struct err *err) {
        struct gateway_settings settings = { .start = service->start,
                                             .listeners = service->listeners,
                                             .n_listeners = service->n_listeners };

        int r = session_open_gateway(&service->session, &settings, addresses, snapshot, n, err);

        secret_wipe(service->start.upstream_password, sizeof service->start.upstream_password);
        if (r < 0)
                return r;

        return gateway_process_start(service->session.gateway, err);
}

static int open_audit(struct service *service, const struct policy *policy, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        const char *container = service->settings->container;

        random_id(service->session.id, ID_SIZE);
        int r = policy->audit_path && !container ? 0 : audit_run_path(service->session.id, &path, err);
        if (r < 0)
                return r;

        r = session_open_audit(&service->session, text_or(path, policy->audit_path),
                               container ? "container" : "gateway", err);
        if (r == 0 && container)
                r = audit_note(service->session.audit, "gateway of the container %s at %s, run %s", container,
                               service->settings->from[0], service->session.id);
        else if (r == 0)
                r = audit_note(service->session.audit, "gateway of its own, run %s", service->session.id);

        if (r == 0)
                r = audit_flush(service->session.audit, err);
        if (r == 0 && path)
                audit_keep_sometimes(&(struct audit_limits){ policy->log.max_age_ns, policy->log.max_bytes });

        return r;
}

static int service_configure(struct service *service, const struct policy *policy, struct err *err) {
        const struct service_settings *settings = service->settings;
        int r = gateway_config_apply(&service->start, policy, err);

        service->start.dns_mode = DNS_REAL;
        service->start.workers = settings->workers;
        service->start.log_level = settings->log_level;

        int a = snprintf(service->start.hosts_file, sizeof service->start.hosts_file, "%s",
                         text_or(settings->hosts_file, ""));
        int b =
            snprintf(service->start.ca_bundle, sizeof service->start.ca_bundle, "%s", text_or(settings->ca_bundle, ""));
        if (r == 0 && (a >= (int)sizeof service->start.hosts_file || b >= (int)sizeof service->start.ca_bundle))
                return err_set(err, ENAMETOOLONG, "the path of the hosts file or of the CA bundle is too long");

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
        struct service *service = arg;
        (void)status;
        gateway_process_stop(service->session.gateway);
}

static int compile_for_service(void *arg, const struct policy *policy, void **ret, size_t *ret_n, struct err *err) {
        return compile_policy(arg, policy, ret, ret_n, err);
}

static int reload_for_control(void *arg, struct err *err) {
        return service_reload(arg, NULL, err);
}

static void describe_service(void *arg, struct live_facts *ret) {
        (void)arg;
        ret->pid = getpid(); /* with the vault and the gateway */
}

static int open_control(struct service *service, struct err *err) {
        const struct live_parts parts = { .argv = service->words,
                                          .container = service->settings->container,
                                          .freeze = cannot_freeze,
                                          .thaw = cannot_freeze,
                                          .cannot_freeze = true,
                                          .end = end_by_order,
                                          .compile = compile_for_service,
                                          .reload = reload_for_control,
                                          .describe = describe_service,
                                          .run = service };

        if (service->settings->link)
                return 0;

        service->words[0] = (char *)"bailey";
        service->words[1] = (char *)text_or(service->settings->name, "gateway");
        service->words[2] = service->n_shown ? service->shown[0].address : NULL;
        if (service->settings->container) {
                service->words[2] = (char *)"--container";
                service->words[3] = (char *)service->settings->container;
                service->words[4] = (char *)service->settings->from[0];
        } else if (service->words[2] && service->settings->from && service->settings->from[0]) {
                service->words[3] = (char *)"--from";
                service->words[4] = (char *)service->settings->from[0];
        }

        cleanup(free_ptr) char *directory = NULL;
        int r = live_place(false, &directory, err);
        if (r < 0)
                return r;

        return session_open_control(&service->session, &parts, err);
}

/*
 * The loop.
 */
static void service_on_signal(void *owner, const struct signalfd_siginfo *info) {
        struct service *service = owner;

        if (info->ssi_signo == SIGHUP) {
                service->reload.asked = true;
                service->reload.ticket = info->ssi_code == SI_QUEUE ? info->ssi_int : 0;
                (void)service_reload(service, NULL, NULL);
        } else if (gateway_process_state(service->session.gateway) == ROLE_STOPPING) {
                service->session.ended = true; /* asked twice: at once */
        } else {
                (void)audit_note(service->session.audit, "asked to end by signal %u", info->ssi_signo);
                gateway_process_stop(service->session.gateway);
        }
}

static int service_on_link_gone(void *owner, struct err *err) {
        struct service *service = owner;
        (void)err;

        (void)audit_note(service->session.audit, "asked to end by the program that started it");
        gateway_process_stop(service->session.gateway);
        return 0;
}

static int service_on_link_policy(void *owner, const struct link_heard *heard, struct err *err) {
        struct service *service = owner;
        int judged = heard->judged;

        (void)err;

        if (service_reload(service, heard->policy, NULL) == 0)
                gateway_process_when_judged(service->session.gateway, judged);
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
static void service_loop(struct service *service) {
        session_add(&service->session, SESSION_VAULT);
        session_add(&service->session, SESSION_GATEWAY);
        session_add(&service->session, SESSION_CONTROL);
        session_add(&service->session, SESSION_SIGNALS);
        session_add(&service->session, SESSION_LINK);

        if (service->settings->part)
                poller_add(&service->session.poller, service->settings->part);

        struct err err = { 0 };
        if (session_loop(&service->session, &err) < 0)
                (void)audit_note(service->session.audit, "ends: %s", err_text(&err));
}

/* Values must be there before anybody connects. */
static int open_vault(struct service *service, struct policy *policy, struct vault_session *session, struct err *err) {
        const struct vault_session_request request = {
                .policy = policy,
                .id = service->session.id,
                .roots = service->settings->ca_bundle,
                .environment = environ,
                .place = service->settings->place,
                .service = true,
        };
        return vault_session_open(session, &request, err);
}

static void service_done(struct service *service) {
        session_done(&service->session);
        buf_done(&service->reload.changes);
        for (size_t i = 0; i < service->n_listeners; i++)
                close(service->listeners[i]);
}

static int service_prepare(struct service *service, struct err *err) {
        static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };
        cleanup(close_fd) int addresses = -1;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;

        err_blame(err, ERR_USAGE);
        int r = take_clients(service, err);
        if (r < 0)
                return r;

        r = open_listeners(service, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        r = host_addresses_watch(&addresses, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_CONFIG);
        r = load_policy(service, &service->session.policy, &snapshot, &n, err);
        if (r == 0)
                r = service_configure(service, service->session.policy, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        r = open_audit(service, service->session.policy, err);
        if (r == 0)
                r = session_catch(&service->session, numbers, sizeof numbers / sizeof *numbers, err);
        if (r == 0)
                r = open_vault(service, service->session.policy, service->session.vault, err);
        if (r == 0)
                r = open_control(service, err);
        if (r < 0)
                return r;

        return make_gateway(service, &addresses, snapshot, n, err);
}

int gateway_service_run(const struct service_settings *settings, struct err *err) {
        cleanup(service_done) struct service service = { .settings = settings,
                                                         .session = SESSION_NONE,
                                                         .reload.changes = BUF(CHANGES_MAX) };

        session_init(&service.session, &service_calls, &service);
        service.session.link = settings->link;
        service.session.link_asks = settings->link != NULL;
        gateway_start_init(&service.start);

        int r = service_prepare(&service, err);
        if (r < 0)
                return r;

        service_loop(&service);
        session_close_control(&service.session, 0);
        session_close_gateway(&service.session);
        session_close_vaults(&service.session);
        r = audit_close(service.session.audit, err);
        service.session.audit = NULL;
        if (service.failure.code)
                return err_set(err, service.failure.code, "%s", err_text(&service.failure));

        return r;
}
