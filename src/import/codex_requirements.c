/* SPDX-License-Identifier: Apache-2.0 */
/* Codex's requirements.toml: what an administrator takes away from every user. Nothing in it grants anything here. */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/suggest.h"
#include "import/codex.h"

#include <string.h>

#define NOT_HERE "not a matter of the sandbox"
#define NOT_GRANTED "what is required to be allowed is not granted by it"

static bool is_word(const struct node *node, const char *word) {
        return node->kind == NODE_SCALAR && str_is(node->text, word);
}

/* Paths are relative to the file's directory. Denials hold at the project as well, in case that is what is meant. */
static int deny_read_node(struct import_source *source, const struct node *node, struct err *err) {
        int r = import_want_text(source, node, err);

        if (r < 0)
                return r;

        return codex_deny_place(source, node, node->text, err);
}

static int require_deny_read(struct import_source *source, const struct node *list, struct err *err) {
        cleanup(free_ptr) char *directory = str_dup(str_of(source->path));
        char *slash = directory ? strrchr(directory, '/') : NULL;
        struct import_source there = *source;

        if (!directory)
                return err_memory(err);
        if (slash)
                slash[slash == directory] = '\0';

        there.other_roots[0] = source->root;
        if (slash)
                there.other_roots[1] = directory;

        return import_each(&there, list, deny_read_node, err);
}

static int require_files(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "deny_read", require_deny_read, NULL, false } };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown requirement about files", true, err);
}

static int require_permissions(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "filesystem", require_files, NULL, false } };

        return import_keys(source, map, IMPORT_KEYS(keys), "a profile of permissions that counts where it is chosen",
                           true, err);
}

/* If Codex may not write to the project, nothing else decides. */
static int require_modes(struct import_source *source, const struct node *list, struct err *err) {
        bool writes = false;
        int r = 0;

        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "'allowed_sandbox_modes' must be a list");

        for (const struct node *node = list->first; r == 0 && node; node = node->next) {
                r = import_want_text(source, node, err);
                writes = writes || is_word(node, "workspace-write") || is_word(node, "danger-full-access");
        }

        source->model->requires_read_only = source->model->requires_read_only || !writes;
        return r;
}

/* Of Codex's versions some join this list with the user's, and some allow only what is in both: here the latter. */
static int require_host(struct import_source *source, const struct node *node, struct str text, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node);

        if (!place)
                return err_memory(err);

        source->model->hosts_limited = source->model->hosts_required = true;
        return import_add(source->model, IMPORT_REQUIRED_HOST, str_trim(text), place, STR(""), err);
}

static int require_domains(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                if (!is_word(node, "allow")) {
                        r = codex_domain(source, node, err);
                        continue;
                }

                r = require_host(source, node, node->key, err);
                if (r == 0)
                        r = import_say(source, node, false, err, NOT_GRANTED);
        }

        return r;
}

static int require_allowed_domain(struct import_source *source, const struct node *node, struct err *err) {
        return require_host(source, node, node->text, err);
}

/* An empty list allows nothing. */
static int require_allowed_domains(struct import_source *source, const struct node *list, struct err *err) {
        int r = import_each(source, list, require_allowed_domain, err);

        source->model->hosts_limited = source->model->hosts_required = true;
        return r < 0 ? r : import_say(source, list, false, err, NOT_GRANTED);
}

/* Codex lets programs through its proxy alone then, which knows listed hosts. */
static int require_proxy(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        source->model->hosts_limited |= on;
        return r;
}

static int require_denied_domain(struct import_source *source, const struct node *node, struct err *err) {
        struct node domain = { .kind = NODE_SCALAR,
                               .quoted = true,
                               .text = STR("deny"),
                               .key = node->text,
                               .line = node->line,
                               .column = node->column };

        return codex_domain(source, &domain, err);
}

static int require_denied_domains(struct import_source *source, const struct node *list, struct err *err) {
        return import_each(source, list, require_denied_domain, err);
}

static int require_socket(struct import_source *source, const struct node *node, struct str text, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node), *path = NULL;

        if (!place)
                return err_memory(err);
        if (path_normalise(text, source->root, &path) < 0)
                return node_error(source->document, node, err, "%s is no path", show(text).text);

        return import_add(source->model, IMPORT_REQUIRED_SOCKET, str_of(path), place, STR(""), err);
}

static int require_sockets(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        source->model->sockets_required = true;

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                if (is_word(node, "allow"))
                        r = require_socket(source, node, node->key, err);
                else
                        r = import_path(source, node, node->key, IMPORT_DENY_READ, ANCHOR_PLAIN, err);
        }

        return r;
}

static int require_allowed_socket(struct import_source *source, const struct node *node, struct err *err) {
        return require_socket(source, node, node->text, err);
}

static int require_allowed_sockets(struct import_source *source, const struct node *list, struct err *err) {
        int r = import_each(source, list, require_allowed_socket, err);

        source->model->sockets_required = true;
        return r < 0 ? r : import_say(source, list, false, err, NOT_GRANTED);
}

static int require_managed_hosts(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r < 0 || !on)
                return r;

        source->model->only_file = source->model->files.n + 1;
        return import_say(source, node, false, err, "no host of another file is allowed; name those that are wanted");
}

static int require_network(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "domains", require_domains, NULL, false },
                { "denied_domains", require_denied_domains, NULL, false },
                { "managed_allowed_domains_only", require_managed_hosts, NULL, false },
                { "unix_sockets", require_sockets, NULL, false },
                { "allowed_domains", require_allowed_domains, NULL, false },
                { "allow_unix_sockets", require_allowed_sockets, NULL, false },
                { "enabled", require_proxy, NULL, false },
                { "http_port", NULL, NULL, false },
                { "socks_port", NULL, NULL, false },
                { "allow_upstream_proxy", NULL, NULL, false },
                { "allow_local_binding", NULL, NULL, false },
                { "dangerously_allow_non_loopback_proxy", NULL, NULL, false },
                { "dangerously_allow_all_unix_sockets", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown requirement about the network", true, err);
}

