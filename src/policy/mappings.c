/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/mappings.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "policy/git_rules.h"
#include "policy/pattern.h"

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

static void mapping_done(struct mapping *m) {
        free(m->name);
        free(m->source);
        free(m->origin);
        free(m->form);
        free(m->answer);
        free(m->expiry);
        texts_done(&m->env);
        texts_done(&m->hosts);
        texts_done(&m->slots);
}

void mappings_done(mappings *m) {
        for (size_t i = 0; i < m->n; i++)
                mapping_done(&m->p[i]);
        vec_done(m);
}

/* NAME with its end SECRET_ACCESS_KEY replaced, or NULL when it ends otherwise. */
static char *sibling(struct str name, size_t i) {
        if (!str_ends(name, STR(SECRET_SUFFIX)))
                return NULL;
        return str_format("%.*s%s", (int)(name.n - strlen(SECRET_SUFFIX)), name.p, parts[i]);
}

char *mapping_source_variable(const struct mapping *m, size_t i) {
        struct str source = str_of(m->source);
        if (!str_starts(source, STR("env:")) || i >= (m->sigv4 ? 3 : 1))
                return NULL;
        struct str name = str_skip(source, 4);
        return m->sigv4 ? sibling(name, i) : str_dup(name);
}

static int fill_env(struct mapping *m, const struct credential *c, struct err *e) {
        int r = 0;
        m->env_given = c->env != NULL;
        if (c->env && m->sigv4) {
                for (size_t i = 0; i < 3 && r == 0; i++) {
                        char *name = sibling(str_of(c->env), i);
                        if (!name)
                                return err_set(e, EINVAL,
                                               "%s: 'env' of a sigv4 credential names the variable of the secret key; "
                                               "it ends in " SECRET_SUFFIX ", and '%s' does not",
                                               m->origin, c->env);
                        r = texts_add(&m->env, name);
                }
        } else if (c->env) {
                r = texts_add(&m->env, str_dup(str_of(c->env)));
        } else {
                for (const char *const *v = m->provider ? m->provider->env : NULL; v && *v && r == 0; v++)
                        r = texts_add(&m->env, str_dup(str_of(*v)));
        }
        for (size_t i = 0; i < c->also_env.n && r == 0 && !m->sigv4; i++) {
                r = texts_add(&m->env, str_dup(str_of(c->also_env.p[i].text)));
                m->n_env_also += r == 0;
        }
        return r < 0 ? err_memory(e) : 0;
}

static int add_host(struct mapping *m, const char *text, struct err *e) {
        struct pattern p;
        int r = pattern_parse_user(str_of(text), &p, e);
        if (r < 0)
                return err_wrap(e, r, "%s: credential '%s'", m->origin, m->name);
        if (p.kind == PATTERN_NET && p.net.bits != (p.net.addr.family == ADDR_V4 ? 32 : 128))
                return err_set(e, EINVAL, "%s: credential '%s' is for hosts, not for the network %s", m->origin,
                               m->name, text);
        /* What leaves the policy is canonical and has its port. */
        char address[ADDR_TEXT_MAX] = "";
        if (p.kind == PATTERN_NET)
                addr_text(&p.net.addr, address);
        bool v6 = strchr(address, ':') != NULL;
        const char *name = address[0] ? address : p.host.name;
        unsigned first = p.has_port ? p.port_first : 443, last = p.has_port ? p.port_last : 443;
        const char *star = p.kind == PATTERN_WILDCARD ? "*." : "";
        char *whole = first == last
                          ? str_format("%s%s%s%s:%u", star, v6 ? "[" : "", name, v6 ? "]" : "", first)
                          : str_format("%s%s%s%s:%u-%u", star, v6 ? "[" : "", name, v6 ? "]" : "", first, last);
        return texts_add(&m->hosts, whole) < 0 ? err_memory(e) : 0;
}

static int fill_hosts(struct mapping *m, const struct credential *c, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < c->hosts.n; i++)
                r = add_host(m, c->hosts.p[i].text, e);
        for (const char *const *h = m->provider && c->hosts.n == 0 ? m->provider->hosts : NULL; h && *h && r == 0; h++)
                r = add_host(m, *h, e);
        for (size_t i = 0; r == 0 && i < c->also_hosts.n; i++)
                r = add_host(m, c->also_hosts.p[i].text, e);
        if (r == 0 && m->hosts.n > MAPPING_HOSTS_MAX)
                return err_set(e, EINVAL, "%s: credential '%s' has %zu hosts; at most %d are possible", m->origin,
                               m->name, m->hosts.n, MAPPING_HOSTS_MAX);
        return r;
}

