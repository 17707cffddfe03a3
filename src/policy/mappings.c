/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/mappings.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/git/git_rules.h"
#include "policy/match/pattern.h"

#include <errno.h>

typedef VEC(char *) texts;

#define SECRET_SUFFIX "SECRET_ACCESS_KEY"

static const char *const parts[] = { "ACCESS_KEY_ID", SECRET_SUFFIX, "SESSION_TOKEN" };

static void texts_done(void *list) {
        texts *t = list;
        for (size_t i = 0; i < t->n; i++)
                free(t->p[i]);
        vec_done(t);
}

static int texts_add(void *list, char *taken) {
        texts *t = list;
        if (taken && vec_push(t, taken) == 0)
                return 0;
        free(taken);
        return -ENOMEM;
}

static void mapping_done(struct mapping *mapping) {
        free(mapping->name);
        free(mapping->source);
        free(mapping->origin);
        free(mapping->form);
        free(mapping->answer);
        free(mapping->expiry);
        texts_done(&mapping->env);
        texts_done(&mapping->hosts);
        texts_done(&mapping->slots);
}

void mappings_done(mappings *list) {
        for (size_t i = 0; i < list->n; i++)
                mapping_done(&list->p[i]);
        vec_done(list);
}

/* NAME with its end SECRET_ACCESS_KEY replaced, or NULL when it ends otherwise. */
static char *mappings_sibling(struct str name, size_t i) {
        if (!str_ends(name, STR(SECRET_SUFFIX)))
                return NULL;
        return str_format("%.*s%s", (int)(name.n - strlen(SECRET_SUFFIX)), name.p, parts[i]);
}

char *mapping_source_variable(const struct mapping *mapping, size_t i) {
        struct str source = str_of(mapping->source);
        if (!str_starts(source, STR("env:")) || i >= (mapping->sigv4 ? 3 : 1))
                return NULL;
        struct str name = str_skip(source, 4);
        if (mapping->sigv4)
                return mappings_sibling(name, i);

        return str_dup(name);
}

static int fill_env(struct mapping *mapping, const struct credential *credential, struct err *err) {
        int r = 0;

        mapping->env_given = credential->env != NULL;
        if (credential->env && mapping->sigv4) {
                for (size_t i = 0; i < 3 && r == 0; i++) {
                        char *name = mappings_sibling(str_of(credential->env), i);
                        if (!name)
                                return err_set(err, EINVAL,
                                               "%s: 'env' of a sigv4 credential names the variable of the secret key; "
                                               "it ends in " SECRET_SUFFIX ", and '%s' does not",
                                               mapping->origin, credential->env);

                        r = texts_add(&mapping->env, name);
                }
        } else if (credential->env) {
                r = texts_add(&mapping->env, str_dup(str_of(credential->env)));
        } else {
                for (const char *const *v = mapping->provider ? mapping->provider->env : NULL; v && *v && r == 0; v++)
                        r = texts_add(&mapping->env, str_dup(str_of(*v)));
        }

        for (size_t i = 0; i < credential->also_env.n && r == 0 && !mapping->sigv4; i++) {
                r = texts_add(&mapping->env, str_dup(str_of(credential->also_env.p[i].text)));
                mapping->n_env_also += r == 0;
        }

        if (r < 0)
                return err_memory(err);

        return 0;
}

static int add_host(struct mapping *mapping, const char *text, struct err *err) {
        struct pattern pattern;
        int r = pattern_parse_user(str_of(text), &pattern, err);
        if (r < 0)
                return err_wrap(err, r, "%s: credential '%s'", mapping->origin, mapping->name);

        if (pattern.kind == PATTERN_NET && pattern.net.bits != (pattern.net.addr.family == ADDR_V4 ? 32 : 128))
                return err_set(err, EINVAL, "%s: credential '%s' is for hosts, not for the network %s", mapping->origin,
                               mapping->name, text);

        /* What leaves the policy is canonical and has its port. */
        char address[ADDR_TEXT_MAX] = "";
        if (pattern.kind == PATTERN_NET)
                addr_text(&pattern.net.addr, address);

        char ports[24] = "443";
        if (pattern.has_port && pattern.port_first == pattern.port_last)
                snprintf(ports, sizeof ports, "%u", (unsigned)pattern.port_first);
        else if (pattern.has_port)
                snprintf(ports, sizeof ports, "%u-%u", (unsigned)pattern.port_first, (unsigned)pattern.port_last);

        char *whole;
        if (strchr(address, ':'))
                whole = str_format("[%s]:%s", address, ports);
        else if (address[0])
                whole = str_format("%s:%s", address, ports);
        else
                whole = str_format("%s%s:%s", pattern.kind == PATTERN_WILDCARD ? "*." : "", pattern.host.name, ports);

        if (texts_add(&mapping->hosts, whole) < 0)
                return err_memory(err);

        return 0;
}

