/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codex: config.toml with sandbox_mode and its table, or with [permissions.NAME], rule files (*.rules), and what an
 * administrator requires (requirements.toml). The strictest of all rules that match wins. What a rule allows runs
 * outside Codex's sandbox; here it runs inside.
 *
 * Codex keeps .git, .codex and .agents of every writable directory from being written to; so does the result.
 */
#include "import/codex.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/suggest.h"

#include <errno.h>

#define NOT_HERE "not a matter of the sandbox"

static const char *const kept_back[] = { ".git", ".codex", ".agents" };

static int keep_back(struct import_source *source, const struct node *node, const char *directory, struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node);
        int r = 0;

        if (!place)
                r = err_memory(err);

        for (size_t i = 0; r == 0 && i < sizeof kept_back / sizeof *kept_back; i++) {
                cleanup(free_ptr) char *path = path_join(directory, kept_back[i]);
                cleanup(buf_done) struct buf literal = BUF(65536);

                if (path && import_add_literal(&literal, str_of(path)) == 0)
                        r = import_add(source->model, IMPORT_DENY_WRITE, buf_str(&literal), place, STR(""), err);
                else
                        r = err_memory(err);
        }

        return r;
}

/* --- sandbox_mode --- */

static int add_root(struct import_source *source, const struct node *node, struct err *err) {
        size_t before = source->model->lists[IMPORT_WRITE].n;
        int r = import_path(source, node, node->text, IMPORT_WRITE, ANCHOR_PLAIN, err);
        const import_entries *writes = &source->model->lists[IMPORT_WRITE];

        if (r < 0 || writes->n == before)
                return r;
        return keep_back(source, node, writes->p[writes->n - 1].text, err);
}

/* Codex takes it from the directory of its file. Below the project both are harmless; what leaves it is uncertain. */
static int add_listed_root(struct import_source *source, const struct node *node, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        bool relative = !import_is_anchored(node->text);

        if (relative && (path_normalise(node->text, source->model->workspace, &path) < 0 ||
                         !path_is_within(path, source->model->workspace)))
                return import_say(source, node, false, err, "it is not certain what this path is relative to");

        return add_root(source, node, err);
}

static int add_roots(struct import_source *source, const struct node *node, struct err *err) {
        return import_each(source, node, add_listed_root, err);
}

static int network_access(struct import_source *source, const struct node *node, struct err *err) {
        bool on = false;
        int r = import_want_bool(source, node, &on, err);

        if (r == 0 && on)
                source->model->network = IMPORT_NETWORK_ANY;
        return r;
}

static int read_workspace_write(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "writable_roots", add_roots, NULL, false },
                { "network_access", network_access, NULL, false },
                { "exclude_tmpdir_env_var", NULL, NULL, false }, /* the sandbox has a /tmp of its own */
                { "exclude_slash_tmp", NULL, NULL, false },
        };

        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about the sandbox", true, err);
}

/* The table counts only in its own mode. */
static int read_mode(struct import_source *source, const struct node *root, const struct node *mode, struct err *err) {
        const struct node *table = node_get(root, STR("sandbox_workspace_write"));
        int r = import_want_text(source, mode, err);

        if (r < 0)
                return r;
        if (str_is(mode->text, "read-only")) {
                if (table)
                        return import_say(source, table, false, err, "it counts in the mode workspace-write only");
                return 0;
        }

        if (str_is(mode->text, "danger-full-access"))
                return node_error(source->document, mode, err,
                                  "danger-full-access means no sandbox at all: every file, every host. There is no "
                                  "such policy; set sandbox_mode to workspace-write, or write a policy by hand");

        if (!str_is(mode->text, "workspace-write"))
                return node_error(source->document, mode, err,
                                  "%s is no sandbox_mode: read-only, workspace-write, danger-full-access",
                                  show(mode->text).text);

        source->model->workspace_writable = true;
        r = keep_back(source, mode, source->model->workspace, err);

        if (r < 0 || !table)
                return r;

        return read_workspace_write(source, table, err);
}

/* --- [permissions.NAME] --- */

/* The place of that name, or one below it. */
static bool is_below(struct str path, const char *name) {
        size_t n = strlen(name);

        return str_starts(path, str_of(name)) && (path.n == n || path.p[n] == '/');
}

