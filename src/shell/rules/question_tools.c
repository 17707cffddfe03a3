/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of containers, clusters and forges: which of their verbs only look. */
#include "shell/rules/question.h"

/* The words of a command that are no options: verb, and what it is about. */
static struct str word_at(const struct sh_call *call, size_t i) {
        const struct sh_arg *arg = call_operand(call, i);
        return arg && !arg->unknown ? arg->text : STR("");
}

/* "docker ps", and "docker image ls" where the verb comes second. */
static bool docker_looks(const struct sh_call *call) {
        static const char *const verbs[] = { "ps",   "images", "version", "info",    "search", "top", "stats",
                                             "port", "logs",   "history", "inspect", "diff",   NULL };
        static const char *const nouns[] = { "image",  "container", "network", "volume", "context", "compose",
                                             "system", "node",      "service", "stack",  "buildx",  NULL };
        static const char *const below[] = { "ls",      "list",   "inspect", "ps",   "logs", "df", "top",
                                             "version", "images", "history", "show", "port", NULL };
        struct str verb = word_at(call, 0);

        if (call->n > 1 && call->p[1].text.n && call->p[1].text.p[0] == '-')
                return false; /* another daemon, another file */
        if (str_ends(call->name, STR("-compose")))
                return word_in(verb, below);

        return word_in(verb, verbs) || (word_in(verb, nouns) && word_in(word_at(call, 1), below));
}

static bool kubectl_looks(const struct sh_call *call) {
        static const char *const verbs[] = { "get",          "describe",      "logs",         "version", "explain",
                                             "cluster-info", "api-resources", "api-versions", "top",     NULL };
        if (!word_in(word_at(call, 0), verbs))
                return false;

        for (size_t i = 1; i < call->n; i++) { /* not what is secret, and not by raw requests */
                struct str a = call->p[i].text;
                if (call->p[i].unknown || str_starts(a, STR("secret")) || str_starts(a, STR("--raw")) ||
                    str_starts(a, STR("--token")) || str_starts(a, STR("--kubeconfig")) ||
                    str_starts(a, STR("--server")))
                        return false;
        }

        return true;
}

static bool helm_looks(const struct sh_call *call) {
        static const char *const verbs[] = { "list", "ls",   "status",  "version", "search",
                                             "show", "lint", "history", NULL };
        return word_in(word_at(call, 0), verbs);
}

bool controls_containers(const struct sh_call *call) {
        static const char *const dockers[] = {
                "docker", "podman", "nerdctl", "docker-compose", "podman-compose", NULL
        };

        if (call->foreign)
                return true; /* it only has the name */
        if (word_in(call->name, dockers))
                return !docker_looks(call);
        if (str_is(call->name, "kubectl") || str_is(call->name, "oc"))
                return !kubectl_looks(call);

        return !str_is(call->name, "helm") || !helm_looks(call);
}

bool changes_forge(const struct sh_call *call) {
        static const char *const nouns[] = { "pr",      "mr",       "issue", "run",   "repo",
                                             "release", "workflow", "ci",    "label", NULL };
        static const char *const verbs[] = { "view", "list", "status", "diff", "checks", "watch", "ls", NULL };
        return call->foreign || !word_in(word_at(call, 0), nouns) || !word_in(word_at(call, 1), verbs);
}
