/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/path.h"
#include "conf/emit.h"
#include "conf/json.h"
#include "conf/suggest.h"
#include "manager/egress.h"
#include "manager/egress_discover.h"
#include "manager/egress_pid.h"
#include "manager/egress_state.h"
#include "manager/listen.h"
#include "plan/env.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where containers see the certificates. */
#define INSIDE "/etc/ssl/certs/bailey-egress"

struct view {
        char *directory;
        struct egress_settings settings;
        bool configured, running;
        struct egress_identity id;
        struct document *service; /* what the service says about itself; NULL: it does not run */
        struct document *tokens;  /* NULL: none */
};

static void view_done(struct view *v) {
        free(v->directory);
        egress_settings_done(&v->settings);
        document_free(v->service);
        document_free(v->tokens);
}

static int read_json(const char *directory, const char *name, struct document **ret, struct err *e) {
        cleanup(buf_done) struct buf text = BUF(0);
        int r = egress_read(directory, name, &text, e);
        return r < 0 ? r : json_read(buf_str(&text), str_of(name), ret, e);
}

static int look(struct view *v, enum egress_fault *ret_fault, struct err *e) {
        cleanup(close_fd) int pidfd = -1;
        *ret_fault = EGRESS_FAULT_SYSTEM;
        int r = egress_directory(false, &v->directory, e);
        if (r < 0)
                return r;
        *ret_fault = EGRESS_FAULT_CONFIG;
        r = egress_settings_load(v->directory, &v->settings, e);
        if (r < 0) {
                if (r == -ENOENT)
                        err_clear(e);
                return r == -ENOENT ? 0 : r;
        }
        v->configured = true;
        v->running = egress_pid_find(v->directory, false, &v->id, &pidfd, NULL) == 0;
        r = read_json(v->directory, EGRESS_TOKENS, &v->tokens, e);
        if (r == -ENOENT)
                r = 0;
        if (r == 0 && v->running && read_json(v->directory, EGRESS_SERVICE, &v->service, e) < 0)
                v->running = false; /* it has not said yet that it listens */
        err_clear(e);
        return r;
}

static const struct node *members(const struct document *d, const char *key) {
        const struct node *n = d ? node_get(document_root(d), str_of(key)) : NULL;
        return n ? n->first : NULL;
}

static struct str member(const struct document *d, const char *key) {
        const struct node *n = d ? node_get(document_root(d), str_of(key)) : NULL;
        return n && n->kind == NODE_SCALAR ? n->text : (struct str){ 0 };
}

static const char *name_of(const struct egress_credential *c) {
        return c->name ? c->name : c->provider ? c->provider : "?";
}

/* "sk-abc...": enough to recognise it. */
static void put_token(struct buf *out, struct str token, bool whole) {
        if (whole)
                (void)buf_append(out, token);
        else
                (void)buf_printf(out, "%.*s...", (int)(token.n < 6 ? token.n : 6), token.p);
}

static void emit_credentials(struct emit *j, const struct view *v, bool show_tokens) {
        emit_key(j, "credentials");
        emit_open(j, '[');
        for (size_t i = 0; i < v->settings.credentials.n; i++) {
                const struct egress_credential *c = &v->settings.credentials.p[i];
                emit_open(j, '{');
                emit_put_text(j, "name", name_of(c));
                emit_put_text(j, "source", c->source);
                emit_key(j, "tokens");
                emit_open(j, '[');
                size_t part = 0; /* what follows them is of before rotations */
                for (const struct node *t = members(v->tokens, name_of(c)); t && part < PARTS; t = t->next, part++) {
                        cleanup(buf_done) struct buf text = BUF(65536);
                        if (t->kind != NODE_SCALAR)
                                continue;
                        put_token(&text, t->text, show_tokens);
                        emit_string(j, buf_str(&text));
                }
                emit_close(j);
                emit_close(j);
        }
        emit_close(j);
}

static int status_json(const struct view *v, bool show_tokens, struct buf *out) {
        struct emit j = emit_to(out);
        const struct egress_uncovered *u;
        emit_open(&j, '{');
        emit_put_text(&j, "directory", v->directory);
        emit_put_bool(&j, "configured", v->configured);
        emit_put_bool(&j, "enabled", v->settings.enabled);
        emit_put_bool(&j, "running", v->running);
        if (v->running) {
                emit_put_number(&j, "pid", (uint64_t)v->id.pid);
                emit_put_string(&j, "audit", member(v->service, "audit"));
                emit_put_string(&j, "run_id", member(v->service, "run_id"));
                emit_put_bool(&j, "walled", str_is(member(v->service, "walled"), "true"));
        }
        emit_key(&j, "http");
        emit_open(&j, '[');
        for (const struct node *n = members(v->service, "http"); n; n = n->next)
                emit_string(&j, n->text);
        emit_close(&j);
        emit_put_text(&j, "credential_source", v->settings.bitwarden ? "bitwarden" : "env");
        emit_credentials(&j, v, show_tokens);
        emit_key(&j, "uncovered");
        emit_open(&j, '[');
        for (size_t at = 0; (u = egress_uncovered_next(&v->settings, environ, &at));)
                emit_text(&j, u->variable);
        emit_close(&j);
        emit_close(&j);
        int r = emit_status(&j);
        return r < 0 ? r : buf_add_char(out, '\n');
}

