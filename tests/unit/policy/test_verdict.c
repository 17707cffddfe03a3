/* SPDX-License-Identifier: Apache-2.0 */
/* Policies and what they say, from tests/cases/verdicts*.txt; the format is explained there. */
#include "policy/judge/verdict.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "cases.h"
#include "policy/judge/snapshot.h"

#include <errno.h>

struct policy_under_test {
        struct snapshot_builder *builder; /* while its lines are read */
        void *block;
        struct snapshot *snapshot; /* from the first question on */
};

static void forget(struct policy_under_test *t) {
        snapshot_builder_free(t->builder);
        snapshot_close(t->snapshot);
        free(t->block);
        *t = (struct policy_under_test){ 0 };
}

static const struct snapshot *opened(struct policy_under_test *t) {
        size_t n;
        struct err e = { 0 };
        if (!t->snapshot) {
                assert_int_equal(snapshot_build(t->builder, &t->block, &n, &e), 0);
                if (snapshot_open(t->block, n, &t->snapshot, &e) < 0)
                        fail_msg("%s", err_text(&e));
        }
        return t->snapshot;
}

static bool start_policy(struct policy_under_test *t, const struct case_line *c) {
        static const char *const modes[] = { "none", "filtered", "open" };
        forget(t);
        for (size_t i = 0; i < NETWORK_MODES; i++)
                if (str_is(c->field[1], modes[i]))
                        t->builder = snapshot_builder_new((enum network_mode)i, str_is(c->field[2], "ask"));
        return t->builder || case_failed(c, "no such mode");
}

static bool add_request_rule(struct policy_under_test *t, const struct case_line *c, struct err *e) {
        struct str methods[8], paths[8], rest = c->field[2], part;
        size_t n_methods = 0, n_paths = 0;
        while (!str_is(c->field[2], "any") && str_split(&rest, ',', &part))
                methods[n_methods++] = part;
        for (size_t i = 3; i < c->n; i++)
                paths[n_paths++] = c->field[i];
        return snapshot_add_request_rule(t->builder, c->field[1], methods, n_methods, paths, n_paths, STR("rules"),
                                         e) == 0;
}

static bool add_self(struct policy_under_test *t, const struct case_line *c, struct err *e) {
        struct authority a;
        struct host h;
        if (host_parse(c->field[1], &h, NULL) == 0)
                return snapshot_add_self(t->builder, &h.addr, 0, e) == 0;
        assert_int_equal(authority_parse(c->field[1], 0, &a, e), 0);
        return snapshot_add_self(t->builder, &a.host.addr, a.port, e) == 0;
}

static bool add_rule(struct policy_under_test *t, const struct case_line *c, struct err *e) {
        struct str what = c->field[0];
        struct cidr net;
        if (str_is(what, "allow"))
                return snapshot_add(t->builder, LIST_ALLOW, c->field[1], STR("allow"), e) == 0;
        if (str_is(what, "deny"))
                return snapshot_add(t->builder, LIST_DENY, c->field[1], STR("deny"), e) == 0;
        if (str_is(what, "allow_private"))
                return snapshot_add(t->builder, LIST_ALLOW_PRIVATE, c->field[1], STR("allow_private"), e) == 0;
        if (str_is(what, "rule"))
                return add_request_rule(t, c, e);
        if (str_is(what, "self"))
                return add_self(t, c, e);
        if (str_is(what, "deny_cidrs") && str_is(c->field[1], "none"))
                return snapshot_set_deny_cidrs(t->builder, NULL, 0, STR("deny_cidrs"), e) == 0;
        if (str_is(what, "deny_cidrs") && cidr_parse(c->field[1], &net))
                return snapshot_set_deny_cidrs(t->builder, &net, 1, STR("deny_cidrs"), e) == 0;
        err_set(e, EINVAL, "no such line");
        return false;
}

static struct verdict ask(const struct snapshot *s, const struct case_line *c, size_t *ret_used) {
        struct authority a;
        struct host h;
        struct addr addr;
        *ret_used = 2;
        if (str_is(c->field[0], "name")) {
                assert_int_equal(host_parse(c->field[1], &h, NULL), 0);
                return verdict_name(s, &h);
        }
        if (authority_parse(c->field[1], 0, &a, NULL) < 0)
                return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_BAD_NAME, .rule = RULE_NONE };
        if (str_is(c->field[0], "target"))
                return verdict_target(s, &a.host, a.port);
        *ret_used = 3;
        if (str_is(c->field[0], "address")) {
                assert_true(addr_parse(c->field[2], &addr));
                return verdict_address(s, &a.host, &addr, a.port);
        }
        assert_true(str_is(c->field[0], "request"));
        *ret_used = 4;
        return verdict_request(s, &a.host, a.port, c->field[2], c->field[3]);
}