static bool leaves_workspace(struct str path) {
        struct str part;

        while (str_split(&path, '/', &part))
                if (str_is(part, ".."))
                        return true;
        return false;
}

static bool is_word(const struct node *node, const char *word) {
        return node->kind == NODE_SCALAR && str_is(node->text, word);
}

static int read_system_roots(struct import_source *source, const struct node *node, struct err *err) {
        static const char *const system_roots[] = { "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt" };
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof system_roots / sizeof *system_roots; i++)
                r = import_path(source, node, str_of(system_roots[i]), IMPORT_READ, ANCHOR_PLAIN, err);
        return r;
}

int codex_deny_place(struct import_source *source, const struct node *node, struct str path, struct err *err) {
        int r = import_path(source, node, path, IMPORT_DENY_READ, ANCHOR_PLAIN, err);

        if (r < 0)
                return r;

        return import_path(source, node, path, IMPORT_DENY_WRITE, ANCHOR_PLAIN, err);
}

/* One place, or a place with places below it. */
static int read_place(struct import_source *source, const struct node *node, struct str path, struct err *err) {
        bool workspace =
            is_below(path, ":workspace_roots") || is_below(path, ":project_roots") || is_below(path, ":cwd");
        bool write = is_word(node, "write"), read = is_word(node, "read");

        if (node->kind == NODE_MAP) {
                int r = 0;
                for (const struct node *n = node->first; r == 0 && n; n = n->next) {
                        cleanup(free_ptr) char *below = str_is(n->key, ".")
                                                            ? str_dup(path)
                                                            : str_format("%.*s/%.*s", STR_FMT(path), STR_FMT(n->key));
                        if (below)
                                r = read_place(source, n, str_of(below), err);
                        else
                                r = err_memory(err);
                }

                return r;
        }

        if (!write && !read && !is_word(node, "none") && !is_word(node, "deny"))
                return node_error(source->document, node, err, "%s must be read, write or none", show(node->key).text);
        if (str_is(path, ":minimal")) {
                if (read || write)
                        return read_system_roots(source, node, err);
                return 0;
        }

        if (str_is(path, ":root"))
                path = STR("/");
        else if (str_is(path, ":tmpdir") || str_is(path, ":slash_tmp"))
                return 0; /* the sandbox has a /tmp of its own */
        else if (workspace) {
                ptrdiff_t slash = str_find(path, '/');
                path = slash < 0 ? STR(".") : str_skip(path, (size_t)slash + 1);
                if ((read || write) && leaves_workspace(path))
                        return import_say(source, node, false, err,
                                          "a place below the project does not lead out of it");
        } else if (path.n > 0 && path.p[0] == ':')
                return import_say(source, node, !read && !write, err, "an unknown name of a place");

        if (!read && !write)
                return codex_deny_place(source, node, path, err);

        if (write)
                return add_root(source,
                                &(struct node){ .kind = NODE_SCALAR,
                                                .quoted = true,
                                                .text = path,
                                                .key = node->key,
                                                .line = node->line,
                                                .column = node->column },
                                err);

        return import_path(source, node, path, IMPORT_READ, ANCHOR_PLAIN, err);
}

/* Codex goes by the most specific place, as Bailey does; a place that is only read inside one that is written to is
 * a denial to write here. */
static int read_places(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        source->model->reads_listed = source->model->reads_limit_writes = true;

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                if (str_is(node->key, "glob_scan_max_depth"))
                        continue;
                r = read_place(source, node, node->key, err);
        }

        return r;
}

int codex_domain(struct import_source *source, const struct node *node, struct err *err) {
        bool allow = is_word(node, "allow");
        struct str text = node->key;
        int r = 0;

        if (!allow && !is_word(node, "deny"))
                return node_error(source->document, node, err, "%s must be allow or deny", show(node->key).text);

        if (str_starts(text, STR("**."))) { /* with the name itself */
                struct str name = str_skip(text, 3);

                if (allow)
                        r = import_allow_host(source, node, name, err);
                else
                        r = import_deny_host(source, node, name, err);
                text = str_skip(text, 1);
        }

        if (r < 0)
                return r;

        if (allow)
                return import_allow_host(source, node, text, err);

        return import_deny_host(source, node, text, err);
}

static int read_domains(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                r = codex_domain(source, node, err);
        return r;
}

static int read_sockets(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                r = is_word(node, "allow") ? import_socket(source, node, node->key, err)
                                           : import_path(source, node, node->key, IMPORT_DENY_READ, ANCHOR_PLAIN, err);
        return r;
}