static int status_text(const struct view *v, bool show_tokens, struct buf *out) {
        const struct egress_uncovered *u;
        int r = buf_printf(out, "state      %s\n",
                           !v->configured        ? "not set up"
                           : v->running          ? "running"
                           : v->settings.enabled ? "stopped"
                                                 : "disabled");
        r |= buf_printf(out, "directory  %s\n", v->directory);
        if (v->running)
                r |= buf_printf(out, "process    %d\naudit      %.*s\n", (int)v->id.pid,
                                STR_FMT(member(v->service, "audit")));
        for (const struct node *n = members(v->service, "http"); n; n = n->next)
                r |= buf_printf(out, "http       %.*s\n", STR_FMT(n->text));
        for (size_t i = 0; i < v->settings.credentials.n; i++) {
                const struct egress_credential *c = &v->settings.credentials.p[i];
                r |= buf_printf(out, "credential %s from %s", name_of(c), c->source);
                size_t part = 0;
                for (const struct node *t = members(v->tokens, name_of(c)); t && part < PARTS; t = t->next, part++) {
                        if (t->kind != NODE_SCALAR)
                                continue;
                        r |= buf_add_char(out, ' ');
                        put_token(out, t->text, show_tokens);
                }
                r |= buf_add_char(out, '\n');
        }
        for (size_t at = 0; (u = egress_uncovered_next(&v->settings, environ, &at));)
                r |= buf_printf(out, "uncovered  %s: %s\n", u->variable, u->why);
        return r;
}

int egress_status(bool json, bool show_tokens, struct buf *out, bool *ret_running, enum egress_fault *ret_fault,
                  struct err *e) {
        cleanup(view_done) struct view v = { 0 };
        int r = look(&v, ret_fault, e);
        if (r < 0)
                return r;
        *ret_running = v.running;
        r = json ? status_json(&v, show_tokens, out) : status_text(&v, show_tokens, out);
        return r < 0 ? err_set(e, EMSGSIZE, "the status is too large to print") : 0;
}

/*
 * Arguments for docker and podman.
 */
struct docker {
        const struct view *view;
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

/* "K=V", or "K" for the value of the caller's environment. */
static int check_variable(const struct docker *d, struct str setting, struct err *e) {
        struct str name = str_first(setting, str_find(setting, '=') < 0 ? setting.n : (size_t)str_find(setting, '='));
        for (size_t i = 0; i < d->env.entries.n; i++)
                if (str_is(name, d->env.entries.p[i].name) && d->env.entries.p[i].action != ENV_STRIPPED)
                        return object(d, e, "your own -e %s would undo what the gateway sets; take it out",
                                      d->env.entries.p[i].name);
        return 0;
}

static int check_env_file(const struct docker *d, struct str path, struct err *e) {
        cleanup(free_ptr) char *name = str_dup(path);
        cleanup(buf_done) struct buf text = BUF(0);
        int r = name ? path_read_file(name, EGRESS_BYTES_MAX, &text, e) : err_set(e, ENOMEM, "out of memory");
        struct str rest = buf_str(&text), line;
        while (r == 0 && str_split(&rest, '\n', &line))
                if (str_trim(line).n > 0 && str_trim(line).p[0] != '#')
                        r = check_variable(d, str_trim(line), e);
        return r;
}

static int check_one(const struct docker *d, struct str flag, struct str value, struct err *e) {
        if (str_is(flag, "-e") || str_is(flag, "--env"))
                return check_variable(d, value, e);
        if (str_is(flag, "--env-file"))
                return check_env_file(d, value, e);
        if (str_is(flag, "--network") || str_is(flag, "--net") || str_is(flag, "--dns") || str_is(flag, "--cap-add"))
                return object(d, e, "your own %.*s would lead around the gateway; take it out", STR_FMT(flag));
        cleanup(free_ptr) char *text = str_dup(value);
        if ((str_is(flag, "-v") || str_is(flag, "--volume") || str_is(flag, "--mount")) && text && strstr(text, INSIDE))
                return object(d, e, "your own mount on %s would replace the gateway's certificates", INSIDE);
        return str_is(flag, "--privileged") ? object(d, e, "--privileged lets a container leave its network") : 0;
}

/* The short flag of a cluster such as -ite that takes a value, and where its value begins; 0: none does. */
static char short_flag(struct str word, size_t *ret_value) {
        for (size_t i = 1; i < word.n; i++)
                if (strchr("acehlmpuvw", word.p[i])) {
                        *ret_value = word.p[i + 1 < word.n ? i + 1 : i] == '=' ? i + 2 : i + 1;
                        return word.p[i];
                }
        return 0;
}

/* Values are "--x=v", "--x v", "-xv" and "-x v". Which other flags take a value need not be known: the word after one
 * is looked at like any other, so nothing is passed over. */
static int check_given(const struct docker *d, char *const *given, struct err *e) {
        static const char *const with_value[] = { "--env", "--env-file", "--network", "--net",
                                                  "--dns", "--volume",   "--mount",   "--cap-add" };
        int r = 0;
        for (char *const *g = given; g && *g && r == 0; g++) {
                struct str word = str_of(*g), next = str_of(g[1] ? g[1] : "");
                ptrdiff_t equals = str_find(word, '=');
                size_t value = 0;
                if (str_starts(word, STR("--"))) {
                        bool separate = false;
                        for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++)
                                separate |= str_is(word, with_value[i]);
                        r = equals > 0
                                ? check_one(d, str_first(word, (size_t)equals), str_skip(word, (size_t)equals + 1), e)
                                : check_one(d, word, separate ? next : STR(""), e);
                } else if (word.n > 1 && word.p[0] == '-') {
                        const char flag[] = { '-', short_flag(word, &value), '\0' };
                        if (flag[1])
                                r = check_one(d, str_of(flag), value < word.n ? str_skip(word, value) : next, e);
                }
        }
        return r;
}