static int fill_slots(struct mapping *m, const struct credential *c, struct err *e) {
        int r = 0;
        if (c->slot)
                r = texts_add(&m->slots, str_dup(str_of(c->slot)));
        for (const char *const *s = m->provider && !c->slot ? m->provider->slots : NULL; s && *s && r == 0; s++)
                r = texts_add(&m->slots, str_dup(str_of(*s)));
        if (r < 0)
                return err_memory(e);
        m->sigv4 = m->slots.n > 0 && strcmp(m->slots.p[0], "sigv4") == 0;
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

static int whole_path(struct mapping *m, const struct policy *p, const struct credential *c, struct str text,
                      char **ret, struct err *err) {
        cleanup(free_ptr) char *expanded = NULL;
        int r = path_expand_home(text, p->home, &expanded);

        r = r < 0 ? r : path_normalise(str_of(expanded), p->workspace, ret);
        return r < 0 ? err_set(err, -r, "%s: credential '%s': '%s' is not a path", m->origin, m->name, c->source) : 0;
}

/* "json:~/f#/p": the file's path is made absolute. */
static int fill_member_source(struct mapping *m, const struct policy *p, const struct credential *c, struct str file,
                              struct str pointer, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r = whole_path(m, p, c, file, &path, err);
        if (r < 0)
                return r;

        m->source = str_format("%.5s%s#%.*s", c->source, path, STR_FMT(pointer));
        return m->source ? 0 : err_memory(err);
}

/* "file:~/token" and "file:token" are made absolute; the policy's home and workspace say by what. */
static int fill_source(struct mapping *m, const struct policy *p, const struct credential *c, struct err *e) {
        struct str source = str_of(c->source), file, pointer;
        if (source_is_member(source, &file, &pointer))
                return fill_member_source(m, p, c, file, pointer, e);
        if (!str_starts(source, STR("file:"))) {
                m->source = str_dup(source);
                return m->source ? 0 : err_memory(e);
        }
        cleanup(free_ptr) char *path = NULL;
        int r = whole_path(m, p, c, str_skip(source, 5), &path, e);
        if (r < 0)
                return r;
        m->source = str_format("file:%s", path);
        return m->source ? 0 : err_memory(e);
}

static int check_env_source(const struct mapping *m, struct err *e) {
        if (!m->sigv4 || !str_starts(str_of(m->source), STR("env:")))
                return 0;
        cleanup(free_ptr) char *name = mapping_source_variable(m, 1);
        return name ? 0
                    : err_set(e, EINVAL,
                              "%s: credential '%s' is of three parts: write env:AWS_SECRET_ACCESS_KEY, and the key id "
                              "and session token are taken from its siblings AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN",
                              m->origin, m->name);
}

bool credential_needs_no_env(const struct credential *c) {
        return c->source && (strncmp(c->source, "json:", 5) == 0 || strncmp(c->source, "yaml:", 5) == 0 ||
                             strcmp(c->source, "memory") == 0);
}

static int fill_texts(struct mapping *m, const struct credential *c) {
        m->form = c->form ? str_dup(str_of(c->form)) : NULL;
        m->answer = c->answer ? str_dup(str_of(c->answer)) : NULL;
        m->expiry = c->expiry ? str_dup(str_of(c->expiry)) : NULL;
        return (c->form && !m->form) || (c->answer && !m->answer) || (c->expiry && !m->expiry) ? -ENOMEM : 0;
}

static int fill(struct mapping *m, const struct policy *p, const struct credential *c, struct err *e) {
        m->timeout_ns = c->timeout_ns;
        m->refresh_ns = c->refresh_ns;
        m->provider = c->provider ? provider_find(str_of(c->provider)) : NULL;
        m->origin = str_format("%s", c->origin ? c->origin : "");
        m->name = str_format("%s", c->name ? c->name : c->provider ? c->provider : "");
        if (!m->origin || !m->name)
                return err_memory(e);
        if (c->provider && !m->provider)
                return err_set(e, EINVAL, "%s: there is no provider '%s'", m->origin, c->provider);
        if (!m->provider && (!c->name || !c->slot || c->hosts.n == 0 || (!c->env && !credential_needs_no_env(c))))
                return err_set(e, EINVAL, "%s: a credential without provider needs 'name', 'env', 'hosts' and 'slot'",
                               m->origin);
        if (fill_texts(m, c) < 0)
                return err_memory(e);
        if (strlen(m->name) > MAPPING_NAME_MAX)
                return err_set(e, EINVAL, "%s: the name of a credential has at most %d letters", m->origin,
                               MAPPING_NAME_MAX);
        int r = fill_slots(m, c, e);
        r = r < 0 ? r : fill_env(m, c, e);
        r = r < 0 ? r : fill_hosts(m, c, e);
        r = r < 0 ? r : fill_source(m, p, c, e);
        return r < 0 ? r : check_env_source(m, e);
}

static int check_apart(const mappings *list, const struct mapping *m, struct err *e) {
        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *other = &list->p[i];
                if (strcmp(other->name, m->name) == 0)
                        return err_set(e, EINVAL,
                                       "%s: another credential (%s) is called '%s' too; give one of them a 'name'",
                                       m->origin, other->origin, m->name);
                for (size_t k = 0; k < other->env.n; k++)
                        for (size_t l = 0; l < m->env.n; l++)
                                if (strcmp(other->env.p[k], m->env.p[l]) == 0)
                                        return err_set(e, EINVAL,
                                                       "%s: credentials '%s' and '%s' would both be in the variable "
                                                       "%s; give one of them another 'env'",
                                                       m->origin, other->name, m->name, m->env.p[l]);
        }
        return 0;
}