static int read_method_mode(struct import_source *source, const struct node *node, struct err *err) {
        if (is_word(node, "limited"))
                source->model->safe_methods = true;
        else if (!is_word(node, "full"))
                return node_error(source->document, node, err, "'mode' must be full or limited");
        return 0;
}

static int read_network(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "enabled", NULL, NULL, false },
                { "domains", read_domains, NULL, false },
                { "mode", read_method_mode, NULL, false },
                { "unix_sockets", read_sockets, NULL, false },
                { "allow_local_binding", NULL, NULL, false },
                { "proxy_url", NULL, NULL, false },
                { "socks_url", NULL, NULL, false },
                { "enable_socks5", NULL, NULL, false },
                { "enable_socks5_udp", NULL, "a sandbox has TCP and DNS only", false },
                { "allow_upstream_proxy", NULL, "an upstream proxy is network.upstream_proxy", false },
        };
        int r = import_want_map(source, map, err);
        if (r < 0)
                return r;

        const struct node *enabled = node_get(map, STR("enabled")), *domains = node_get(map, STR("domains"));
        bool on = false;

        if (enabled)
                r = import_want_bool(source, enabled, &on, err);
        else
                r = 0;
        if (r < 0 || !on)
                return r;

        source->model->network = domains ? IMPORT_NETWORK_LISTED : IMPORT_NETWORK_ANY;
        return import_keys(source, map, IMPORT_KEYS(keys), "an unknown key about the network", true, err);
}

/* --- [features] --- */

/* Lists narrow a network that is open to every host, and widen no other. */
static int read_proxy_domains(struct import_source *source, const struct node *map, struct err *err) {
        bool open = source->model->network == IMPORT_NETWORK_ANY;
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                bool every = str_is(node->key, "*") || str_is(node->key, "**");

                if (is_word(node, "allow") && (!open || every))
                        r = import_say(source, node, false, err,
                                       "what Codex's proxy lets through opens nothing by itself");
                else
                        r = codex_domain(source, node, err);
        }

        return r;
}

static int read_proxy_sockets(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                if (!is_word(node, "allow"))
                        r = import_path(source, node, node->key, IMPORT_DENY_READ, ANCHOR_PLAIN, err);

        return r;
}

/* With its proxy on, Codex opens listed hosts only, whatever the mode opens. */
static int read_proxy(struct import_source *source, const struct node *node, struct err *err) {
        static const struct import_key keys[] = {
                { "domains", read_proxy_domains, NULL, false },
                { "mode", read_method_mode, NULL, false },
                { "unix_sockets", read_proxy_sockets, NULL, false },
        };
        const struct node *enabled = node->kind == NODE_MAP ? node_get(node, STR("enabled")) : node;
        bool on = false;
        int r = enabled ? import_want_bool(source, enabled, &on, err) : 0;

        if (r < 0 || !on)
                return r;

        source->model->hosts_limited = true;
        if (node->kind != NODE_MAP)
                return 0;

        return import_keys(source, node, IMPORT_KEYS(keys), NULL, false, err);
}

static int read_features(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = { { "network_proxy", read_proxy, NULL, false } };

        return import_keys(source, map, IMPORT_KEYS(keys), NULL, false, err);
}

static int read_workspace_roots(struct import_source *source, const struct node *map, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next)
                r = import_say(source, node, false, err, "a workspace beside this one: grant it with filesystem.write");
        return r;
}

static int read_profile(struct import_source *source, const struct node *root, const struct node *name,
                        struct err *err) {
        static const struct import_key keys[] = {
                { "filesystem", read_places, NULL, false },
                { "network", read_network, NULL, false },
                { "workspace_roots", read_workspace_roots, NULL, false },
                { "description", NULL, NULL, false },
                { "extends", NULL, "the permissions that it extends are not read: their denials are missing", true },
        };
        const struct node *all = node_get(root, STR("permissions")), *profile = NULL;
        int r = import_want_text(source, name, err);

        if (r < 0)
                return r;

        if (str_is(name->text, ":danger-no-sandbox") || str_is(name->text, ":danger-full-access"))
                return node_error(source->document, name, err,
                                  "it means no sandbox at all: every file, every host. There is no such policy");

        if (str_is(name->text, ":read-only"))
                return 0;

        if (str_is(name->text, ":workspace")) {
                source->model->workspace_writable = true;
                return keep_back(source, name, source->model->workspace, err);
        }

        if (all && all->kind == NODE_MAP)
                profile = node_get(all, name->text);

        if (!profile)
                return node_error(source->document, name, err, "there is no profile %s in [permissions]",
                                  show(name->text).text);

        return import_keys(source, profile, IMPORT_KEYS(keys), "an unknown key about permissions", true, err);
}