static int fill_hosts(struct mapping *mapping, const struct credential *credential, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < credential->hosts.n; i++)
                r = add_host(mapping, credential->hosts.p[i].text, err);

        for (const char *const *h = mapping->provider && credential->hosts.n == 0 ? mapping->provider->hosts : NULL;
             h && *h && r == 0; h++)
                r = add_host(mapping, *h, err);

        for (size_t i = 0; r == 0 && i < credential->also_hosts.n; i++)
                r = add_host(mapping, credential->also_hosts.p[i].text, err);

        if (r == 0 && mapping->hosts.n > MAPPING_HOSTS_MAX)
                return err_set(err, EINVAL, "%s: credential '%s' has %zu hosts; at most %d are possible",
                               mapping->origin, mapping->name, mapping->hosts.n, MAPPING_HOSTS_MAX);

        return r;
}

static int fill_slots(struct mapping *mapping, const struct credential *credential, struct err *err) {
        int r = 0;

        if (credential->slot)
                r = texts_add(&mapping->slots, str_dup(str_of(credential->slot)));

        for (const char *const *s = mapping->provider && !credential->slot ? mapping->provider->slots : NULL;
             s && *s && r == 0; s++)
                r = texts_add(&mapping->slots, str_dup(str_of(*s)));

        if (r < 0)
                return err_memory(err);

        mapping->sigv4 = mapping->slots.n > 0 && strcmp(mapping->slots.p[0], "sigv4") == 0;
        return 0;
}

bool source_is_member(struct str source, struct str *ret_file, struct str *ret_pointer) {
        if (!str_starts(source, STR("json:")) && !str_starts(source, STR("yaml:")))
                return false;

        struct str rest = str_skip(source, 5);
        const char *found = NULL;

        for (size_t i = 0; i + 1 < rest.n; i++)
                if (rest.p[i] == '#' && rest.p[i + 1] == '/')
                        found = rest.p + i;

        if (!found)
                return false;

        *ret_file = str_n(rest.p, (size_t)(found - rest.p));
        *ret_pointer = str_n(found + 1, (size_t)(rest.p + rest.n - found - 1));

        return ret_file->n > 0;
}

static int whole_path(struct mapping *mapping, const struct policy *policy, const struct credential *credential,
                      struct str text, char **ret, struct err *err) {
        cleanup(free_ptr) char *expanded = NULL;
        int r = path_expand_home(text, policy->home, &expanded);

        if (r >= 0)
                r = path_normalise(str_of(expanded), policy->workspace, ret);
        if (r < 0)
                return err_set(err, -r, "%s: credential '%s': '%s' is not a path", mapping->origin, mapping->name,
                               credential->source);

        return 0;
}

/* "json:~/f#/p": the file's path is made absolute. */
static int fill_member_source(struct mapping *mapping, const struct policy *policy, const struct credential *credential,
                              struct str file, struct str pointer, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r = whole_path(mapping, policy, credential, file, &path, err);
        if (r < 0)
                return r;

        mapping->source = str_format("%.5s%s#%.*s", credential->source, path, STR_FMT(pointer));
        if (!mapping->source)
                return err_memory(err);

        return 0;
}