int mappings_of(const struct policy *p, mappings *ret, struct err *e) {
        mappings list = { 0 };
        int r = 0;
        if (p->credentials.n > MAPPINGS_MAX)
                return err_set(e, EINVAL, "%zu credentials; at most %d are possible", p->credentials.n, MAPPINGS_MAX);
        for (size_t i = 0; r == 0 && i < p->credentials.n; i++) {
                struct mapping m = { 0 };
                r = fill(&m, p, &p->credentials.p[i], e);
                r = r < 0 ? r : check_apart(&list, &m, e);
                if (r == 0 && vec_push(&list, m) < 0)
                        r = err_memory(e);
                if (r < 0)
                        mapping_done(&m);
        }
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
                const struct mapping *x = &a->p[i], *y = &b->p[i];
                if (x->provider != y->provider || strcmp(x->name, y->name) != 0 || strcmp(x->source, y->source) != 0 ||
                    x->timeout_ns != y->timeout_ns || x->refresh_ns != y->refresh_ns ||
                    !texts_equal(&x->env, &y->env) || !texts_equal(&x->hosts, &y->hosts) ||
                    !texts_equal(&x->slots, &y->slots) || !text_equal(x->form, y->form) ||
                    !text_equal(x->answer, y->answer) || !text_equal(x->expiry, y->expiry))
                        return false;
        }
        return a->n == b->n;
}

static bool has_request_rule(const struct policy *p, const char *host) {
        struct pattern wanted, rule;
        if (pattern_parse(str_of(host), &wanted, NULL) < 0)
                return false;
        if (wanted.kind == PATTERN_NET)
                host_from_addr(&wanted.net.addr, &wanted.host);
        if (wanted.kind != PATTERN_WILDCARD && git_rules_name_host(p, &wanted.host))
                return true;
        for (size_t i = 0; i < p->network.rules.n; i++) {
                if (pattern_parse_user(str_of(p->network.rules.p[i].host), &rule, NULL) < 0)
                        continue;
                bool covers = wanted.kind == PATTERN_WILDCARD
                                  ? rule.kind == PATTERN_WILDCARD && host_equal(&rule.host, &wanted.host)
                                  : pattern_matches(&rule, &wanted.host, wanted.port_first);
                if (covers)
                        return true;
        }
        return false;
}

int mappings_each_host(const struct policy *p, const mappings *m, mapping_host_function *f, void *context,
                       struct err *e) {
        int r = 0;
        for (size_t i = 0; i < m->n; i++) {
                const struct mapping *one = &m->p[i];
                cleanup(free_ptr) char *origin = str_format("credential %s in %s", one->name, one->origin);
                if (!origin)
                        return err_memory(e);
                for (size_t k = 0; r == 0 && k < one->hosts.n; k++)
                        if (!has_request_rule(p, one->hosts.p[k]))
                                r = f(context, str_of(one->hosts.p[k]), str_of(origin), e);
        }
        return r;
}
