/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a profile's tree to a policy. It knows few keys, and each of them adds: whatever a person has said about a
 * variable, a credential or a path stays as it is.
 */
#include "policy/profile/profile.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/apply.h"
#include "policy/check.h"
#include "policy/credential.h"
#include "policy/home_kind.h"
#include "policy/judge/records.h"
#include "policy/keys.h"

#include <errno.h>
#include <stdlib.h>

struct work {
        const struct profile *profile;
        struct policy *policy;
        const char *origin;
        struct err *e;
};

/* Text for agents, in the file of their home in which they look for such. */
static const char instructions[] =
    "You run inside Bailey, a sandbox. Only some hosts and some files can be reached from here. What is refused is "
    "refused\n"
    "by policy, not by a fault of the network: do not try it again and again, and do not look for a way round.\n"
    "`bailey why HOST` or `bailey why PATH` tells the reason, and what the person who started you can do about it: "
    "show\n"
    "them that answer. Keys in the environment and in sign-in files here are stand-ins, which work with their own\n"
    "provider only.\n";

static const struct document *work_document(const struct work *work) {
        return work->profile->file.document;
}

static int no_memory(struct work *work) {
        return err_memory(work->e);
}

static int wrong_kind(struct work *work, const struct node *node, const char *key, const char *wanted) {
        return node_error(work_document(work), node, work->e, "%s needs %s, not %s", key, wanted,
                          node_kind_name(node->kind));
}

static int unknown_key(struct work *work, const struct node *node, const char *const *known) {
        struct suggestion suggestion = suggest_for(node->key);

        for (; *known; known++)
                suggest_offer(&suggestion, *known);
        return node_key_error(work_document(work), node, work->e, "a profile has no key %s here%s",
                              show(node->key).text, suggest_text(&suggestion, "").text);
}

static int add_value(struct work *work, const struct node *node, enum policy_row row, struct str text) {
        struct err inner = { 0 };
        int r = option_check(&policy_rows[row], text, &inner);

        if (r == 0)
                r = policy_apply(work->policy, row, text, work->origin, "/", &inner);
        if (r == -ENOMEM)
                return no_memory(work);

        if (r < 0)
                return node_error(work_document(work), node, work->e, "%s", err_text(&inner));

        return 0;
}

static int add_list(struct work *work, const struct node *list, enum policy_row row) {
        int r = 0;

        if (list->kind != NODE_LIST)
                return wrong_kind(work, list, policy_rows[row].key, "a list");

        for (const struct node *node = list->first; node && r == 0; node = node->next) {
                if (node->kind != NODE_SCALAR)
                        return wrong_kind(work, node, policy_rows[row].key, "single values");
                r = add_value(work, node, row, node->text);
        }

        return r;
}

/* A section whose members are lists of rows, by a table. */
struct list_key {
        const char *key;
        enum policy_row row;
};

static int add_lists(struct work *work, const struct node *map, const struct list_key *keys, size_t n_keys) {
        const char *known[8] = { NULL };
        int r = 0;

        if (map->kind != NODE_MAP)
                return wrong_kind(work, map, "this section", "a mapping");

        for (size_t i = 0; i < n_keys; i++)
                known[i] = keys[i].key;

        for (const struct node *node = map->first; node && r == 0; node = node->next) {
                size_t i = 0;

                while (i < n_keys && !str_is(node->key, keys[i].key))
                        i++;
                if (i < n_keys)
                        r = add_list(work, node, keys[i].row);
                else
                        r = unknown_key(work, node, known);
        }

        return r;
}

static int add_network(struct work *work, const struct node *map) {
        static const struct list_key keys[] = { { "allow", ROW_ALLOW },
                                                { "deny", ROW_DENY },
                                                { "quiet", ROW_QUIET_HOSTS } };

        return add_lists(work, map, keys, sizeof keys / sizeof *keys);
}

/* Where the sandbox has a home of its own, all of that is its. */
static int add_real_home(struct work *work, const struct node *map) {
        static const struct list_key keys[] = { { "read", ROW_READ },
                                                { "write", ROW_WRITE },
                                                { "deny_read", ROW_DENY_READ },
                                                { "deny_write", ROW_DENY_WRITE } };

        if (home_is_own(work->policy))
                return 0;

        return add_lists(work, map, keys, sizeof keys / sizeof *keys);
}

/*
 * Variables.
 */
static bool is_set_by_a_person(const struct policy *policy, struct str name) {
        for (size_t i = 0; i < policy->process.env_set.n; i++) {
                struct str line = str_of(policy->process.env_set.p[i].text);

                if (line.n > name.n && str_starts(line, name) && line.p[name.n] == '=')
                        return true;
        }
        return false;
}

