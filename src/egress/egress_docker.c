/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for docker and podman: the network, the certificates, the variables; and a look at the user's own. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/path.h"
#include "container/container_args.h"
#include "container/engine_network.h"
#include "egress/egress_state.h"
#include "egress/egress_view.h"
#include "plan/env.h"
#include "roles/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Where containers see the certificates. */
#define INSIDE "/etc/ssl/certs/bailey-egress"

#define CREATE "\"docker network create --internal " ENGINE_NETWORK "\" (podman: the same, as root)"
#define MAKE_NETWORK "Make a network for it with " CREATE ", then run \"bailey egress restart\""
#define REMAKE_NETWORK "Remove it and make it with " CREATE ", then run \"bailey egress restart\""

struct docker {
        const struct egress_view *view;
        const struct egress_talk *talk;
        struct env env;
        text_list args;
};

/* An error when the settings enforce; else a person is told. */
static int object(const struct docker *d, struct err *e, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int object(const struct docker *d, struct err *e, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(2048);
        va_list args;
        va_start(args, format);
        (void)buf_vprintf(&text, format, args);
        va_end(args);
        const char *shown = buf_text(&text);
        if (d->view->settings.enforce_on_docker)
                return err_set(e, EPERM, "%s", shown ? shown : "");
        if (d->talk && d->talk->say)
                d->talk->say(d->talk->arg, true, shown ? shown : "");
        return 0;
}

static int object_to_argument(void *arg, struct err *e, const char *reason) {
        return object(arg, e, "%s", reason);
}

static bool owns_variable(void *arg, struct str name) {
        const struct docker *d = arg;

        for (size_t i = 0; i < d->env.entries.n; i++)
                if (str_is(name, d->env.entries.p[i].name) && d->env.entries.p[i].action != ENV_STRIPPED)
                        return true;
        return false;
}

static int check_given(struct docker *d, char *const *given, struct err *e) {
        const struct container_args args = {
                .use = CONTAINER_EGRESS, .owns = owns_variable, .object = object_to_argument, .kept = INSIDE, .arg = d
        };
        return container_args_check(&args, given, e);
}

/* The listener that a container can reach: not the one on loopback. */
static int pick_listener(const struct docker *d, char address[static ADDR_TEXT_MAX], uint16_t *ret_port,
                         struct err *e) {
        for (const struct node *n = egress_view_members(d->view->service, "http"); n; n = n->next) {
                struct endpoint at;
                if (listen_parse(n->text, &at, NULL) < 0 || addr_classify(&at.addr) == ADDR_CLASS_LOOPBACK)
                        continue;
                addr_text(&at.addr, address);
                *ret_port = at.port;
                return 0;
        }
        return err_set(e, ENOENT, "the gateway listens on loopback only, where no container reaches it. " MAKE_NETWORK);
}

/* What keeps a container in this network from going around the gateway, as the engine itself says; NULL: nothing is
 * wrong with it. */
static const char *fault_of(const struct engine_network *net, int found, const char *address) {
        struct addr own;

        if (found == 0)
                return "no engine has a network " ENGINE_NETWORK " here. " MAKE_NETWORK;
        if (!net->bridge)
                return "the network " ENGINE_NETWORK
                       " is no bridge, so the gateway cannot stand in it. " REMAKE_NETWORK;
        if (!net->internal)
                return "the network " ENGINE_NETWORK " has a way out, so a container could go around the gateway: it "
                       "was made without --internal. " REMAKE_NETWORK;
        if (!addr_parse(str_of(address), &own) || !addr_equal(&own, &net->gateway))
                return "the gateway does not listen in the network " ENGINE_NETWORK
                       "; \"bailey egress restart\" makes it (podman's networks need root)";
        return NULL;
}

static int add_network(struct docker *d, const char *address, struct err *e) {
        struct engine_network net = { 0 };
        int found = engine_network_find(ENGINE_NETWORK, &net, e);
        if (found < 0)
                return found;

        const char *fault = fault_of(&net, found, address);
        int r = fault ? object(d, e, "%s", fault) : 0;
        if (r < 0)
                return r;
        if (!fault && !str_is(egress_view_text(d->view->service, "walled"), "true") && d->talk && d->talk->say)
                d->talk->say(
                    d->talk->arg, true,
                    "a container in this network may reach what else listens on this host: rules for the bridge "
                    "are made when root starts the gateway and nft is installed; see the log");
        if (found)
                r = text_list_take(&d->args, str_format("--network=" ENGINE_NETWORK), e);
        r = r < 0 ? r : text_list_take(&d->args, str_format("--cap-drop=NET_ADMIN"), e);
        r = r < 0 ? r : text_list_take(&d->args, str_format("--cap-drop=NET_RAW"), e);
        return r < 0 ? r : text_list_take(&d->args, str_format("--dns=%s", address), e); /* where nobody answers */
}

static int add_mount(struct docker *d, const char *file, const char *inside, struct err *e) {
        cleanup(free_ptr) char *path = path_join(d->view->directory, file);
        if (!path)
                return err_set(e, ENOMEM, "out of memory");
        if (access(path, R_OK) < 0) /* without credentials there is no CA */
                return 0;
        if (strchr(path, ':') || strchr(path, ','))
                return err_set(e, EINVAL, "%s cannot be mounted: a colon or comma in its name", path);
        return text_list_take(&d->args, str_format("--volume=%s:%s:ro", path, inside), e);
}

/* The user's own values of variables that are appended to, as an environment; NULL-terminated. */
static int own_values(char *const *given, text_list *ret, struct err *e) {
        static const char *const names[] = { "NODE_OPTIONS", "JAVA_TOOL_OPTIONS" };
        int r = vec_reserve(ret, sizeof names / sizeof *names + 1) < 0 ? err_set(e, ENOMEM, "out of memory") : 0;

        for (size_t i = 0; r == 0 && i < sizeof names / sizeof *names; i++) {
                cleanup(free_ptr) char *value = container_args_variable(given, names[i]);
                if (value)
                        r = text_list_take(ret, str_format("%s=%s", names[i], value), e);
        }
        if (r == 0)
                ret->p[ret->n] = NULL;
        return r;
}

static int take_stand_ins(const struct docker *d, const char ***ret, struct err *e) {
        size_t n = 0;

        for (const struct node *v = egress_view_members(d->view->service, "env"); v; v = v->next)
                n++;
        *ret = calloc(n + 1, sizeof **ret);
        if (!*ret)
                return err_set(e, ENOMEM, "out of memory");
        n = 0;
        for (const struct node *v = egress_view_members(d->view->service, "env"); v; v = v->next)
                (*ret)[n++] = v->text.p;
        if (n == 0 && d->talk && d->talk->say)
                d->talk->say(d->talk->arg, true, "there are no credentials: the gateway only filters");
        return 0;
}

/* Where SDKs find the API proxy: at the gateway's own port. What the user sets stays the user's. */
static int take_base_urls(const struct docker *d, char *const *given, const char *address, uint16_t port,
                          text_list *ret, struct err *e) {
        int r = vec_reserve(ret, 1) < 0 ? err_set(e, ENOMEM, "out of memory") : 0;

        for (const struct node *v = egress_view_members(d->view->service, "base_urls"); v && r == 0; v = v->next) {
                ptrdiff_t equals = str_find(v->text, '=');
                cleanup(free_ptr) char *name = equals > 0 ? str_dup(str_first(v->text, (size_t)equals)) : NULL;
                cleanup(free_ptr) char *own = name ? container_args_variable(given, name) : NULL;
                if (name && !own)
                        r = text_list_take(ret,
                                           str_format("%s=http://%s:%u%.*s", name, address, port,
                                                      STR_FMT(str_skip(v->text, (size_t)equals + 1))),
                                           e);
        }
        if (r == 0 && vec_reserve(ret, 1) < 0)
                r = err_set(e, ENOMEM, "out of memory");
        if (r == 0)
                ret->p[ret->n] = NULL;
        return r;
}

static int set_variables(struct docker *d, char *const *given, const char *address, uint16_t port, struct err *e) {
        cleanup(free_ptr) const char **stand_ins = NULL;
        cleanup(text_list_done) text_list own = { 0 }, base_urls = { 0 };
        int r = take_stand_ins(d, &stand_ins, e);
        r = r < 0 ? r : own_values(given, &own, e);
        r = r < 0 ? r : take_base_urls(d, given, address, port, &base_urls, e);
        if (r < 0)
                return r;

        struct env_input in = { .host = own.p,
                                .sandbox_id = "egress",
                                .container = true,
                                .http_port = port,
                                .proxy_address = address,
                                .stand_ins = stand_ins,
                                .base_urls = (const char *const *)base_urls.p };
        if (egress_view_text(d->view->service, "ca_bundle").n > 0) {
                in.ca_bundle = INSIDE ".pem";
                in.java_trust_store = INSIDE ".jks";
        }
        return env_build(&in, &d->env, e);
}

static int build(struct docker *d, char *const *given, struct err *e) {
        char address[ADDR_TEXT_MAX];
        uint16_t port;
        int r = pick_listener(d, address, &port, e);

        r = r < 0 ? r : set_variables(d, given, address, port, e);
        r = r < 0 ? r : check_given(d, given, e);
        r = r < 0 ? r : add_network(d, address, e);
        r = r < 0 ? r : add_mount(d, EGRESS_BUNDLE, INSIDE ".pem", e);
        r = r < 0 ? r : add_mount(d, EGRESS_JAVA, INSIDE ".jks", e);
        for (size_t i = 0; r == 0 && i < d->env.entries.n; i++) {
                const struct env_entry *x = &d->env.entries.p[i];
                if (x->action == ENV_SET || x->action == ENV_CHANGED)
                        r = text_list_take(&d->args, str_format("--env=%s=%s", x->name, x->value), e);
        }
        return r;
}

static void docker_done(struct docker *d) {
        env_done(&d->env);
        text_list_done(&d->args);
}

int egress_docker_args(char *const *given, bool lines, const struct egress_talk *talk, struct buf *out, struct err *e) {
        cleanup(egress_view_done) struct egress_view v = { 0 };
        cleanup(docker_done) struct docker d = { .view = &v, .talk = talk };
        int r = egress_view_load(&v, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_UNAVAILABLE);
        if (!v.running)
                return err_set(e, ENOENT, "the gateway does not run; start it with \"bailey egress start\"");
        err_blame(e, ERR_REFUSED);
        r = build(&d, given, e);
        for (size_t i = 0; r == 0 && i < d.args.n; i++) {
                struct str arg = str_of(d.args.p[i]);
                if (lines && str_find(arg, '\n') >= 0)
                        return err_set(e, EINVAL, "a value has a line break; use the form for shells");
                r = lines ? buf_append(out, arg) : escape_shell(out, arg);
                r = r < 0 ? r : buf_add_char(out, lines || i + 1 == d.args.n ? '\n' : ' ');
                if (r < 0)
                        return err_set(e, -r, "the arguments are too large");
        }
        return r;
}
