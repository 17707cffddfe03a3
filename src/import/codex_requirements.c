/* SPDX-License-Identifier: Apache-2.0 */
/* Codex's requirements.toml: what an administrator takes away from every user. Nothing in it grants anything here. */
#include "base/cleanup.h"
#include "import/codex.h"

#include <string.h>

#define NOT_HERE "not a matter of the sandbox"

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

static int require_domains(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                if (!is_word(node, "allow"))
                        r = codex_domain(source, node, err);

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

static int require_sockets(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                if (!is_word(node, "allow"))
                        r = import_path(source, node, node->key, IMPORT_DENY_READ, ANCHOR_PLAIN, err);

        return r;
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
        static const char allowed[] = "what is required to be allowed is not granted by it";
        static const struct import_key keys[] = {
                { "domains", require_domains, NULL, false },
                { "denied_domains", require_denied_domains, NULL, false },
                { "managed_allowed_domains_only", require_managed_hosts, NULL, false },
                { "unix_sockets", require_sockets, NULL, false },
                { "allowed_domains", NULL, allowed, false },
                { "allow_unix_sockets", NULL, allowed, false },
                { "enabled", NULL, NULL, false },
                { "http_port", NULL, NULL, false },
                { "socks_port", NULL, NULL, false },
                { "allow_upstream_proxy", NULL, NULL, false },
                { "allow_local_binding", NULL, NULL, false },
                { "dangerously_allow_non_loopback_proxy", NULL, NULL, false },
                { "dangerously_allow_all_unix_sockets", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown requirement about the network", true, err);
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
                { "features", NULL, NOT_HERE, false },
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

int import_codex_settle(struct import_model *model, struct err *err) {
        import_entries *writes = &model->lists[IMPORT_WRITE];
        int r = 0;

        if (!model->requires_read_only)
                return 0;

        model->workspace_writable = false;
        model->network = IMPORT_NETWORK_NONE;
        while (r == 0 && writes->n > 0)
                r = import_drop(model, IMPORT_WRITE, writes->n - 1, false, "requirements.toml lets nothing be written",
                                err);

        return r;
}