static int add_variable(struct work *work, const struct node *node) {
        struct err inner = { 0 };

        if (node->kind != NODE_SCALAR)
                return wrong_kind(work, node, "process.env.set", "single values");
        if (check_variable_name(node->key, &inner) < 0)
                return node_key_error(work_document(work), node, work->e, "%s", err_text(&inner));
        if (is_set_by_a_person(work->policy, node->key))
                return 0;

        cleanup(free_ptr) char *line = str_format("%.*s=%.*s", STR_FMT(node->key), STR_FMT(node->text));
        if (!line)
                return no_memory(work);

        return add_value(work, node, ROW_ENV, str_of(line));
}

static int add_env(struct work *work, const struct node *map) {
        static const char *const known[] = { "set", "pass", NULL };
        int r = 0;

        if (map->kind != NODE_MAP)
                return wrong_kind(work, map, "process.env", "a mapping");

        for (const struct node *node = map->first; node && r == 0; node = node->next) {
                if (str_is(node->key, "pass"))
                        r = add_list(work, node, ROW_ENV_PASS);
                else if (!str_is(node->key, "set"))
                        r = unknown_key(work, node, known);
                else if (node->kind != NODE_MAP)
                        r = wrong_kind(work, node, "process.env.set", "a mapping");
                else
                        for (const struct node *one = node->first; one && r == 0; one = one->next)
                                r = add_variable(work, one);
        }

        return r;
}

static int add_process(struct work *work, const struct node *map) {
        static const char *const known[] = { "env", NULL };
        int r = 0;

        if (map->kind != NODE_MAP)
                return wrong_kind(work, map, "process", "a mapping");

        for (const struct node *node = map->first; node && r == 0; node = node->next)
                r = str_is(node->key, "env") ? add_env(work, node) : unknown_key(work, node, known);

        return r;
}

/*
 * Credentials.
 */
static int add_also(struct work *work, const struct node *list, origin_texts *ret,
                    int (*check)(struct str text, struct err *e)) {
        for (const struct node *node = list ? list->first : NULL; node; node = node->next) {
                struct err inner = { 0 };

                if (node->kind != NODE_SCALAR || check(node->text, &inner) < 0)
                        return node_error(work_document(work), node, work->e, "%s",
                                          inner.code ? err_text(&inner) : "a single value is needed here");

                bool there = false;
                for (size_t i = 0; i < ret->n; i++)
                        there = there || str_is(node->text, ret->p[i].text);

                if (!there && origin_texts_add(ret, node->text, work->origin) < 0)
                        return no_memory(work);
        }

        return 0;
}

/* The agent's own variable, if the host has it and nobody decided about it: it counts before the provider's. */
static const struct node *own_variable(const struct work *work, const struct node *also_env) {
        for (const struct node *node = also_env ? also_env->first : NULL; node; node = node->next)
                if (node->kind == NODE_SCALAR && credential_variable_is_free(work->policy, node->text.p))
                        return node;
        return NULL;
}

/* PROVIDER with more variables and hosts: { provider: openai, also_env: [CODEX_API_KEY], also_hosts: [chatgpt.com] } */
static int add_provider(struct work *work, const struct node *map, const struct node *provider) {
        static const char *const known[] = { "provider", "also_env", "also_hosts", NULL };
        const struct node *also_env = node_get(map, STR("also_env")), *also_hosts = node_get(map, STR("also_hosts"));
        const struct node *own = own_variable(work, also_env);
        cleanup(free_ptr) char *word = NULL;
        int r;

        for (const struct node *node = map->first; node; node = node->next)
                if (!str_is(node->key, known[0]) && !str_is(node->key, known[1]) && !str_is(node->key, known[2]))
                        return unknown_key(work, node, known);

        bool there = credential_of_provider(work->policy, provider->text.p) != NULL;
        if (!there && !own && !credential_is_at_hand(work->policy, provider->text))
                return check_credential_word(provider->text, work->e);

        if (!there && own)
                word = str_format("%.*s=env:%.*s", STR_FMT(provider->text), STR_FMT(own->text));
        else
                word = str_dup(provider->text);
        if (!word)
                return no_memory(work);

        r = add_value(work, provider, ROW_CREDENTIAL, str_of(word));
        if (r < 0)
                return r;

        struct credential *made = credential_of_provider(work->policy, provider->text.p);
        if (!made)
                return 0;

        r = add_also(work, also_env, &made->also_env, check_variable_name);
        if (r < 0)
                return r;

        return add_also(work, also_hosts, &made->also_hosts, check_plain_pattern);
}

/* One of its own, written as in a policy. It counts if the host has its variable and no setting decides about that. */
static int add_own_credential(struct work *work, const struct node *map) {
        const struct node *env = node_get(map, STR("env"));
        struct policy *policy = work->policy;
        cleanup(policy_freep) struct policy *unused = NULL;
        bool widens;

        if (!env || env->kind != NODE_SCALAR || !credential_variable_is_free(policy, env->text.p)) {
                unused = calloc(1, sizeof *unused); /* read all the same, for what is wrong with it */
                if (!unused)
                        return no_memory(work);
                policy = unused;
        }

        for (size_t i = 0; i < POLICY_RECORDS; i++)
                if (strcmp(policy_records[i].key, "credentials") == 0)
                        return record_read(policy, &policy_records[i], work_document(work), map, &widens, work->e);

        return 0;
}