/* --- which of them counts --- */

/* Codex's versions differ in whether a profile's mode wins over default_permissions, and in whether it counts at all:
 * the strictest of what may count does. What [permissions] say has no place in that order. */
enum choice_rank { RANK_UNKNOWN, RANK_READ_ONLY, RANK_WORKSPACE, RANK_WORKSPACE_WRITE, RANK_NAMED, RANK_FULL };

static enum choice_rank rank_of(const struct import_choice *choice) {
        static const struct {
                const char *mode;
                bool permissions;
                enum choice_rank rank;
        } known[] = {
                { "read-only", false, RANK_READ_ONLY },     { "workspace-write", false, RANK_WORKSPACE_WRITE },
                { "danger-full-access", false, RANK_FULL }, { ":read-only", true, RANK_READ_ONLY },
                { ":workspace", true, RANK_WORKSPACE },     { ":danger-no-sandbox", true, RANK_FULL },
                { ":danger-full-access", true, RANK_FULL },
        };

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (choice->permissions == known[i].permissions && strcmp(choice->mode, known[i].mode) == 0)
                        return known[i].rank;

        return choice->permissions ? RANK_NAMED : RANK_UNKNOWN;
}

static const struct node *choice_node(const struct node *map, bool permissions) {
        return node_get(map, permissions ? STR("default_permissions") : STR("sandbox_mode"));
}

static int add_choice(struct import_source *source, const char *profile, const struct node *said, bool permissions,
                      struct err *err) {
        struct import_choice choice = { .permissions = permissions };
        int r = said ? import_want_text(source, said, err) : 0;

        if (r < 0)
                return r;

        choice.profile = profile ? str_dup(str_of(profile)) : NULL;
        choice.mode = said ? str_dup(said->text) : NULL;

        if ((profile && !choice.profile) || (said && !choice.mode) || vec_push(&source->model->choices, choice) < 0) {
                free(choice.profile);
                free(choice.mode);
                return err_memory(err);
        }

        return 0;
}

/* In one file without a profile default_permissions win. */
static int look_at_file(struct import_source *source, const struct node *root, struct err *err) {
        bool permissions = choice_node(root, true) != NULL;

        if (!choice_node(root, permissions))
                return 0;

        return add_choice(source, NULL, choice_node(root, permissions), permissions, err);
}

static int look_at_profiles(struct import_source *source, const struct node *all, struct err *err) {
        int r = 0;

        for (const struct node *node = all->first; r == 0 && node; node = node->next) {
                cleanup(free_ptr) char *name = str_dup(node->key);

                if (!name)
                        return err_memory(err);
                if (node->kind != NODE_MAP)
                        continue;

                r = add_choice(source, name, choice_node(node, true), true, err);
                if (r == 0)
                        r = add_choice(source, name, choice_node(node, false), false, err);
        }

        return r;
}

int import_codex_look(struct import_source *source, const struct node *root, struct err *err) {
        struct import_model *model = source->model;
        int r = import_want_map(source, root, err);

        if (r < 0)
                return r;

        const struct node *name = node_get(root, STR("profile")), *all = node_get(root, STR("profiles"));
        if (name && !model->profile) {
                r = import_want_text(source, name, err);
                if (r < 0)
                        return r;

                model->profile = str_dup(name->text);
                model->profile_place = node_origin(source->document, name);
                if (!model->profile || !model->profile_place)
                        return err_memory(err);
        }

        r = look_at_file(source, root, err);
        if (r == 0 && all && all->kind == NODE_MAP)
                r = look_at_profiles(source, all, err);

        return r;
}

/* The first of all files that says it; NULL: none does. */
static const struct import_choice *first_choice(const struct import_model *model, bool of_profile, bool permissions) {
        for (size_t i = 0; i < model->choices.n; i++) {
                const struct import_choice *choice = &model->choices.p[i];
                bool same =
                    of_profile ? choice->profile && strcmp(choice->profile, model->profile) == 0 : !choice->profile;

                if (same && choice->mode && (!of_profile || choice->permissions == permissions))
                        return choice;
        }

        return NULL;
}

