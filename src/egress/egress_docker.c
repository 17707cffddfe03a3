/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for docker and podman: the network, the certificates, the variables; and a look at the user's own. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/path.h"
#include "container/container_args.h"
#include "container/engine_network.h"
#include "egress/egress_facts.h"
#include "egress/egress_state.h"
#include "egress/egress_view.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Where containers see the certificates. */
#define INSIDE "/etc/ssl/certs/bailey-egress"

#define REMAKE_NETWORK "Remove it and make it with " EGRESS_CREATE_NETWORK ", then run \"bailey egress restart\""

struct docker {
        const struct egress_view *view;
        const struct egress_talk *talk;
        struct egress_facts facts;
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

        for (size_t i = 0; i < d->facts.env.entries.n; i++)
                if (str_is(name, d->facts.env.entries.p[i].name) && d->facts.env.entries.p[i].action != ENV_STRIPPED)
                        return true;
        return false;
}

static int check_given(struct docker *d, char *const *given, struct err *e) {
        const struct container_args args = {
                .use = CONTAINER_EGRESS, .owns = owns_variable, .object = object_to_argument, .kept = INSIDE, .arg = d
        };
        return container_args_check(&args, given, e);
}

/* What keeps a container in this network from going around the gateway, as the engine itself says; NULL: nothing is
 * wrong with it. */
static const char *fault_of(const struct engine_network *net, int found, const char *address) {
        struct addr own;

        if (found == 0)
                return "no engine has a network " ENGINE_NETWORK " here. " EGRESS_MAKE_NETWORK;
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
                return err_memory(e);
        if (access(path, R_OK) < 0) /* without credentials there is no CA */
                return 0;
        if (strchr(path, ':') || strchr(path, ','))
                return err_set(e, EINVAL, "%s cannot be mounted: a colon or comma in its name", path);
        return text_list_take(&d->args, str_format("--volume=%s:%s:ro", path, inside), e);
}

static int docker_build(struct docker *docker, char *const *given, struct err *err) {
        struct egress_facts *facts = &docker->facts;
        int r = egress_facts_listener(facts, docker->view, EGRESS_FOR_CONTAINERS, err);
        if (r < 0)
                return r;

        r = egress_facts_variables(facts, docker->view, given, INSIDE ".pem", INSIDE ".jks", err);
        if (r < 0)
                return r;
        if (facts->n_stand_ins == 0 && docker->talk && docker->talk->say)
                docker->talk->say(docker->talk->arg, true, "there are no credentials: the gateway only filters");

        r = check_given(docker, given, err);
        if (r < 0)
                return r;

        r = add_network(docker, facts->address, err);
        if (r < 0)
                return r;

        r = add_mount(docker, EGRESS_BUNDLE, INSIDE ".pem", err);
        if (r < 0)
                return r;

        r = add_mount(docker, EGRESS_JAVA, INSIDE ".jks", err);
        for (size_t i = 0; r == 0 && i < facts->env.entries.n; i++) {
                const struct env_entry *entry = &facts->env.entries.p[i];

                if (egress_facts_sets(entry))
                        r = text_list_take(&docker->args, str_format("--env=%s=%s", entry->name, entry->value), err);
        }

        return r;
}

static void docker_done(struct docker *d) {
        egress_facts_done(&d->facts);
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
        r = docker_build(&d, given, e);
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