/* "file:~/token" and "file:token" are made absolute; the policy's home and workspace say by what. */
static int fill_source(struct mapping *mapping, const struct policy *policy, const struct credential *credential,
                       struct err *err) {
        struct str source = str_of(credential->source), file, pointer;
        if (source_is_member(source, &file, &pointer))
                return fill_member_source(mapping, policy, credential, file, pointer, err);

        if (!str_starts(source, STR("file:"))) {
                mapping->source = str_dup(source);
                if (!mapping->source)
                        return err_memory(err);

                return 0;
        }

        cleanup(free_ptr) char *path = NULL;
        int r = whole_path(mapping, policy, credential, str_skip(source, 5), &path, err);
        if (r < 0)
                return r;

        mapping->source = str_format("file:%s", path);
        if (!mapping->source)
                return err_memory(err);

        return 0;
}

static int check_env_source(const struct mapping *mapping, struct err *err) {
        if (!mapping->sigv4 || !str_starts(str_of(mapping->source), STR("env:")))
                return 0;

        cleanup(free_ptr) char *name = mapping_source_variable(mapping, 1);
        if (!name)
                return err_set(err, EINVAL,
                               "%s: credential '%s' is of three parts: write env:AWS_SECRET_ACCESS_KEY, and the key id "
                               "and session token are taken from its siblings AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN",
                               mapping->origin, mapping->name);

        return 0;
}

bool credential_needs_no_env(const struct credential *credential) {
        return credential->source &&
               (strncmp(credential->source, "json:", 5) == 0 || strncmp(credential->source, "yaml:", 5) == 0 ||
                strcmp(credential->source, "memory") == 0);
}

static int fill_texts(struct mapping *mapping, const struct credential *credential) {
        mapping->form = credential->form ? str_dup(str_of(credential->form)) : NULL;
        mapping->answer = credential->answer ? str_dup(str_of(credential->answer)) : NULL;
        mapping->expiry = credential->expiry ? str_dup(str_of(credential->expiry)) : NULL;
        if ((credential->form && !mapping->form) || (credential->answer && !mapping->answer) ||
            (credential->expiry && !mapping->expiry))
                return -ENOMEM;

        return 0;
}

static int mappings_fill(struct mapping *mapping, const struct policy *policy, const struct credential *credential,
                         struct err *err) {
        mapping->timeout_ns = credential->timeout_ns;
        mapping->refresh_ns = credential->refresh_ns;
        mapping->provider = credential->provider ? provider_find(str_of(credential->provider)) : NULL;
        mapping->origin = str_dup(str_of(text_or(credential->origin, "")));
        mapping->name = str_dup(str_of(text_or(credential->name, text_or(credential->provider, ""))));
        if (!mapping->origin || !mapping->name)
                return err_memory(err);
        if (credential->provider && !mapping->provider)
                return err_set(err, EINVAL, "%s: there is no provider '%s'", mapping->origin, credential->provider);

        if (!mapping->provider && (!credential->name || !credential->slot || credential->hosts.n == 0 ||
                                   (!credential->env && !credential_needs_no_env(credential))))
                return err_set(err, EINVAL, "%s: a credential without provider needs 'name', 'env', 'hosts' and 'slot'",
                               mapping->origin);

        if (fill_texts(mapping, credential) < 0)
                return err_memory(err);

        if (strlen(mapping->name) > MAPPING_NAME_MAX)
                return err_set(err, EINVAL, "%s: the name of a credential has at most %d letters", mapping->origin,
                               MAPPING_NAME_MAX);

        int r = fill_slots(mapping, credential, err);
        if (r < 0)
                return r;

        r = fill_env(mapping, credential, err);
        if (r < 0)
                return r;

        r = fill_hosts(mapping, credential, err);
        if (r < 0)
                return r;

        r = fill_source(mapping, policy, credential, err);
        if (r < 0)
                return r;

        return check_env_source(mapping, err);
}

static int check_apart(const mappings *list, const struct mapping *mapping, struct err *err) {
        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *other = &list->p[i];
                if (strcmp(other->name, mapping->name) == 0)
                        return err_set(err, EINVAL,
                                       "%s: another credential (%s) is called '%s' too; give one of them a 'name'",
                                       mapping->origin, other->origin, mapping->name);

                for (size_t k = 0; k < other->env.n; k++)
                        for (size_t l = 0; l < mapping->env.n; l++)
                                if (strcmp(other->env.p[k], mapping->env.p[l]) == 0)
                                        return err_set(err, EINVAL,
                                                       "%s: credentials '%s' and '%s' would both be in the variable "
                                                       "%s; give one of them another 'env'",
                                                       mapping->origin, other->name, mapping->name, mapping->env.p[l]);
        }

        return 0;
}