/* DECISION REASON [RULE | -] [CLASS | visible] */
static bool verdict_holds(const struct snapshot *s, const struct verdict *v, const struct case_line *c, size_t at) {
        static const char *const decisions[] = { "deny", "allow", "ask" };
        struct snapshot_rule rule = { .text = STR("-") };
        snapshot_rule(s, v->rule, &rule);
        struct str wanted = c->field[at + 2].n ? c->field[at + 2] : STR("-"), extra = c->field[at + 3];
        const char *detail = v->reason == REASON_ADDRESS_CLASS ? addr_class_name(v->class)
                             : v->needs_request                ? "visible"
                                                               : "";
        if (str_is(c->field[at], decisions[v->decision]) && str_is(c->field[at + 1], reason_code(v->reason)) &&
            str_eq(rule.text, wanted) && str_is(extra, detail))
                return true;
        return case_failed(c, "%s %s %.*s %s", decisions[v->decision], reason_code(v->reason), STR_FMT(rule.text),
                           detail);
}

static bool verdict_case(const struct case_line *c, void *context) {
        struct policy_under_test *t = context;
        struct err e = { 0 };
        size_t used;
        static const char *const questions[] = { "target", "address", "request", "name" };
        if (str_is(c->field[0], "policy"))
                return start_policy(t, c);
        assert_non_null(t->builder);
        for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
                if (str_is(c->field[0], questions[i])) {
                        const struct snapshot *s = opened(t);
                        struct verdict v = ask(s, c, &used);
                        return verdict_holds(s, &v, c, used);
                }
        assert_null(t->snapshot);             /* a rule after the first question would not count */
        if (str_is(c->field[0], "refused")) { /* refused WORDS LINE...: this line is an error */
                struct case_line inner = *c;
                memmove(inner.field, c->field + 2, (CASE_FIELDS_MAX - 2) * sizeof inner.field[0]);
                inner.n = c->n - 2;
                if (add_rule(t, &inner, &e))
                        return case_failed(c, "accepted");
                return memmem(e.text, strlen(e.text), c->field[1].p, c->field[1].n) ||
                       case_failed(c, "says: %s", e.text);
        }
        return add_rule(t, c, &e) || case_failed(c, "%s", e.text);
}

static void run_file(const char *file) {
        struct policy_under_test t = { 0 };
        cases_run(file, verdict_case, &t);
        forget(&t);
}

static void verdicts(void **state) {
        (void)state;
        run_file("verdicts.txt");
}

static void attacks(void **state) {
        (void)state;
        run_file("verdicts_attacks.txt");
}

static void requests(void **state) {
        (void)state;
        run_file("verdicts_requests.txt");
}

static void nothing_is_allowed_without_a_policy(void **state) {
        (void)state;
        struct host h;
        assert_int_equal(host_parse(STR("api.ok.test"), &h, NULL), 0);
        struct addr a = { ADDR_V4, { 1, 1, 1, 1 } };
        assert_int_equal(verdict_target(NULL, &h, 443).decision, DECISION_DENY);
        assert_int_equal(verdict_name(NULL, &h).decision, DECISION_DENY);
        assert_int_equal(verdict_address(NULL, &h, &a, 443).decision, DECISION_DENY);
        assert_int_equal(verdict_request(NULL, &h, 443, STR("GET"), STR("/")).decision, DECISION_DENY);
}

static void port_zero_is_refused(void **state) {
        (void)state;
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_OPEN, false);
        cleanup(free_ptr) void *block = NULL;
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        struct host h;
        size_t n;
        assert_int_equal(snapshot_build(b, &block, &n, NULL), 0);
        assert_int_equal(snapshot_open(block, n, &s, NULL), 0);
        assert_int_equal(host_parse(STR("api.ok.test"), &h, NULL), 0);
        assert_int_equal(verdict_target(s, &h, 443).decision, DECISION_ALLOW);
        assert_int_equal(verdict_target(s, &h, 0).decision, DECISION_DENY);
        assert_int_equal(verdict_request(s, &h, 0, STR("GET"), STR("/")).decision, DECISION_DENY);
}

/* Codes go into logs and headers: each is one word, and no two are the same. */
static void reason_words(void **state) {
        (void)state;
        for (int i = 0; i < REASONS; i++) {
                const char *code = reason_code(i);
                for (const char *c = code; *c; c++)
                        assert_true((*c >= 'a' && *c <= 'z') || *c == '-');
                assert_true(strlen(reason_text(i)) > 10);
                for (int j = 0; j < i; j++)
                        assert_string_not_equal(code, reason_code(j));
        }
        assert_string_equal(reason_code(REASONS), "unknown");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(verdicts),
                cmocka_unit_test(attacks),
                cmocka_unit_test(requests),
                cmocka_unit_test(nothing_is_allowed_without_a_policy),
                cmocka_unit_test(port_zero_is_refused),
                cmocka_unit_test(reason_words),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