static bool profile_exists(const struct import_model *model) {
        for (size_t i = 0; i < model->choices.n; i++)
                if (model->choices.p[i].profile && strcmp(model->choices.p[i].profile, model->profile) == 0)
                        return true;
        return false;
}

/* *choice becomes the stricter of both. */
static int choose_stricter(struct import_source *source, const struct node *where, const struct import_choice *other,
                           const struct import_choice **choice, struct err *err) {
        if (!*choice)
                *choice = other;
        if (!other || (strcmp((*choice)->mode, other->mode) == 0 && (*choice)->permissions == other->permissions))
                return 0;

        enum choice_rank one = rank_of(*choice), two = rank_of(other);
        bool known = one != RANK_UNKNOWN && two != RANK_UNKNOWN && one != RANK_FULL && two != RANK_FULL;

        if (known && (one == RANK_NAMED || two == RANK_NAMED))
                return node_error(source->document, where, err,
                                  "it depends on Codex's version whether %s or %s counts, and neither is the stricter "
                                  "one; leave one of them",
                                  show(str_of((*choice)->mode)).text, show(str_of(other->mode)).text);

        if (two < one)
                *choice = other;

        return import_say(source, where, false, err,
                          "it depends on Codex's version whether the profile counts: the stricter one does, %s",
                          show(str_of((*choice)->mode)).text);
}

/* Where this file says it, else `otherwise`. */
static const struct node *find_said(const struct import_model *model, const struct node *root,
                                    const struct import_choice *choice, const struct node *otherwise) {
        const struct node *all = node_get(root, STR("profiles")), *own = choice_node(root, choice->permissions);
        const struct node *profile = NULL, *said = NULL;

        if (all && all->kind == NODE_MAP && model->profile)
                profile = node_get(all, str_of(model->profile));
        if (profile && profile->kind == NODE_MAP)
                said = choice_node(profile, choice->permissions);

        if (said && is_word(said, choice->mode))
                return said;
        if (own && is_word(own, choice->mode))
                return own;

        return otherwise;
}

/* The first file with a mode, or with a profile that has one, decides. What it decides is the same in every file. */
static int decide(struct import_source *source, const struct node *root, struct err *err) {
        struct import_model *model = source->model;
        const struct node *where = node_get(root, STR("profile"));
        const struct import_choice *choice = NULL, *by_mode = NULL, *by_permissions = NULL;
        int r;

        if (model->profile && !profile_exists(model))
                return err_set(err, EINVAL, "%s: there is no profile %s in [profiles]", model->profile_place,
                               show(str_of(model->profile)).text);

        if (model->profile) {
                by_mode = first_choice(model, true, false);
                by_permissions = first_choice(model, true, true);
        }

        if (!by_mode && !by_permissions)
                where = NULL;
        if (!where)
                where = choice_node(root, choice_node(root, true) != NULL);
        if (!where)
                return 0;

        model->mode_decided = true;
        choice = first_choice(model, false, false);
        r = choose_stricter(source, where, by_mode, &choice, err);
        if (r == 0)
                r = choose_stricter(source, where, by_permissions, &choice, err);
        if (r < 0 || !choice)
                return r;

        struct node said = *find_said(model, root, choice, where);
        said.text = str_of(choice->mode);

        if (choice->permissions)
                return read_profile(source, root, &said, err);

        return read_mode(source, root, &said, err);
}

/* Which variables programs get. Some that Bailey passes on may be left out there. */
static int read_environment(struct import_source *source, const struct node *map, struct err *err) {
        static const struct import_key keys[] = {
                { "inherit", NULL, "variables are passed with process.env.pass", true },
                { "exclude", NULL, "variables are passed with process.env.pass", true },
                { "include_only", NULL, "variables are passed with process.env.pass", true },
                { "set", NULL, "variables are set with process.env.set", false },
        };
        const struct node *inherit = map->kind == NODE_MAP ? node_get(map, STR("inherit")) : NULL;

        if (inherit && is_word(inherit, "all"))
                return import_keys(source, map, keys + 1, sizeof keys / sizeof *keys - 1, NULL, false, err);

        return import_keys(source, map, IMPORT_KEYS(keys), NULL, false, err);
}

