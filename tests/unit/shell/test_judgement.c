/* SPDX-License-Identifier: Apache-2.0 */
/* One judgement by itself, with a way back up that only counts: what stays the worst, the limits, words and names. */
#include "shell/call.h"

#include "../cmocka_all.h"

static unsigned asides, texts;
static struct str last_text;

static bool count_call(struct judge *judge, const struct sh_arg *args, size_t n) {
        (void)judge;
        (void)args;
        return n > 0;
}

static void count_text(struct judge *judge, struct str text) {
        (void)judge;
        texts++;
        last_text = text;
}

static void count_aside(struct judge *judge, const struct sh_list *list) {
        (void)list;
        asides++;
        judge->facts |= FACT_DOWNLOADS;
}

static const struct judge_again counting = { .call = count_call, .text = count_text, .aside = count_aside };

static struct judge begin(void) {
        asides = texts = 0;
        return (struct judge){
                .again = &counting, .arena = { .max = JUDGE_MEMORY_MAX }, .where.n = 1, .segment = STR("segment")
        };
}

static void worst_decision_stays(void **state) {
        (void)state;
        struct judge judge = begin();
        const struct sh_rule mild = { .name = "mild", .decision = SH_ESCALATED };

        judge_decide(&judge, SH_SANDBOXED, NULL);
        assert_int_equal(judge.decision, SH_SANDBOXED);
        judge_find(&judge, FINDING_FORK_BOMB);
        assert_int_equal(judge.decision, SH_FORBIDDEN);

        const struct sh_rule *worst = judge.rule;
        judge_hit(&judge, &mild);
        assert_ptr_equal(judge.rule, worst);
        assert_true(str_eq(judge.worst_segment, STR("segment")));
        arena_done(&judge.arena);
}

static void permission_covers_all_but_forbidden(void **state) {
        (void)state;
        struct judge judge = begin();

        judge.permitted = true;
        judge_find(&judge, FINDING_ENVIRONMENT);
        assert_null(judge.rule);
        judge_find(&judge, FINDING_FORK_BOMB);
        assert_int_equal(judge.decision, SH_FORBIDDEN);
        arena_done(&judge.arena);
}

static void depth_and_steps_end(void **state) {
        (void)state;
        struct judge judge = begin();

        for (unsigned i = 0; i < JUDGE_DEPTH_MAX; i++)
                assert_true(judge_enter(&judge));
        assert_false(judge_goes_on(&judge));
        assert_false(judge_enter(&judge));
        assert_int_equal(judge.decision, SH_ESCALATED);
        assert_string_equal(judge.rule->name, finding_rules[FINDING_NOT_UNDERSTOOD].name);

        for (unsigned i = 0; i < JUDGE_DEPTH_MAX; i++)
                judge_leave(&judge);
        assert_true(judge_enter(&judge));
        judge.steps = JUDGE_STEPS_MAX;
        assert_false(judge_enter(&judge));
        arena_done(&judge.arena);
}

/* A substitution goes back up once, and what it does is told apart from what the command does. */
static void substitutions_go_back_up(void **state) {
        (void)state;
        struct judge judge = begin();
        struct sh_list list = { 0 };
        struct sh_part inner = { .kind = SH_COMMAND, .list = &list };
        struct sh_word nested = { .parts = &inner };
        struct sh_part outer = { .kind = SH_PARAMETER, .word = &nested };
        struct sh_word second = { .parts = &outer }, first = { .parts = &inner, .next = &second };

        judge.facts = FACT_LISTS;
        assert_int_equal(judge_inner_facts(&judge, &first), FACT_DOWNLOADS);
        assert_int_equal(judge.facts, FACT_LISTS);
        assert_int_equal(asides, 2);
        assert_int_equal(judge.depth, 0);
        arena_done(&judge.arena);
}

static void unknown_parts_become_a_parameter(void **state) {
        (void)state;
        struct judge judge = begin();
        struct sh_args args = { 0 };
        bool unknown = false;

        for (unsigned i = 0; i < 20; i++) /* more than it begins with */
                assert_int_equal(sh_args_add(&judge, &args, judge_arg(&judge, STR("a"))), 0);
        assert_int_equal(args.n, 20);
        assert_true(str_eq(sh_args_join(&judge, args.p, 2, &unknown), STR("a a")));
        assert_false(unknown);

        args.p[1] = judge_arg(&judge, str_n("x\0y", 3));
        assert_true(args.p[1].unknown);
        assert_true(str_eq(sh_args_join(&judge, args.p, 2, &unknown), STR("a x${unknown}y")));
        assert_true(unknown);

        judge_program_here(&judge, &(struct sh_call){ .inner_facts = FACT_DOWNLOADS }, args.p, 2);
        assert_int_equal(texts, 1);
        assert_true(str_eq(last_text, STR("a x${unknown}y")));
        assert_ptr_equal(judge.rule, &finding_rules[FINDING_PIPE_DOWNLOAD]);
        arena_done(&judge.arena);
}

static void names_and_indexes(void **state) {
        (void)state;
        static const struct {
                const char *word, *name;
                bool foreign;
        } calls[] = { { "rm", "rm", false },           { "/bin/rm", "rm", false }, { "/usr/local/bin/x", "x", false },
                      { "./rm", "rm", true },          { "/tmp/rm", "rm", true },  { "bin/rm", "rm", true },
                      { "/usr/bin/../rm", "rm", true } };

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                struct sh_arg word = { .text = str_of(calls[i].word) };
                struct sh_call call = { .p = &word, .n = 1 };

                call_name(&call);
                assert_true(str_is(call.name, calls[i].name));
                assert_int_equal(call.foreign, calls[i].foreign);
        }

        assert_true(index_runs(STR("a[$(x)]")));
        assert_true(index_runs(STR("a[`x`]")));
        assert_false(index_runs(STR("a[1]")));
        assert_false(index_runs(STR("$(x)")));
        assert_true(is_shell(STR("dash")) && !is_shell(STR("dashboard")));
        assert_true(is_interpreter(STR("python3.11")) && !is_interpreter(STR("bash")));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(worst_decision_stays), cmocka_unit_test(permission_covers_all_but_forbidden),
                cmocka_unit_test(depth_and_steps_end),  cmocka_unit_test(substitutions_go_back_up),
                cmocka_unit_test(names_and_indexes),    cmocka_unit_test(unknown_parts_become_a_parameter),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
