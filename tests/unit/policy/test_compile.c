/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

static struct policy *policy_new(enum policy_mode mode) {
        struct policy *p = calloc(1, sizeof *p);
        assert_non_null(p);
        p->mode = mode;
        return p;
}

static void add(origin_texts *list, const char *text) {
        struct origin_text added = { str_dup(str_of(text)), str_dup(STR("policy.yaml:7:3")) };
        assert_int_equal(vec_push(list, added), 0);
}

static struct snapshot *compile(const struct policy *p, const struct endpoint *self, size_t n_self, void **ret_bytes) {
        struct snapshot *s = NULL;
        struct err e = { 0 };
        size_t n;
        if (policy_compile_network(p, self, n_self, ret_bytes, &n, &e) < 0 || snapshot_open(*ret_bytes, n, &s, &e) < 0)
                fail_msg("%s", err_text(&e));
        return s;
}

static struct verdict judge(const struct snapshot *s, const char *target) {
        struct authority a;
        assert_int_equal(authority_parse(str_of(target), 443, &a, NULL), 0);
        return verdict_target(s, &a.host, a.port);
}

static void modes(void **state) {
        (void)state;
        static const struct {
                enum policy_mode mode;
                enum reason listed, other;
        } expected[] = {
                { MODE_READ_ONLY, REASON_NO_NETWORK, REASON_NO_NETWORK },
                { MODE_WORKSPACE_WRITE, REASON_NO_NETWORK, REASON_NO_NETWORK },
                { MODE_WORKSPACE_WRITE_WHITELIST, REASON_ALLOWED, REASON_NOT_ALLOWED },
                { MODE_FULL_NETWORK, REASON_ALLOWED, REASON_OPEN_NETWORK },
        };
        for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
                cleanup(policy_freep) struct policy *p = policy_new(expected[i].mode);
                cleanup(free_ptr) void *bytes = NULL;
                add(&p->network.allow, "api.example.com");
                cleanup(snapshot_closep) struct snapshot *s = compile(p, NULL, 0, &bytes);
                assert_int_equal(judge(s, "api.example.com").reason, expected[i].listed);
                assert_int_equal(judge(s, "other.example.com").reason, expected[i].other);
        }
}

static void every_list(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = policy_new(MODE_WORKSPACE_WRITE_WHITELIST);
        cleanup(free_ptr) void *bytes = NULL;
        const struct endpoint self[] = { { { ADDR_V4, { 127, 0, 0, 1 } }, 3128 }, { { ADDR_V4, { 1, 1, 1, 1 } }, 0 } };
        struct request_rule rule = { .host = str_dup(STR("api.example.com")),
                                     .origin = str_dup(STR("policy.yaml:9:3")) };
        add(&rule.methods, "GET");
        add(&rule.paths, "/public/**");
        assert_int_equal(vec_push(&p->network.rules, rule), 0);
        add(&p->network.allow, "*.example.org");
        add(&p->network.allow, "1.1.1.0/24");
        add(&p->network.deny, "bad.example.org");
        add(&p->network.allow_private, "10.1.2.3:5432");
        p->network.ask = ASK_TTY;
        cleanup(snapshot_closep) struct snapshot *s = compile(p, self, 2, &bytes);
        assert_int_equal(judge(s, "x.example.org").reason, REASON_ALLOWED);
        assert_int_equal(judge(s, "bad.example.org").reason, REASON_DENY_RULE);
        assert_int_equal(judge(s, "10.1.2.3:5432").reason, REASON_ALLOWED_PRIVATE);
        assert_int_equal(judge(s, "10.1.2.3:80").reason, REASON_ADDRESS_CLASS);
        assert_int_equal(judge(s, "127.0.0.1:3128").reason, REASON_SELF);
        assert_int_equal(judge(s, "1.1.1.1").reason, REASON_SELF);
        assert_int_equal(judge(s, "1.1.1.2").reason, REASON_ALLOWED);
        assert_int_equal(judge(s, "new.example.net").decision, DECISION_ASK);
        struct verdict v = judge(s, "api.example.com");
        assert_true(v.decision == DECISION_ALLOW && v.needs_request);
        struct snapshot_rule found;
        assert_true(snapshot_rule(s, v.rule, &found));
        assert_true(str_is(found.origin, "policy.yaml:9:3"));
}

/* A list that is given and empty is not the default. */
static void deny_cidrs(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = policy_new(MODE_FULL_NETWORK);
        p->network.deny_cidrs_set = true;
        {
                cleanup(free_ptr) void *bytes = NULL;
                cleanup(snapshot_closep) struct snapshot *s = compile(p, NULL, 0, &bytes);
                assert_int_equal(judge(s, "10.0.0.1").decision, DECISION_ALLOW);
                assert_int_equal(judge(s, "169.254.169.254").decision, DECISION_DENY);
        }
        add(&p->network.deny_cidrs, "10.0.0.0/8");
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(snapshot_closep) struct snapshot *s = compile(p, NULL, 0, &bytes);
        assert_int_equal(judge(s, "10.0.0.1").decision, DECISION_DENY);
        assert_int_equal(judge(s, "192.168.0.1").decision, DECISION_ALLOW);
}

static void errors_say_where(void **state) {
        (void)state;
        static const struct {
                const char *list, *text, *words;
        } wrong[] = {
                { "allow", "*.com", "top-level" },
                { "deny", "http://x.example.com", "scheme" },
                { "private", "10.0.0.1", "needs a port" },
                { "cidrs", "10.0.0.1/8", "not a network" },
        };
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
                cleanup(policy_freep) struct policy *p = policy_new(MODE_FULL_NETWORK);
                struct err e = { 0 };
                void *bytes = NULL;
                size_t n;
                p->network.deny_cidrs_set = true;
                origin_texts *list = wrong[i].list[0] == 'a'   ? &p->network.allow
                                     : wrong[i].list[0] == 'd' ? &p->network.deny
                                     : wrong[i].list[0] == 'p' ? &p->network.allow_private
                                                               : &p->network.deny_cidrs;
                add(list, wrong[i].text);
                assert_int_equal(policy_compile_network(p, NULL, 0, &bytes, &n, &e), -EINVAL);
                assert_null(bytes);
                assert_non_null(strstr(e.text, wrong[i].words));
                assert_non_null(strstr(e.text, "policy.yaml:7:3"));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(modes),
                cmocka_unit_test(every_list),
                cmocka_unit_test(deny_cidrs),
                cmocka_unit_test(errors_say_where),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
