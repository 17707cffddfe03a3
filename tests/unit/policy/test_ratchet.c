/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/judge/ratchet.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <stdlib.h>

static void add(origin_texts *list, const char *text) {
        assert_int_equal(origin_texts_add(list, str_of(text), "policy.yaml:3:5"), 0);
}

static struct policy *policy_new(const char *const *allowed) {
        struct policy *p = calloc(1, sizeof *p);

        assert_non_null(p);
        p->mode = MODE_WORKSPACE_WRITE_WHITELIST;
        p->workspace = strdup("/w");
        p->home = strdup("/home/ann");
        for (; *allowed; allowed++)
                add(&p->network.allow, *allowed);
        return p;
}

static struct ratchet_rule *rule_new(struct policy *p, const char *const *kept) {
        struct ratchet_rule rule = { .origin = strdup("policy.yaml:9:3") };

        for (; kept && *kept; kept++)
                add(&rule.allow, *kept);
        assert_int_equal(vec_push(&p->ratchet, rule), 0);
        return &p->ratchet.p[p->ratchet.n - 1];
}

static struct verdict judge(const struct policy *p, const char *target) {
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        struct authority a;
        struct err e = { 0 };
        size_t n;

        assert_int_equal(authority_parse(str_of(target), 443, &a, &e), 0);
        if (policy_compile_network(p, NULL, 0, &bytes, &n, &e) < 0 || snapshot_open(bytes, n, &s, &e) < 0)
                fail_msg("%s", err_text(&e));
        return verdict_target(s, &a.host, a.port);
}

static const char *const hosts[] = { "*.example.com", "one.test", "two.test:443", "10.0.0.0/8", NULL };

static void closed_rules_only_take_away(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = policy_new(hosts);
        const char *const kept[] = { "api.example.com", "two.test", "three.test", "*.one.test", NULL };

        rule_new(p, kept);
        assert_int_equal(judge(p, "one.test").decision, DECISION_ALLOW);
        assert_int_equal(ratchet_close(p, 1), 1);
        assert_int_equal(ratchet_close(p, 1), 0); /* it was */
        assert_int_equal(judge(p, "api.example.com").decision, DECISION_ALLOW);
        assert_int_equal(judge(p, "two.test").decision, DECISION_ALLOW);
        assert_int_equal(judge(p, "two.test:80").reason, REASON_NOT_ALLOWED);
        assert_int_equal(judge(p, "three.test").reason, REASON_NOT_ALLOWED); /* it never was allowed */
        assert_int_equal(judge(p, "one.test").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "x.example.com").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "x.one.test").reason, REASON_NOT_ALLOWED);
}

static void several_leave_what_all_leave(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = policy_new(hosts);
        const char *const first[] = { "*.example.com:443-8443", "one.test", NULL };
        const char *const second[] = { "*.api.example.com", "www.example.com:80-500", "two.test", NULL };

        rule_new(p, first);
        rule_new(p, second);
        ratchet_close(p, 3);
        assert_int_equal(judge(p, "v1.api.example.com").decision, DECISION_ALLOW);
        assert_int_equal(judge(p, "v1.api.example.com:9000").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "www.example.com:443").decision, DECISION_ALLOW);
        assert_int_equal(judge(p, "www.example.com:80").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "www.example.com:501").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "one.test").reason, REASON_RATCHET);
        assert_int_equal(judge(p, "two.test").reason, REASON_RATCHET);
}

static void none_leaves_nothing_and_ask_asks(void **state) {
        (void)state;
        const char *const none[] = { "none", NULL }, *const one[] = { "one.test", NULL };
        cleanup(policy_freep) struct policy *p = policy_new(hosts), *q = policy_new(hosts);
        struct verdict v;

        rule_new(p, none);
        ratchet_close(p, 1);
        assert_int_equal(judge(p, "one.test").reason, REASON_RATCHET);

        rule_new(q, one)->ask = strdup("control");
        ratchet_close(q, 1);
        assert_int_equal(judge(q, "one.test").decision, DECISION_ALLOW);
        v = judge(q, "two.test");
        assert_int_equal(v.decision, DECISION_ASK);
        assert_false(verdict_is_agreed(&v, 1)); /* a yes from before */
        assert_true(verdict_is_agreed(&v, 2));
}

static void triggers(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = policy_new(hosts);
        struct ratchet_rule *rule = rule_new(p, hosts);
        static const struct {
                const char *path;
                bool marked;
        } paths[] = {
                { "/w/data", true },         { "/w/data/x", true },      { "/w/database", false },
                { "/home/ann/c/x/y", true }, { "/home/ann/c", false },   { "/etc/k.pem", true },
                { "/etc/k.pem.txt", false }, { "/home/bob/c/x", false },
        };
        const struct bridge_tool tool = { .name = (char *)(uintptr_t) "kubectl" };
        const char *const call[] = { "kubectl", "get", "--namespace=x", "--", "secrets" };
        struct authority target;

        add(&rule->reads, "data");
        add(&rule->reads, "~/c/**");
        add(&rule->reads, "**/*.pem");
        add(&rule->tools, "kubectl get secrets");
        add(&rule->reaches, "*.example.com");
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
                assert_int_equal(ratchet_of_path(p, paths[i].path), paths[i].marked);
        assert_int_equal(ratchet_of_tool(p, &tool, call, 5), 1);
        assert_int_equal(ratchet_of_tool(p, &tool, call, 3), 0);
        assert_int_equal(authority_parse(STR("a.example.com"), 443, &target, NULL), 0);
        assert_int_equal(ratchet_of_host(p, &target), 1);
        assert_true(judge(p, "a.example.com").reaches);
        assert_false(judge(p, "one.test").reaches);
}

static void words_of_calls(void **state) {
        (void)state;
        static const struct {
                const char *rule, *word;
                bool closes;
        } rows[] = {
                { "t cat gs://secret/**", "gs://secret/a/b", true },
                { "t cat gs://secret*", "gs://secret-2/a", true },
                { "t cat *.pem", "gs://x/y.pem", true },
                { "t cat gs://secret/**", "gs://other/a", false },
                { "t cat secrets", "pods,secrets", true },
                { "t cat secret*", "pods,secrets/x", true },
                { "t cat secrets", "pods,secretsx", false },
                { "t cat *", "anything", true },
                { "t ca* x", "x", true },
                { "t cat a*b*c", "a-b-b-c", true },
                { "t cat a*b*c", "a-b-b-d", false },
        };
        const struct bridge_tool tool = { .name = (char *)(uintptr_t) "t" };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(policy_freep) struct policy *p = policy_new(hosts);
                const char *const call[] = { "t", "cat", "--quiet", rows[i].word };

                add(&rule_new(p, hosts)->tools, rows[i].rule);
                if (ratchet_of_tool(p, &tool, call, 4) != rows[i].closes)
                        fail_msg("%s: %s", rows[i].rule, rows[i].word);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(closed_rules_only_take_away),
                cmocka_unit_test(several_leave_what_all_leave),
                cmocka_unit_test(none_leaves_nothing_and_ask_asks),
                cmocka_unit_test(triggers),
                cmocka_unit_test(words_of_calls),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
