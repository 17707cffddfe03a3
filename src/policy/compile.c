/* SPDX-License-Identifier: Apache-2.0 */
/* From the merged policy to what is enforced: here the network part. Paths are in policy/paths.c. */
#include "policy/policy.h"

#include "base/cleanup.h"

#include <errno.h>

static enum network_mode network_mode_of(enum policy_mode mode) {
        switch (mode) {
        case MODE_WORKSPACE_WRITE_WHITELIST:
                return NETWORK_FILTERED;
        case MODE_FULL_NETWORK:
                return NETWORK_OPEN;
        default:
                return NETWORK_NONE; /* read-only and workspace-write have no network, and what is unknown has none either */
        }
}

static int add_list(struct snapshot_builder *b, enum rule_list list, const origin_texts *texts, struct err *e) {
        for (size_t i = 0; i < texts->n; i++) {
                int r = snapshot_add(b, list, str_of(texts->p[i].text), str_of(texts->p[i].origin), e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void strs_of(const origin_texts *texts, struct str *ret) {
        for (size_t i = 0; i < texts->n; i++)
                ret[i] = str_of(texts->p[i].text);
}

static int add_request_rule(struct snapshot_builder *b, const struct request_rule *rule, struct err *e) {
        size_t n_methods = rule->methods.n, n_paths = rule->paths.n;
        cleanup(free_ptr) struct str *texts = calloc(n_methods + n_paths + 1, sizeof *texts);
        if (!texts)
                return err_set(e, ENOMEM, "out of memory for the policy's rules");
        strs_of(&rule->methods, texts);
        strs_of(&rule->paths, texts + n_methods);
        return snapshot_add_request_rule(b, str_of(rule->host), texts, n_methods, texts + n_methods, n_paths,
                                         str_of(rule->origin), e);
}

static int add_deny_cidrs(struct snapshot_builder *b, const origin_texts *texts, struct err *e) {
        int r = snapshot_set_deny_cidrs(b, NULL, 0, STR("deny_cidrs"), e);
        for (size_t i = 0; r == 0 && i < texts->n; i++) {
                struct cidr net;
                if (!cidr_parse(str_trim(str_of(texts->p[i].text)), &net))
                        return err_set(e, EINVAL, "%s: \"%s\" in deny_cidrs is not a network; write it as 10.0.0.0/8 or fd00::/8, "
                                                  "with every bit after the length zero", texts->p[i].origin, texts->p[i].text);
                r = snapshot_set_deny_cidrs(b, &net, 1, str_of(texts->p[i].origin), e);
        }
        return r;
}

int policy_compile_network(const struct policy *p, const struct endpoint *self, size_t n_self, void **ret, size_t *ret_n,
                           struct err *e) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *b =
            snapshot_builder_new(network_mode_of(p->mode), p->network.ask != ASK_NEVER);
        if (!b)
                return err_set(e, ENOMEM, "out of memory for the policy's rules");
        int r = add_list(b, LIST_ALLOW, &p->network.allow, e);
        if (r == 0)
                r = add_list(b, LIST_DENY, &p->network.deny, e);
        if (r == 0)
                r = add_list(b, LIST_ALLOW_PRIVATE, &p->network.allow_private, e);
        for (size_t i = 0; r == 0 && i < p->network.rules.n; i++)
                r = add_request_rule(b, &p->network.rules.p[i], e);
        if (r == 0 && p->network.deny_cidrs_set)
                r = add_deny_cidrs(b, &p->network.deny_cidrs, e);
        for (size_t i = 0; r == 0 && i < n_self; i++)
                r = snapshot_add_self(b, &self[i].addr, self[i].port, e);
        return r < 0 ? r : snapshot_build(b, ret, ret_n, e);
}
