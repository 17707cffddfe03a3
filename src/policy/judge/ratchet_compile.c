/* SPDX-License-Identifier: Apache-2.0 */
/* Ratchets for the gateway: the hosts that all closed ones still allow, and the hosts that are triggers. */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "policy/expand.h"
#include "policy/judge/ratchet.h"
#include "policy/match/pattern.h"

#include <errno.h>
#include <stdlib.h>

enum { SAY_MAX = 400 };

/* What stays, of the rules so far: patterns that all of them name. */
struct kept {
        struct pattern pattern;
        struct str text;
};
struct kept_list {
        VEC(struct kept) list;
        VEC(char *) texts; /* that the patterns were written with */
        bool begun;        /* a rule has said what stays */
};

static void kept_done(struct kept_list *kept) {
        for (size_t i = 0; i < kept->texts.n; i++)
                free(kept->texts.p[i]);
        vec_done(&kept->texts);
        vec_done(&kept->list);
}

static int kept_add(void *context, struct str text, struct str origin, struct err *err) {
        struct kept_list *kept = context;
        struct kept added = { 0 };
        char *copy;
        int r = pattern_parse_user(str_trim(text), &added.pattern, err);

        (void)origin;

        if (r < 0)
                return r;

        copy = str_dup(str_trim(text));
        if (!copy || vec_push(&kept->texts, copy) < 0) {
                free(copy);
                return err_memory(err);
        }

        added.text = str_of(copy);
        if (vec_push(&kept->list, added) < 0)
                return err_memory(err);

        return 0;
}

static struct pattern common_part(const struct pattern *a, const struct pattern *b) {
        bool b_is_narrower =
            a->kind == PATTERN_WILDCARD && (b->kind == PATTERN_NAME || host_str(&b->host).n > host_str(&a->host).n);
        struct pattern part;

        if (a->kind == PATTERN_NET)
                b_is_narrower = b->net.bits > a->net.bits;

        part = b_is_narrower ? *b : *a;
        part.port_first = max_of(a->port_first, b->port_first);
        part.port_last = min_of(a->port_last, b->port_last);

        return part;
}

/* Of each pair of patterns what both cover. */
static int kept_narrow(struct kept_list *kept, struct kept_list *other, struct err *err) {
        VEC(struct kept) both = { 0 };
        int r = 0;

        for (size_t i = 0; r == 0 && i < kept->list.n; i++)
                for (size_t k = 0; r == 0 && k < other->list.n; k++) {
                        const struct kept *a = &kept->list.p[i], *b = &other->list.p[k];
                        if (!pattern_overlaps(&a->pattern, &b->pattern))
                                continue;

                        const struct kept common = { common_part(&a->pattern, &b->pattern), a->text };
                        if (vec_push(&both, common) < 0)
                                r = err_memory(err);
                }

        kept->list.n = 0;

        for (size_t i = 0; r == 0 && i < both.n; i++)
                if (vec_push(&kept->list, both.p[i]) < 0)
                        r = err_memory(err);

        vec_done(&both);
        return r;
}

static int kept_of_rule(const struct policy *policy, const struct ratchet_rule *rule, struct kept_list *ret,
                        struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < rule->allow.n && !ratchet_leaves_no_host(rule); i++)
                r = expand_entry(policy, &rule->allow.p[i], true, kept_add, ret, err);
        return r;
}

static int kept_take(const struct policy *policy, const struct ratchet_rule *rule, struct kept_list *into,
                     struct err *err) {
        cleanup(kept_done) struct kept_list own = { 0 };
        int r;

        if (!into->begun) {
                into->begun = true;
                return kept_of_rule(policy, rule, into, err);
        }

        r = kept_of_rule(policy, rule, &own, err);
        if (r < 0)
                return r;

        return kept_narrow(into, &own, err);
}

static int put_kept(struct snapshot_builder *builder, enum rule_list list, const struct kept_list *kept,
                    const char *origin, struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < kept->list.n; i++)
                r = snapshot_add_kept(builder, list, &kept->list.p[i].pattern, kept->list.p[i].text, str_of(origin),
                                      err);
        return r;
}

static int put_rule(struct snapshot_builder *builder, const struct ratchet_rule *rule, struct err *err) {
        cleanup(buf_done) struct buf say = BUF(SAY_MAX);

        ratchet_say(rule, &say);
        return snapshot_add_ratchet(builder, rule->ask ? LIST_RATCHET_ASK : LIST_RATCHET, STR("ratchet"), buf_str(&say),
                                    str_of(rule->origin), err);
}

struct reach_target {
        struct snapshot_builder *builder;
};

static int put_reach(void *context, struct str text, struct str origin, struct err *err) {
        struct reach_target *target = context;
        struct pattern pattern;
        int r = pattern_parse_user(str_trim(text), &pattern, err);

        if (r < 0)
                return r;

        return snapshot_add_kept(target->builder, LIST_REACH, &pattern, str_trim(text), origin, err);
}

int ratchet_compile(const struct policy *policy, struct snapshot_builder *builder, struct err *err) {
        cleanup(kept_done) struct kept_list refused = { 0 }, asked = { 0 };
        struct reach_target target = { builder };
        unsigned n_closed = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < policy->ratchet.n; i++) {
                const struct ratchet_rule *rule = &policy->ratchet.p[i];

                r = ratchet_each_host(policy, rule, put_reach, &target, err);
                if (r < 0 || !rule->closed)
                        continue;

                n_closed++;
                if (rule->allow.n == 0 && !rule->ask)
                        continue;

                r = kept_take(policy, rule, rule->ask ? &asked : &refused, err);
                if (r == 0)
                        r = put_rule(builder, rule, err);
        }

        if (r == 0)
                r = put_kept(builder, LIST_KEPT, &refused, "ratchet", err);
        if (r == 0)
                r = put_kept(builder, LIST_KEPT_ASK, &asked, "ratchet", err);
        if (r == 0)
                snapshot_narrow(builder, n_closed, ratchet_takes_credentials(policy));

        return r;
}