int import_codex(struct import_source *source, const struct node *root, struct err *err) {
        static const struct import_key keys[] = {
                { "shell_environment_policy", read_environment, NULL, false },
                { "approval_policy", NULL, "people are asked as network.ask and commands say", false },
                { "features", read_features, NULL, false },
                { "projects", NULL, NULL, false },
                { "mcp_servers", NULL, NOT_HERE, false },
        };
        int r = import_want_map(source, root, err);

        if (r < 0)
                return r;

        if (!source->model->mode_decided)
                r = decide(source, root, err);
        if (r < 0)
                return r;

        return import_keys(source, root, IMPORT_KEYS(keys), NULL, false, err);
}

/* --- rules --- */

enum { TOKENS_MAX = 16, SPELLINGS_MAX = 64 };

struct spelling {
        struct str words[TOKENS_MAX];
        size_t n;
        unsigned left; /* spellings that may still be made */
        const char *decision;
        struct str reason;
};

/* A word, a list of alternatives, or in requirements one of { token = WORD } and { any_of = LIST }. */
static int find_choices(struct import_source *source, const struct node *token, const struct node **ret_first,
                        bool *ret_listed, struct err *err) {
        const struct node *said = token;

        if (token->kind == NODE_MAP) {
                const struct node *one = node_get(token, STR("token")), *any = node_get(token, STR("any_of"));

                said = one ? one : any;
                if (!said || (one && any) || (said == one) != (said->kind == NODE_SCALAR))
                        return node_error(source->document, token, err,
                                          "a word is { token = WORD } or { any_of = LIST }");
        }

        *ret_listed = said->kind == NODE_LIST;
        *ret_first = *ret_listed ? said->first : said;

        return 0;
}

/* Every choice of alternatives is a rule of its own. */
static int spell_out(struct import_source *source, const struct node *call, const struct node *token,
                     struct spelling *so_far, struct err *err) {
        const struct node *first = NULL;
        bool listed = false;
        int r = 0;

        if (!token) {
                if (so_far->left-- == 0)
                        return node_error(source->document, call, err, "more than %d alternatives", SPELLINGS_MAX);
                return import_command_argv(source, call, so_far->decision, so_far->words, so_far->n, so_far->reason,
                                           err);
        }

        if (so_far->n == TOKENS_MAX)
                return node_error(source->document, token, err, "more than %d words", TOKENS_MAX);

        r = find_choices(source, token, &first, &listed, err);

        for (const struct node *node = first; r == 0 && node; node = listed ? node->next : NULL) {
                r = import_want_text(source, node, err);
                if (r < 0)
                        return r;

                so_far->words[so_far->n++] = node->text;
                r = spell_out(source, call, token->next, so_far, err);
                so_far->n--;
        }

        return r;
}

int codex_prefix_rule(struct import_source *source, const struct node *call, struct err *err) {
        static const struct {
                const char *word, *decision;
        } words[] = { { "allow", "allow" }, { "prompt", "escalate" }, { "forbidden", "forbid" } };
        const struct node *pattern = node_get(call, STR("pattern")), *decision = node_get(call, STR("decision"));
        const struct node *why = node_get(call, STR("justification"));
        struct spelling spelling = { .left = SPELLINGS_MAX, .decision = decision ? NULL : "allow" };

        if (!pattern || pattern->kind != NODE_LIST || pattern->n == 0)
                return node_error(source->document, call, err, "prefix_rule needs 'pattern', a list of words");

        for (size_t i = 0; decision && i < sizeof words / sizeof *words; i++)
                if (is_word(decision, words[i].word))
                        spelling.decision = words[i].decision;

        if (!spelling.decision)
                return node_error(source->document, decision, err, "'decision' must be allow, prompt or forbidden");
        if (why && why->kind == NODE_SCALAR)
                spelling.reason = why->text;

        return spell_out(source, call, pattern->first, &spelling, err);
}

int import_codex_rules(struct import_source *source, const struct node *root, struct err *err) {
        int r = 0;

        for (const struct node *call = root->first; r == 0 && call; call = call->next) {
                if (str_is(call->key, "prefix_rule"))
                        r = codex_prefix_rule(source, call, err);
                else
                        r = import_say(source, call, !str_is(call->key, "host_executable"), err,
                                       "a function that a policy has no word for");
        }

        return r;
}
