/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of containers, clusters and forges: which of their verbs only look. */
#include "shell/question.h"

/* The words of a command that are no options: verb, and what it is about. */
static struct str word_at(const struct sh_call *c, size_t i) {
        const struct sh_arg *a = call_operand(c, i);
        return a && !a->unknown ? a->text : STR("");
}

/* "docker ps", and "docker image ls" where the verb comes second. */
static bool docker_looks(const struct sh_call *c) {
        static const char *const verbs[] = { "ps",   "images", "version", "info",    "search", "top", "stats",
                                             "port", "logs",   "history", "inspect", "diff",   NULL };
        static const char *const nouns[] = { "image",  "container", "network", "volume", "context", "compose",
                                             "system", "node",      "service", "stack",  "buildx",  NULL };
        static const char *const below[] = { "ls",      "list",   "inspect", "ps",   "logs", "df", "top",
                                             "version", "images", "history", "show", "port", NULL };
        struct str verb = word_at(c, 0);

        if (c->n > 1 && c->p[1].text.n && c->p[1].text.p[0] == '-')
                return false; /* another daemon, another file */
        if (str_ends(c->name, STR("-compose")))
                return word_in(verb, below);
        return word_in(verb, verbs) || (word_in(verb, nouns) && word_in(word_at(c, 1), below));
}

static bool kubectl_looks(const struct sh_call *c) {
        static const char *const verbs[] = { "get",          "describe",      "logs",         "version", "explain",
                                             "cluster-info", "api-resources", "api-versions", "top",     NULL };
        if (!word_in(word_at(c, 0), verbs))
                return false;
        for (size_t i = 1; i < c->n; i++) { /* not what is secret, and not by raw requests */
                struct str a = c->p[i].text;
                if (c->p[i].unknown || str_starts(a, STR("secret")) || str_starts(a, STR("--raw")) ||
                    str_starts(a, STR("--token")) || str_starts(a, STR("--kubeconfig")) ||
                    str_starts(a, STR("--server")))
                        return false;
        }
        return true;
}

static bool helm_looks(const struct sh_call *c) {
        static const char *const verbs[] = { "list", "ls",   "status",  "version", "search",
                                             "show", "lint", "history", NULL };
        return word_in(word_at(c, 0), verbs);
}

bool controls_containers(const struct sh_call *c) {
        static const char *const dockers[] = {
                "docker", "podman", "nerdctl", "docker-compose", "podman-compose", NULL
        };

        if (c->foreign)
                return true; /* it only has the name */
        if (word_in(c->name, dockers))
                return !docker_looks(c);
        if (str_is(c->name, "kubectl") || str_is(c->name, "oc"))
                return !kubectl_looks(c);
        return !str_is(c->name, "helm") || !helm_looks(c);
}

bool changes_forge(const struct sh_call *c) {
        static const char *const nouns[] = { "pr",      "mr",       "issue", "run",   "repo",
                                             "release", "workflow", "ci",    "label", NULL };
        static const char *const verbs[] = { "view", "list", "status", "diff", "checks", "watch", "ls", NULL };
        return c->foreign || !word_in(word_at(c, 0), nouns) || !word_in(word_at(c, 1), verbs);
}