int mappings_add(mappings *list, const struct policy *policy, const struct credential *credential, struct err *err) {
        struct mapping fresh = { 0 };
        int r = mappings_fill(&fresh, policy, credential, err);

        if (r == 0)
                r = check_apart(list, &fresh, err);
        if (r == 0 && vec_push(list, fresh) < 0)
                r = err_memory(err);
        if (r < 0)
                mapping_done(&fresh);

        return r;
}

int mappings_of(const struct policy *policy, mappings *ret, struct err *err) {
        mappings list = { 0 };
        int r = 0;

        if (policy->credentials.n > MAPPINGS_MAX)
                return err_set(err, EINVAL, "%zu credentials; at most %d are possible", policy->credentials.n,
                               MAPPINGS_MAX);

        for (size_t i = 0; r == 0 && i < policy->credentials.n; i++)
                r = mappings_add(&list, policy, &policy->credentials.p[i], err);

        if (r < 0) {
                mappings_done(&list);
                return r;
        }

        *ret = list;
        return 0;
}

static bool text_equal(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool texts_equal(const void *a, const void *b) {
        const texts *x = a, *y = b;
        for (size_t i = 0; x->n == y->n && i < x->n; i++)
                if (strcmp(x->p[i], y->p[i]) != 0)
                        return false;
        return x->n == y->n;
}

bool mappings_equal(const mappings *a, const mappings *b) {
        for (size_t i = 0; a->n == b->n && i < a->n; i++) {
                const struct mapping *mapping = &a->p[i], *y = &b->p[i];
                if (mapping->provider != y->provider || strcmp(mapping->name, y->name) != 0 ||
                    strcmp(mapping->source, y->source) != 0 || mapping->timeout_ns != y->timeout_ns ||
                    mapping->refresh_ns != y->refresh_ns || !texts_equal(&mapping->env, &y->env) ||
                    !texts_equal(&mapping->hosts, &y->hosts) || !texts_equal(&mapping->slots, &y->slots) ||
                    !text_equal(mapping->form, y->form) || !text_equal(mapping->answer, y->answer) ||
                    !text_equal(mapping->expiry, y->expiry))
                        return false;
        }

        return a->n == b->n;
}

static bool has_request_rule(const struct policy *policy, const char *host) {
        struct pattern wanted, rule;

        if (pattern_parse(str_of(host), &wanted, NULL) < 0)
                return false;
        if (wanted.kind == PATTERN_NET)
                host_from_addr(&wanted.net.addr, &wanted.host);
        if (wanted.kind != PATTERN_WILDCARD && git_rules_name_host(policy, &wanted.host))
                return true;

        for (size_t i = 0; i < policy->network.rules.n; i++) {
                if (pattern_parse_user(str_of(policy->network.rules.p[i].host), &rule, NULL) < 0)
                        continue;
                bool covers = wanted.kind == PATTERN_WILDCARD
                                  ? rule.kind == PATTERN_WILDCARD && host_equal(&rule.host, &wanted.host)
                                  : pattern_matches(&rule, &wanted.host, wanted.port_first);
                if (covers)
                        return true;
        }

        return false;
}

int mappings_each_host(const struct policy *policy, const mappings *list, mapping_host_function *f, void *context,
                       struct err *err) {
        int r = 0;

        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *one = &list->p[i];
                cleanup(free_ptr) char *origin = str_format("credential %s in %s", one->name, one->origin);
                if (!origin)
                        return err_memory(err);

                for (size_t k = 0; r == 0 && k < one->hosts.n; k++)
                        if (!has_request_rule(policy, one->hosts.p[k]))
                                r = f(context, str_of(one->hosts.p[k]), str_of(origin), err);
        }

        return r;
}