static int add_credential(struct work *work, const struct node *node) {
        const struct node *provider = node->kind == NODE_MAP ? node_get(node, STR("provider")) : NULL;

        if (node->kind == NODE_SCALAR) {
                struct err inner = { 0 };
                if (check_credential_word(node->text, &inner) < 0)
                        return node_error(work_document(work), node, work->e, "%s", err_text(&inner));
                if (credential_is_at_hand(work->policy, node->text))
                        return add_value(work, node, ROW_CREDENTIAL, node->text);

                return 0;
        }

        if (node->kind != NODE_MAP)
                return wrong_kind(work, node, "credentials", "providers or mappings");

        if (provider && provider->kind == NODE_SCALAR)
                return add_provider(work, node, provider);

        return add_own_credential(work, node);
}

static int add_credentials(struct work *work, const struct node *list) {
        int r = 0;

        if (list->kind != NODE_LIST)
                return wrong_kind(work, list, "credentials", "a list");
        for (const struct node *node = list->first; node && r == 0; node = node->next)
                r = add_credential(work, node);
        return r;
}

/*
 * Files of the sandbox's own home.
 */
static bool path_is_good(struct str path) {
        struct str rest = path, part;

        if (path.n == 0 || path.p[0] == '/' || path.p[path.n - 1] == '/')
                return false;

        while (str_split(&rest, '/', &part))
                if (part.n == 0 || str_is(part, ".") || str_is(part, ".."))
                        return false;

        return true;
}

static int add_home_file(struct work *work, const struct node *map) {
        static const char *const known[] = { "path", "content", "once", "instructions", NULL };
        struct home_seed seed = { 0 };
        struct str path = STR(""), content = STR("");

        if (map->kind != NODE_MAP)
                return wrong_kind(work, map, "home", "mappings");

        for (const struct node *node = map->first; node; node = node->next) {
                if (node->kind != NODE_SCALAR)
                        return wrong_kind(work, node, "home", "single values");
                if (str_is(node->key, "path"))
                        path = node->text;
                else if (str_is(node->key, "content"))
                        content = node->text;
                else if (str_is(node->key, "once"))
                        seed.once = str_is(node->text, "true");
                else if (str_is(node->key, "instructions") && str_is(node->text, "true"))
                        content = str_of(instructions);
                else
                        return unknown_key(work, node, known);
        }

        if (!path_is_good(path) || content.n == 0)
                return node_error(work_document(work), map, work->e,
                                  "a file of the home needs 'path', below the home, and 'content' or "
                                  "'instructions: true'");

        seed.path = str_dup(path);
        seed.content = str_dup(content);
        seed.origin = str_dup(str_of(work->origin));
        if (!seed.path || !seed.content || !seed.origin || vec_push(&work->policy->home_seeds, seed) < 0) {
                home_seed_done(&seed);
                return no_memory(work);
        }

        return 0;
}

static int add_home(struct work *work, const struct node *list) {
        int r = 0;

        if (list->kind != NODE_LIST)
                return wrong_kind(work, list, "home", "a list");
        for (const struct node *node = list->first; node && r == 0; node = node->next)
                r = add_home_file(work, node);
        return r;
}

/*
 * All of it.
 */
static int check_text(struct work *work, const struct node *node) {
        if (node->kind == NODE_SCALAR)
                return 0;

        return wrong_kind(work, node, "title", "a text");
}

static int check_texts(struct work *work, const struct node *list) {
        if (list->kind != NODE_LIST)
                return wrong_kind(work, list, "this key", "a list of texts");
        for (const struct node *node = list->first; node; node = node->next)
                if (node->kind != NODE_SCALAR)
                        return wrong_kind(work, node, "this key", "single values");
        return 0;
}

static const struct top_key {
        const char *key;
        int (*add)(struct work *w, const struct node *n);
} top_keys[] = {
        { "title", check_text },        { "programs", check_texts },
        { "network", add_network },     { "credentials", add_credentials },
        { "process", add_process },     { "home", add_home },
        { "real_home", add_real_home }, { "notes", check_texts },
};
enum { TOP_KEYS = sizeof top_keys / sizeof *top_keys };

static int add_top(struct work *work, const struct node *node) {
        const char *known[TOP_KEYS + 1] = { NULL };

        for (size_t i = 0; i < TOP_KEYS; i++) {
                if (str_is(node->key, top_keys[i].key))
                        return top_keys[i].add(work, node);
                known[i] = top_keys[i].key;
        }

        return unknown_key(work, node, known);
}

int profile_apply(const struct profile *profile, struct policy *policy, const char *origin, struct err *err) {
        const struct node *root = document_root(profile->file.document);
        struct work work = { profile, policy, origin, err };
        int r = 0;

        if (!root || root->kind != NODE_MAP)
                return err_set(err, EINVAL, "%s is no profile: it has no keys", profile->name);

        for (const struct node *node = root->first; node && r == 0; node = node->next)
                r = add_top(&work, node);

        return r;
}
