/* SPDX-License-Identifier: Apache-2.0 */
/* From the merged policy to what is enforced: here the network part. Paths are in policy/paths/paths.c. */
#include "policy/policy.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/expand.h"
#include "policy/git/git_rules.h"
#include "policy/judge/ratchet.h"
#include "policy/mappings.h"
#include "policy/match/pattern.h"

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

static int add_pattern(void *context, struct str pattern, struct str origin, struct err *err) {
        struct target *target = context;
        if (target->list == LIST_DENY)
                return snapshot_add_refusal(target->builder, pattern, target->reason, origin, err);
        return snapshot_add(target->builder, target->list, pattern, origin, err);
}

static int add_list(const struct policy *policy, struct snapshot_builder *builder, enum rule_list list,
                    const origin_texts *texts, struct err *err) {
        struct target target = { .builder = builder, .list = list };

        for (size_t i = 0; i < texts->n; i++) {
                target.reason = str_of(texts->p[i].reason);
                int r = expand_entry(policy, &texts->p[i], list == LIST_ALLOW, add_pattern, &target, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int add_files(struct snapshot_builder *builder, enum rule_list list, const struct pattern_file *files, size_t n,
                     struct err *err) {
        struct target target = { .builder = builder, .list = list };

        for (size_t i = 0; i < n; i++) {
                int r = expand_file(&files[i], add_pattern, &target, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* A mirror is often in the local network. The user's own settings name its host and port, so it is open; loopback is
 * not, since inside it is the sandbox's own. */
static int add_private_mirrors(const struct policy *policy, struct snapshot_builder *builder, struct err *err) {
        for (size_t i = 0; i < policy->network.mirrors.n; i++) {
                const struct mirror *mirror = &policy->network.mirrors.p[i];
                struct authority authority;
                int r = authority_parse(str_of(mirror->pattern), 0, &authority, err);
                bool loopback = r == 0 && (host_is_loopback_name(&authority.host) ||
                                           (authority.host.kind == HOST_ADDR &&
                                            addr_classify(&authority.host.addr) != ADDR_CLASS_PUBLIC &&
                                            addr_classify(&authority.host.addr) != ADDR_CLASS_PRIVATE));
                if (r == 0 && !loopback)
                        r = snapshot_add(builder, LIST_ALLOW_PRIVATE, str_of(mirror->pattern), str_of(mirror->origin),
                                         err);

                if (r < 0)
                        return r;
        }

        return 0;
}

/* A port of the host that is offered inside as a listener is the same service under its own name. */
static int add_host_ports(const struct policy *policy, struct snapshot_builder *builder, struct err *err) {
        for (size_t i = 0; i < policy->network.host_ports.n; i++) {
                const struct port_map *map = &policy->network.host_ports.p[i];
                char text[sizeof HOST_INTERNAL + 8];

                int n = snprintf(text, sizeof text, HOST_INTERNAL ":%u", map->outside);
                int r = snapshot_add(builder, LIST_ALLOW_PRIVATE, str_n(text, (size_t)n), str_of(map->origin), err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int add_credential_hosts(const struct policy *policy, struct snapshot_builder *builder, struct err *err) {
        cleanup(mappings_done) mappings m = { 0 };
        struct target target = { .builder = builder, .list = LIST_ALLOW };
        int r = mappings_of(policy, &m, err);
        if (r < 0)
                return r;

        return mappings_each_host(policy, &m, add_pattern, &target, err);
}

static void strs_of(const origin_texts *texts, struct str *ret) {
        for (size_t i = 0; i < texts->n; i++)
                ret[i] = str_of(texts->p[i].text);
}

static int add_request_rule(struct snapshot_builder *builder, const struct request_rule *rule, struct err *err) {
        size_t n_methods = rule->methods.n, n_paths = rule->paths.n, n = n_methods + n_paths;
        size_t n_queries = rule->queries.n, n_mutations = rule->mutations.n;
        cleanup(free_ptr) struct str *texts = calloc(n + n_queries + n_mutations + 1, sizeof *texts);
        if (!texts)
                return err_set(err, ENOMEM, "out of memory for the policy's rules");

        strs_of(&rule->methods, texts);
        strs_of(&rule->paths, texts + n_methods);
        strs_of(&rule->queries, texts + n);
        strs_of(&rule->mutations, texts + n + n_queries);

        const struct snapshot_graphql graphql = { .queries = texts + n,
                                                  .n_queries = n_queries,
                                                  .mutations = texts + n + n_queries,
                                                  .n_mutations = n_mutations };
        return snapshot_add_graphql_rule(builder, str_of(rule->host), texts, n_methods, texts + n_methods, n_paths,
                                         n_queries + n_mutations ? &graphql : NULL, str_of(rule->origin), err);
}

static int add_deny_cidrs(struct snapshot_builder *builder, const origin_texts *texts, struct err *err) {
        int r = snapshot_set_deny_cidrs(builder, NULL, 0, STR("deny_cidrs"), err);
        for (size_t i = 0; r == 0 && i < texts->n; i++) {
                struct cidr net;

                if (!cidr_parse(str_trim(str_of(texts->p[i].text)), &net))
                        return err_set(err, EINVAL,
                                       "%s: %s in deny_cidrs is not a network; write it as 10.0.0.0/8 or fd00::/8, "
                                       "with every bit after the length zero",
                                       texts->p[i].origin, show(str_of(texts->p[i].text)).text);

                r = snapshot_set_deny_cidrs(builder, &net, 1, str_of(texts->p[i].origin), err);
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

int policy_check_no_intercept(const struct policy *policy, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = 0;

        if (policy->network.no_intercept.n == 0)
                return 0;

        r = mappings_of(policy, &list, err);

        for (size_t i = 0; i < policy->network.no_intercept.n; i++) {
                const struct origin_text *sealed = &policy->network.no_intercept.p[i];

                for (size_t k = 0; r == 0 && k < policy->network.rules.n; k++)
                        r = check_sealed(sealed, str_of(policy->network.rules.p[k].host), "rule",
                                         policy->network.rules.p[k].origin, err);

                for (size_t k = 0; r == 0 && k < policy->git.n; k++) {
                        struct str repo = str_of(policy->git.p[k].repo);
                        ptrdiff_t slash = str_find(repo, '/');

                        r = check_sealed(sealed, str_first(repo, slash < 0 ? 0 : (size_t)slash), "entry under git",
                                         policy->git.p[k].origin, err);
                }

                for (size_t k = 0; r == 0 && k < list.n; k++)
                        for (size_t h = 0; r == 0 && h < list.p[k].hosts.n; h++)
                                r = check_sealed(sealed, str_of(list.p[k].hosts.p[h]), "credential", list.p[k].origin,
                                                 err);
        }

        return r;
}

int policy_compile_network(const struct policy *policy, const struct endpoint *self, size_t n_self, void **ret,
                           size_t *ret_n, struct err *err) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *builder =
            snapshot_builder_new(network_mode_of(policy->mode), policy->network.ask != ASK_NEVER);
        if (!builder)
                return err_set(err, ENOMEM, "out of memory for the policy's rules");

        int r = policy_check_no_intercept(policy, err);
        if (r == 0)
                r = add_list(policy, builder, LIST_ALLOW, &policy->network.allow, err);
        if (r == 0)
                r = add_list(policy, builder, LIST_DENY, &policy->network.deny, err);
        if (r == 0)
                r = add_list(policy, builder, LIST_ALLOW_PRIVATE, &policy->network.allow_private, err);
        if (r == 0 && policy->network.ask != ASK_NEVER) /* otherwise they are refused anyway */
                r = add_list(policy, builder, LIST_QUIET, &policy->network.quiet, err);
        if (r == 0)
                r = add_files(builder, LIST_ALLOW, policy->network.allow_files.p, policy->network.allow_files.n, err);
        if (r == 0)
                r = add_files(builder, LIST_DENY, policy->network.deny_files.p, policy->network.deny_files.n, err);
        if (r == 0)
                r = add_private_mirrors(policy, builder, err);
        if (r == 0)
                r = add_host_ports(policy, builder, err);
        if (r == 0)
                r = add_credential_hosts(policy, builder, err);

        for (size_t i = 0; r == 0 && i < policy->network.rules.n; i++)
                r = add_request_rule(builder, &policy->network.rules.p[i], err);

        if (r == 0)
                r = git_rules_compile(policy, ratchet_takes_git(policy), builder, err);
        if (r == 0)
                r = ratchet_compile(policy, builder, err);
        if (r == 0 && policy->network.deny_cidrs_set)
                r = add_deny_cidrs(builder, &policy->network.deny_cidrs, err);

        for (size_t i = 0; r == 0 && i < n_self; i++)
                r = snapshot_add_self(builder, &self[i].addr, self[i].port, err);

        if (r < 0)
                return r;

        return snapshot_build(builder, ret, ret_n, err);
}