static int require_features(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "network_proxy", require_proxy, NULL, false } };
        int r = import_keys(source, map, IMPORT_KEYS(keys), NULL, false, err);

        return r < 0 ? r : import_say(source, map, false, err, "features but network_proxy are " NOT_HERE);
}

static int require_rules(struct import_source *source, const struct node *list, struct err *err) {
        int r = 0;

        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "'prefix_rules' must be a list");

        for (const struct node *rule = list->first; r == 0 && rule; rule = rule->next) {
                const struct node *decision = rule->kind == NODE_MAP ? node_get(rule, STR("decision")) : NULL;

                if (!decision || is_word(decision, "allow"))
                        return node_error(source->document, rule, err,
                                          "a required rule needs 'decision', prompt or forbidden");
                r = codex_prefix_rule(source, rule, err);
        }

        return r;
}

static int require_commands(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "prefix_rules", require_rules, NULL, false } };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown requirement about commands", true, err);
}

int import_codex_requirements(struct import_source *source, const struct node *root, struct err *err) {
        static const char profiles[] = "which profiles of permissions may be chosen: the choice itself is imported";
        static const struct import_key keys[] = {
                { "permissions", require_permissions, NULL, false },
                { "allowed_sandbox_modes", require_modes, NULL, false },
                { "experimental_network", require_network, NULL, false },
                { "rules", require_commands, NULL, false },
                { "allowed_permission_profiles", NULL, profiles, true },
                { "default_permissions", NULL, profiles, true },
                { "remote_sandbox_config", NULL, "modes that depend on the host's name", true },
                { "allowed_approval_policies", NULL, "people are asked as network.ask and commands say", false },
                { "allowed_approvals_reviewers", NULL, NOT_HERE, false },
                { "allowed_web_search_modes", NULL, NOT_HERE, false },
                { "features", require_features, NULL, false },
                { "mcp_servers", NULL, NOT_HERE, false },
                { "hooks", NULL, NOT_HERE, false },
                { "allow_managed_hooks_only", NULL, NOT_HERE, false },
                { "apps", NULL, NOT_HERE, false },
                { "enforce_residency", NULL, NOT_HERE, false },
        };
        int r = import_want_map(source, root, err);

        if (r < 0)
                return r;

        return import_keys(source, root, IMPORT_KEYS(keys), "an unknown requirement", true, err);
}

/* Whether every host that the user's pattern stands for is one that an administrator's allows. */
static bool host_is_covered(struct str required, struct str host) {
        if (str_is(required, "*") || str_is(required, "**"))
                return true;

        if (str_starts(required, STR("**."))) { /* with the name itself */
                if (str_eq_nocase(host, str_skip(required, 3)))
                        return true;
                required = str_skip(required, 1);
        }

        if (!str_starts(required, STR("*.")))
                return str_eq_nocase(host, required);

        struct str end = str_skip(required, 1);
        return host.n > end.n && str_eq_nocase(str_skip(host, host.n - end.n), end);
}

static int settle_hosts(struct import_model *model, struct err *err) {
        import_entries *allows = &model->lists[IMPORT_ALLOW];
        const import_entries *required = &model->lists[IMPORT_REQUIRED_HOST];
        int r = 0;

        for (size_t i = 0; r == 0 && model->hosts_required && i < allows->n;) {
                bool covered = false;

                model->work += required->n;
                r = import_check_work(model, err);
                for (size_t k = 0; k < required->n && !covered; k++)
                        covered = host_is_covered(str_of(required->p[k].text), str_of(allows->p[i].text));

                if (covered)
                        i++;
                else if (r == 0)
                        r = import_drop(model, IMPORT_ALLOW, i, false, "the administrator's list does not have it",
                                        err);
        }

        if (r < 0 || !model->hosts_limited || model->network != IMPORT_NETWORK_ANY)
                return r;

        model->network = IMPORT_NETWORK_LISTED;
        return import_note(
            model, model->tool, STR("network"), false, err,
            "Codex's proxy opens hosts by name only, so that no mode opens every host; name those that are wanted");
}

static int settle_sockets(struct import_model *model, struct err *err) {
        import_entries *reads = &model->lists[IMPORT_READ];
        const import_entries *required = &model->lists[IMPORT_REQUIRED_SOCKET];
        int r = 0;

        for (size_t i = 0; r == 0 && model->sockets_required && i < reads->n;) {
                bool stays = !reads->p[i].socket;

                model->work += required->n;
                r = import_check_work(model, err);
                for (size_t k = 0; k < required->n && !stays; k++)
                        stays = strcmp(required->p[k].text, reads->p[i].text) == 0;

                if (stays)
                        i++;
                else if (r == 0)
                        r = import_drop(model, IMPORT_READ, i, false, "the administrator's list does not have it", err);
        }

        return r;
}

int import_codex_settle(struct import_model *model, struct err *err) {
        import_entries *writes = &model->lists[IMPORT_WRITE];
        int r = settle_hosts(model, err);

        if (r == 0)
                r = settle_sockets(model, err);
        if (r < 0 || !model->requires_read_only)
                return r;

        model->workspace_writable = false;
        model->network = IMPORT_NETWORK_NONE;
        while (r == 0 && writes->n > 0)
                r = import_drop(model, IMPORT_WRITE, writes->n - 1, false, "requirements.toml lets nothing be written",
                                err);

        return r;
}
