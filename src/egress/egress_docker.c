/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for docker and podman: the network, the certificates, the variables; and a look at the user's own. */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/paths/path.h"
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

/* An error when the settings enforce; else a warning. */
static int docker_object(const struct docker *docker, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int docker_object(const struct docker *docker, struct err *err, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(2048);
        va_list args;

        va_start(args, format);
        (void)buf_vprintf(&text, format, args);
        va_end(args);

        const char *shown = buf_text(&text);
        if (docker->view->settings.enforce_on_docker)
                return err_set(err, EPERM, "%s", text_or(shown, ""));
        if (docker->talk && docker->talk->say)
                docker->talk->say(docker->talk->arg, true, text_or(shown, ""));

        return 0;
}

static int object_to_argument(void *arg, struct err *err, const char *reason) {
        return docker_object(arg, err, "%s", reason);
}

static bool owns_variable(void *arg, struct str name) {
        const struct docker *docker = arg;

        for (size_t i = 0; i < docker->facts.env.entries.n; i++)
                if (str_is(name, docker->facts.env.entries.p[i].name) &&
                    docker->facts.env.entries.p[i].action != ENV_STRIPPED)
                        return true;
        return false;
}

static int check_given(struct docker *docker, char *const *given, struct err *err) {
        const struct container_args args = { .use = CONTAINER_EGRESS,
                                             .owns = owns_variable,
                                             .object = object_to_argument,
                                             .kept = INSIDE,
                                             .arg = docker };
        return container_args_check(&args, given, err);
}

/* Why a container in this network could bypass the gateway, according to the engine; NULL: it cannot. */
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

static int add_network(struct docker *docker, const char *address, struct err *err) {
        struct engine_network net = { 0 };
        int found = engine_network_find(ENGINE_NETWORK, &net, err);
        if (found < 0)
                return found;

        const char *fault = fault_of(&net, found, address);
        int r = 0;

        if (fault)
                r = docker_object(docker, err, "%s", fault);

        if (r < 0)
                return r;

        if (!fault && !str_is(egress_view_text(docker->view->service, "walled"), "true") && docker->talk &&
            docker->talk->say)
                docker->talk->say(
                    docker->talk->arg, true,
                    "a container in this network may reach what else listens on this host: rules for the bridge "
                    "are made when root starts the gateway and nft is installed; see the log");

        if (found)
                r = text_list_take(&docker->args, str_format("--network=" ENGINE_NETWORK), err);

        if (r < 0)
                return r;
        r = text_list_take(&docker->args, str_format("--cap-drop=NET_ADMIN"), err);
        if (r < 0)
                return r;
        r = text_list_take(&docker->args, str_format("--cap-drop=NET_RAW"), err);

        if (r < 0)
                return r;

        return text_list_take(&docker->args, str_format("--dns=%s", address), err); /* where nobody answers */
}

static int add_mount(struct docker *docker, const char *file, const char *inside, struct err *err) {
        cleanup(free_ptr) char *path = path_join(docker->view->directory, file);
        if (!path)
                return err_memory(err);
        if (access(path, R_OK) < 0) /* without credentials there is no CA */
                return 0;
        if (strchr(path, ':') || strchr(path, ','))
                return err_set(err, EINVAL, "%s cannot be mounted: a colon or comma in its name", path);

        return text_list_take(&docker->args, str_format("--volume=%s:%s:ro", path, inside), err);
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

static void docker_done(struct docker *docker) {
        egress_facts_done(&docker->facts);
        text_list_done(&docker->args);
}

int egress_docker_args(char *const *given, bool lines, const struct egress_talk *talk, struct buf *out,
                       struct err *err) {
        cleanup(egress_view_done) struct egress_view view = { 0 };
        cleanup(docker_done) struct docker docker = { .view = &view, .talk = talk };
        int r = egress_view_load(&view, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_UNAVAILABLE);
        if (!view.running)
                return err_set(err, ENOENT, "the gateway does not run; start it with \"bailey egress start\"");

        err_blame(err, ERR_REFUSED);
        r = docker_build(&docker, given, err);
        for (size_t i = 0; r == 0 && i < docker.args.n; i++) {
                struct str arg = str_of(docker.args.p[i]);
                if (lines && str_find(arg, '\n') >= 0)
                        return err_set(err, EINVAL, "a value has a line break; use the form for shells");

                if (lines)
                        r = buf_append(out, arg);
                else
                        r = escape_shell(out, arg);
                if (r == 0)
                        r = buf_add_char(out, lines || i + 1 == docker.args.n ? '\n' : ' ');
                if (r < 0)
                        return err_set(err, -r, "the arguments are too large");
        }

        return r;
}