/* The listener that a container can reach: not the one on loopback. */
static int pick_listener(const struct docker *d, char address[static ADDR_TEXT_MAX], uint16_t *ret_port,
                         struct err *e) {
        for (const struct node *n = members(d->view->service, "http"); n; n = n->next) {
                struct endpoint at;
                if (listen_parse(n->text, &at, NULL) < 0 || addr_classify(&at.addr) == ADDR_CLASS_LOOPBACK)
                        continue;
                addr_text(&at.addr, address);
                *ret_port = at.port;
                return 0;
        }
        return err_set(
            e, ENOENT,
            "the gateway listens on loopback only, where no container reaches it. Make a network for it with "
            "\"docker network create --internal -o com.docker.network.bridge.name=" LISTEN_BRIDGE
            " bailey-egress\" (podman: \"--internal --interface-name " LISTEN_BRIDGE "\"), then run \"bailey "
            "egress restart\"");
}

static int add_network(struct docker *d, const char *address, struct err *e) {
        struct addr own, wanted;
        char name[16] = "";
        bool internal = listen_bridge(&own, name) && strcmp(name, LISTEN_BRIDGE) == 0 &&
                        addr_parse(str_of(address), &wanted) && addr_equal(&own, &wanted);
        if (!internal) {
                int r = object(d, e,
                               "the gateway is on a bridge with a way out, so a container could go around it. Make a "
                               "network without one: \"docker network create --internal -o "
                               "com.docker.network.bridge.name=" LISTEN_BRIDGE
                               " bailey-egress\", then \"bailey egress restart\"");
                if (r < 0)
                        return r;
        }
        if (internal && !str_is(member(d->view->service, "walled"), "true") && d->talk && d->talk->say)
                d->talk->say(
                    d->talk->arg, true,
                    "a container in this network may reach what else listens on this host: rules for the bridge "
                    "are made when root starts the gateway and nft is installed; see the log");
        int r = internal ? text_list_take(&d->args, str_format("--network=bailey-egress"), e) : 0;
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

static int build(struct docker *d, char *const *given, struct err *e) {
        char address[ADDR_TEXT_MAX];
        char *const nothing[] = { NULL };
        cleanup(free_ptr) const char **stand_ins = NULL;
        size_t n = 0;
        struct env_input in = { .host = nothing, .sandbox_id = "egress", .container = true };
        int r = pick_listener(d, address, &in.http_port, e);
        if (r < 0)
                return r;
        for (const struct node *v = members(d->view->service, "env"); v; v = v->next)
                n++;
        stand_ins = calloc(n + 1, sizeof *stand_ins);
        if (!stand_ins)
                return err_set(e, ENOMEM, "out of memory");
        n = 0;
        for (const struct node *v = members(d->view->service, "env"); v; v = v->next)
                stand_ins[n++] = v->text.p;
        if (n == 0) {
                r = object(d, e, "there are no credentials: \"bailey egress setup\" found none");
                if (r < 0)
                        return r;
        }
        in.proxy_address = address;
        in.stand_ins = stand_ins;
        if (member(d->view->service, "ca_bundle").n > 0) {
                in.ca_bundle = INSIDE ".pem";
                in.java_trust_store = INSIDE ".jks";
        }
        r = env_build(&in, &d->env, e);
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

int egress_docker_args(char *const *given, bool lines, const struct egress_talk *talk, struct buf *out,
                       enum egress_fault *ret_fault, struct err *e) {
        cleanup(view_done) struct view v = { 0 };
        cleanup(docker_done) struct docker d = { .view = &v, .talk = talk };
        int r = look(&v, ret_fault, e);
        if (r < 0)
                return r;
        *ret_fault = EGRESS_FAULT_ABSENT;
        if (!v.running)
                return err_set(e, ENOENT, "the gateway does not run; start it with \"bailey egress start\"");
        *ret_fault = EGRESS_FAULT_REFUSED;
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
