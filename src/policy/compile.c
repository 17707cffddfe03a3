/* SPDX-License-Identifier: Apache-2.0 */
/* From the merged policy to what is enforced: here the network part. Paths are in policy/paths.c. */
#include "policy/policy.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/expand.h"
#include "policy/git_rules.h"
#include "policy/mappings.h"
#include "policy/pattern.h"
#include "policy/ratchet.h"

#include <errno.h>
#include <stdio.h>

static enum network_mode network_mode_of(enum policy_mode mode) {
        switch (mode) {
        case MODE_WORKSPACE_WRITE_WHITELIST:
                return NETWORK_FILTERED;
        case MODE_FULL_NETWORK:
                return NETWORK_OPEN;
        default:
                return NETWORK_NONE; /* read-only and workspace-write have no network, and what is unknown has none
                                        either */
        }
}

struct target {
        struct snapshot_builder *builder;
        enum rule_list list;
        struct str reason; /* of a refusal */
};

static int add_pattern(void *context, struct str pattern, struct str origin, struct err *e) {
        struct target *t = context;
        if (t->list == LIST_DENY)
                return snapshot_add_refusal(t->builder, pattern, t->reason, origin, e);
        return snapshot_add(t->builder, t->list, pattern, origin, e);
}

static int add_list(const struct policy *p, struct snapshot_builder *b, enum rule_list list, const origin_texts *texts,
                    struct err *e) {
        struct target t = { .builder = b, .list = list };
        for (size_t i = 0; i < texts->n; i++) {
                t.reason = str_of(texts->p[i].reason);
                int r = expand_entry(p, &texts->p[i], list == LIST_ALLOW, add_pattern, &t, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_files(struct snapshot_builder *b, enum rule_list list, const struct pattern_file *files, size_t n,
                     struct err *e) {
        struct target t = { .builder = b, .list = list };
        for (size_t i = 0; i < n; i++) {
                int r = expand_file(&files[i], add_pattern, &t, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A mirror often stands in the local network. The user's own settings name it, host and port, so it is open; the
 * loopback is not, since inside it is the sandbox's own. */
static int add_private_mirrors(const struct policy *p, struct snapshot_builder *b, struct err *e) {
        for (size_t i = 0; i < p->network.mirrors.n; i++) {
                const struct mirror *m = &p->network.mirrors.p[i];
                struct authority a;
                int r = authority_parse(str_of(m->pattern), 0, &a, e);
                bool loopback =
                    r == 0 && (host_is_loopback_name(&a.host) ||
                               (a.host.kind == HOST_ADDR && addr_classify(&a.host.addr) != ADDR_CLASS_PUBLIC &&
                                addr_classify(&a.host.addr) != ADDR_CLASS_PRIVATE));
                if (r == 0 && !loopback)
                        r = snapshot_add(b, LIST_ALLOW_PRIVATE, str_of(m->pattern), str_of(m->origin), e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A port of the host that is offered inside as a listener is the same service under its own name. */
static int add_host_ports(const struct policy *p, struct snapshot_builder *b, struct err *err) {
        for (size_t i = 0; i < p->network.host_ports.n; i++) {
                const struct port_map *map = &p->network.host_ports.p[i];
                char text[sizeof HOST_INTERNAL + 8];

                int n = snprintf(text, sizeof text, HOST_INTERNAL ":%u", map->outside);
                int r = snapshot_add(b, LIST_ALLOW_PRIVATE, str_n(text, (size_t)n), str_of(map->origin), err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_credential_hosts(const struct policy *p, struct snapshot_builder *b, struct err *e) {
        cleanup(mappings_done) mappings m = { 0 };
        struct target t = { .builder = b, .list = LIST_ALLOW };
        int r = mappings_of(p, &m, e);
        return r < 0 ? r : mappings_each_host(p, &m, add_pattern, &t, e);
}

static void strs_of(const origin_texts *texts, struct str *ret) {
        for (size_t i = 0; i < texts->n; i++)
                ret[i] = str_of(texts->p[i].text);
}

static int add_request_rule(struct snapshot_builder *b, const struct request_rule *rule, struct err *e) {
        size_t n_methods = rule->methods.n, n_paths = rule->paths.n, n = n_methods + n_paths;
        size_t n_queries = rule->queries.n, n_mutations = rule->mutations.n;
        cleanup(free_ptr) struct str *texts = calloc(n + n_queries + n_mutations + 1, sizeof *texts);
        if (!texts)
                return err_set(e, ENOMEM, "out of memory for the policy's rules");
        strs_of(&rule->methods, texts);
        strs_of(&rule->paths, texts + n_methods);
        strs_of(&rule->queries, texts + n);
        strs_of(&rule->mutations, texts + n + n_queries);
        const struct snapshot_graphql graphql = { .queries = texts + n,
                                                  .n_queries = n_queries,
                                                  .mutations = texts + n + n_queries,
                                                  .n_mutations = n_mutations };
        return snapshot_add_graphql_rule(b, str_of(rule->host), texts, n_methods, texts + n_methods, n_paths,
                                         n_queries + n_mutations ? &graphql : NULL, str_of(rule->origin), e);
}

static int add_deny_cidrs(struct snapshot_builder *b, const origin_texts *texts, struct err *e) {
        int r = snapshot_set_deny_cidrs(b, NULL, 0, STR("deny_cidrs"), e);
        for (size_t i = 0; r == 0 && i < texts->n; i++) {
                struct cidr net;
                if (!cidr_parse(str_trim(str_of(texts->p[i].text)), &net))
                        return err_set(e, EINVAL,
                                       "%s: %s in deny_cidrs is not a network; write it as 10.0.0.0/8 or fd00::/8, "
                                       "with every bit after the length zero",
                                       texts->p[i].origin, show(str_of(texts->p[i].text)).text);
                r = snapshot_set_deny_cidrs(b, &net, 1, str_of(texts->p[i].origin), e);
        }
        return r;
}

/* What a sealed host contradicts. Both would need the request to be seen. */
static int check_sealed(const struct origin_text *sealed, struct str other, const char *what, const char *origin,
                        struct err *err) {
        struct pattern never, wanted;
        int r;

        r = pattern_parse_user(str_of(sealed->text), &never, err);
        if (r < 0)
                return r;
        r = pattern_parse_user(other, &wanted, err);
        if (r < 0 || !pattern_overlaps(&never, &wanted))
                return r;
        return err_set(err, EINVAL,
                       "%s: no_intercept %s contradicts the %s for %.*s (%s), which needs TLS to be opened; leave out "
                       "one of the two, or narrow it",
                       sealed->origin, sealed->text, what, STR_FMT(other), origin);
}

int policy_check_no_intercept(const struct policy *p, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = 0;

        if (p->network.no_intercept.n == 0)
                return 0;
        r = mappings_of(p, &list, err);
        for (size_t i = 0; i < p->network.no_intercept.n; i++) {
                const struct origin_text *sealed = &p->network.no_intercept.p[i];

                for (size_t k = 0; r == 0 && k < p->network.rules.n; k++)
                        r = check_sealed(sealed, str_of(p->network.rules.p[k].host), "rule",
                                         p->network.rules.p[k].origin, err);
                for (size_t k = 0; r == 0 && k < p->git.n; k++) {
                        struct str repo = str_of(p->git.p[k].repo);
                        ptrdiff_t slash = str_find(repo, '/');
                        r = check_sealed(sealed, str_first(repo, slash < 0 ? 0 : (size_t)slash), "entry under git",
                                         p->git.p[k].origin, err);
                }
                for (size_t k = 0; r == 0 && k < list.n; k++)
                        for (size_t h = 0; r == 0 && h < list.p[k].hosts.n; h++)
                                r = check_sealed(sealed, str_of(list.p[k].hosts.p[h]), "credential", list.p[k].origin,
                                                 err);
        }
        return r;
}

int policy_compile_network(const struct policy *p, const struct endpoint *self, size_t n_self, void **ret,
                           size_t *ret_n, struct err *e) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *b =
            snapshot_builder_new(network_mode_of(p->mode), p->network.ask != ASK_NEVER);
        if (!b)
                return err_set(e, ENOMEM, "out of memory for the policy's rules");
        int r = policy_check_no_intercept(p, e);
        if (r == 0)
                r = add_list(p, b, LIST_ALLOW, &p->network.allow, e);
        if (r == 0)
                r = add_list(p, b, LIST_DENY, &p->network.deny, e);
        if (r == 0)
                r = add_list(p, b, LIST_ALLOW_PRIVATE, &p->network.allow_private, e);
        if (r == 0 && p->network.ask != ASK_NEVER) /* otherwise they are refused anyway */
                r = add_list(p, b, LIST_QUIET, &p->network.quiet, e);
        if (r == 0)
                r = add_files(b, LIST_ALLOW, p->network.allow_files.p, p->network.allow_files.n, e);
        if (r == 0)
                r = add_files(b, LIST_DENY, p->network.deny_files.p, p->network.deny_files.n, e);
        if (r == 0)
                r = add_private_mirrors(p, b, e);
        if (r == 0)
                r = add_host_ports(p, b, e);
        if (r == 0)
                r = add_credential_hosts(p, b, e);
        for (size_t i = 0; r == 0 && i < p->network.rules.n; i++)
                r = add_request_rule(b, &p->network.rules.p[i], e);
        if (r == 0)
                r = git_rules_compile(p, b, e);
        if (r == 0)
                r = ratchet_compile(p, b, e);
        if (r == 0 && p->network.deny_cidrs_set)
                r = add_deny_cidrs(b, &p->network.deny_cidrs, e);
        for (size_t i = 0; r == 0 && i < n_self; i++)
                r = snapshot_add_self(b, &self[i].addr, self[i].port, e);
        return r < 0 ? r : snapshot_build(b, ret, ret_n, e);
}
