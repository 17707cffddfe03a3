/* SPDX-License-Identifier: Apache-2.0 */
/* The classifier: the examples of its own rules, two case files, users' rules, and its limits. */
#include "shell/classify.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>

static const char *cases_file, *everyday_file, *unasked_file, *places_file;

static void builtin_rules_keep_their_examples(void **state) {
        (void)state;
        struct err e = { 0 };
        if (sh_rules_self_test(&e) < 0)
                fail_msg("%s", err_text(&e));
}

/* \n and \t in a case stand for the bytes, so that here-documents fit on a line. */
static struct str unescape(struct str line, char *out) {
        size_t n = 0;
        for (size_t i = 0; i < line.n; i++) {
                bool pair = line.p[i] == '\\' && i + 1 < line.n && line.p[i + 1] == '\\' && i + 2 < line.n &&
                            line.p[i + 2] == 'n';
                if (pair) {
                        out[n++] = '\n';
                        i += 2;
                } else
                        out[n++] = line.p[i];
        }
        return str_n(out, n);
}

/* "decision rule command": rule is - when none is expected to have a name. */
static bool try_case(struct str line, unsigned number) {
        struct str decision, rule, rest = line;
        char text[4096];
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        assert_true(line.n < sizeof text);
        assert_true(str_split(&rest, ' ', &decision) && str_split(&rest, ' ', &rule));
        assert_int_equal(sh_classify(NULL, NULL, unescape(rest, text), &v), 0);
        bool same =
            str_is(decision, sh_decision_name(v.decision)) && (str_is(rule, "-") ? !*v.rule : str_is(rule, v.rule));
        if (!same)
                print_error("line %u: %s %s [%s] for: %.*s\n", number, sh_decision_name(v.decision), v.rule, v.segment,
                            STR_FMT(line));
        return same;
}

static void read_cases(const char *path, struct buf *ret) {
        struct err e = { 0 };
        if (path_read_file(path, 1 << 20, ret, &e) < 0)
                fail_msg("%s", err_text(&e));
}

static void cases_are_decided(void **state) {
        (void)state;
        cleanup(buf_done) struct buf file = BUF(0);
        read_cases(cases_file, &file);
        struct str rest = buf_str(&file), line;
        unsigned number = 0, n = 0, wrong = 0;
        while (str_split(&rest, '\n', &line)) {
                number++;
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                n++;
                wrong += !try_case(line, number);
        }
        assert_in_range(n, 400, 10000);
        assert_int_equal(wrong, 0);
}

static void everyday_commands_are_left_alone(void **state) {
        (void)state;
        cleanup(buf_done) struct buf file = BUF(0);
        read_cases(everyday_file, &file);
        struct str rest = buf_str(&file), line;
        unsigned n = 0, escalated = 0, forbidden = 0;
        while (str_split(&rest, '\n', &line)) {
                char text[4096];
                cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                assert_int_equal(sh_classify(NULL, NULL, unescape(line, text), &v), 0);
                n++;
                escalated += v.decision == SH_ESCALATED;
                forbidden += v.decision == SH_FORBIDDEN;
                if (v.decision >= SH_ESCALATED)
                        print_message("%s %s: %.*s\n", sh_decision_name(v.decision), v.rule, STR_FMT(line));
        }
        print_message("%u of %u everyday commands are escalated\n", escalated, n);
        assert_in_range(n, 300, 10000);
        assert_int_equal(forbidden, 0);
        assert_true(escalated * 100 < n * 5);
}

static void nobody_is_asked_about_these(void **state) {
        (void)state;
        cleanup(buf_done) struct buf file = BUF(0);
        read_cases(unasked_file, &file);
        struct str rest = buf_str(&file), line;
        unsigned n = 0, asked = 0;
        while (str_split(&rest, '\n', &line)) {
                char text[4096];
                cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                assert_int_equal(sh_classify(NULL, NULL, unescape(line, text), &v), 0);
                n++;
                asked += v.decision >= SH_ESCALATED;
                if (v.decision >= SH_ESCALATED)
                        print_error("%s %s: %.*s\n", sh_decision_name(v.decision), v.rule, STR_FMT(line));
        }
        assert_in_range(n, 150, 10000);
        assert_int_equal(asked, 0);
}

/* "directory workspace decision rule command" */
static bool try_place(struct str line, unsigned number) {
        struct str directory = STR(""), workspace = STR(""), decision = STR(""), rule = STR(""), rest = line;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        assert_true(str_split(&rest, ' ', &directory) && str_split(&rest, ' ', &workspace) &&
                    str_split(&rest, ' ', &decision) && str_split(&rest, ' ', &rule));
        const struct sh_setting setting = { .directory = directory, .home = STR("/home/me"), .workspace = workspace };
        assert_int_equal(sh_classify(NULL, &setting, rest, &v), 0);
        bool same =
            str_is(decision, sh_decision_name(v.decision)) && (str_is(rule, "-") ? !*v.rule : str_is(rule, v.rule));
        if (!same)
                print_error("line %u: %s %s [%s] for: %.*s\n", number, sh_decision_name(v.decision), v.rule, v.segment,
                            STR_FMT(line));
        return same;
}

static void the_place_decides(void **state) {
        (void)state;
        cleanup(buf_done) struct buf file = BUF(0);
        read_cases(places_file, &file);
        struct str rest = buf_str(&file), line;
        unsigned number = 0, n = 0, wrong = 0;
        while (str_split(&rest, '\n', &line)) {
                number++;
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                n++;
                wrong += !try_place(line, number);
        }
        assert_in_range(n, 40, 10000);
        assert_int_equal(wrong, 0);
}

static void the_verdict_names_the_segment(void **state) {
        (void)state;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        assert_int_equal(sh_classify(NULL, NULL, STR("ls && (cd x; git push origin) | cat"), &v), 0);
        assert_int_equal(v.decision, SH_ESCALATED);
        assert_string_equal(v.rule, "git-remote");
        assert_string_equal(v.segment, "git push origin");
        sh_verdict_done(&v);
        assert_int_equal(sh_classify(NULL, NULL, STR("echo 'unclosed"), &v), 0);
        assert_string_equal(v.rule, "not-understood");
        assert_non_null(v.detail);
}

static void argv_is_no_shell_text(void **state) {
        (void)state;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        const struct str plain[] = { STR("echo"), STR("$(rm -rf /)"), STR("; reboot") };
        assert_int_equal(sh_classify_argv(NULL, NULL, plain, 3, &v), 0);
        assert_int_equal(v.decision, SH_ALLOW);
        sh_verdict_done(&v);
        const struct str shell[] = { STR("env"), STR("bash"), STR("-c"), STR("rm -rf /") };
        assert_int_equal(sh_classify_argv(NULL, NULL, shell, 4, &v), 0);
        assert_int_equal(v.decision, SH_FORBIDDEN);
        assert_string_equal(v.segment, "rm -rf /");
        sh_verdict_done(&v);
        assert_int_equal(sh_classify_argv(NULL, NULL, NULL, 0, &v), 0);
        assert_int_equal(v.decision, SH_ESCALATED);
        sh_verdict_done(&v);
        const struct str nul = str_n("l\0s", 3);
        assert_int_equal(sh_classify_argv(NULL, NULL, &nul, 1, &v), 0);
        assert_int_equal(v.decision, SH_ESCALATED);
}

static enum sh_decision decide(const struct sh_rules *rules, const char *command, const char *rule) {
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        assert_int_equal(sh_classify(rules, NULL, str_of(command), &v), 0);
        if (rule)
                assert_string_equal(v.rule, rule);
        return v.decision;
}

static void users_rules_come_first_but_forbidden_stays(void **state) {
        (void)state;
        cleanup(sh_rules_freep) struct sh_rules *rules = NULL;
        const char *const deploy[] = { "deploy", "*prod*" }, *const kubectl[] = { "kubectl", "get" },
                          *const any_rm[] = { "rm" };
        const char *const match[] = { "ls; deploy --prod" }, *const no_match[] = { "deploy staging" };
        const struct sh_user_rule given[] = {
                { "no-prod", "never from here", SH_FORBIDDEN, deploy, 2, match, no_match, 1, 1 },
                { "cluster-read", NULL, SH_ALLOW, kubectl, 2, NULL, NULL, 0, 0 },
                { "rm", NULL, SH_ALLOW, any_rm, 1, NULL, NULL, 0, 0 },
        };
        struct err e = { 0 };
        assert_int_equal(sh_rules_load(given, 3, &rules, &e), 0);
        assert_int_equal(decide(rules, "sudo deploy prod-eu", "no-prod"), SH_FORBIDDEN);
        assert_int_equal(decide(rules, "deploy staging", ""), SH_SANDBOXED);
        assert_int_equal(decide(rules, "kubectl get pods", "cluster-read"), SH_ALLOW);
        assert_int_equal(decide(rules, "kubectl get pods; kubectl delete x", "containers"), SH_ESCALATED);
        assert_int_equal(decide(rules, "kubectl get \"$(git push)\"", "git-remote"), SH_ESCALATED);
        assert_int_equal(decide(rules, "rm -rf \"$x\"", "rm"), SH_ALLOW);
        assert_int_equal(decide(rules, "rm -rf /", "delete-root"), SH_FORBIDDEN);
        assert_int_equal(decide(rules, "./kubectl get x", "containers"), SH_ESCALATED);
}

static void a_wrong_example_refuses_the_rules(void **state) {
        (void)state;
        struct sh_rules *rules = NULL;
        const char *const argv[] = { "deploy" }, *const wrong[] = { "echo deploy" };
        struct sh_user_rule rule = { "d", NULL, SH_FORBIDDEN, argv, 1, wrong, NULL, 1, 0 };
        struct err e = { 0 };
        assert_int_equal(sh_rules_load(&rule, 1, &rules, &e), -EINVAL);
        assert_string_equal(err_text(&e), "command rule 'd' does not match its example: echo deploy");
        rule = (struct sh_user_rule){ .name = "empty", .decision = SH_ALLOW };
        assert_int_equal(sh_rules_load(&rule, 1, &rules, &e), -EINVAL);
}

static void contrived_text_is_escalated_in_bounded_time(void **state) {
        (void)state;
        static const char *const bricks[] = { "{a,b}", "$(",      "bash -c '",         "env ",
                                              "a=b@",  "*[a]?",   "sh -c \"",          "(",
                                              "a=b;",  "x=$x$y;", "for i in 1 2; do ", "f() { a=1; ",
                                              "${x:-", "x+=y " };
        for (size_t i = 0; i < sizeof bricks / sizeof bricks[0]; i++) {
                cleanup(buf_done) struct buf text = BUF(1 << 20);
                cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
                assert_int_equal(buf_add(&text, "cat "), 0);
                while (text.n < 100000)
                        assert_int_equal(buf_add(&text, bricks[i]), 0);
                assert_int_equal(sh_classify(NULL, NULL, buf_str(&text), &v), 0);
                if (i < 4)
                        assert_true(v.decision >= (i == 3 ? SH_ALLOW : SH_ESCALATED));
        }
}

int main(int argc, char **argv) {
        if (argc != 5)
                return 2;
        cases_file = argv[1];
        everyday_file = argv[2];
        unasked_file = argv[3];
        places_file = argv[4];
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(builtin_rules_keep_their_examples),
                cmocka_unit_test(cases_are_decided),
                cmocka_unit_test(everyday_commands_are_left_alone),
                cmocka_unit_test(nobody_is_asked_about_these),
                cmocka_unit_test(the_place_decides),
                cmocka_unit_test(the_verdict_names_the_segment),
                cmocka_unit_test(argv_is_no_shell_text),
                cmocka_unit_test(users_rules_come_first_but_forbidden_stays),
                cmocka_unit_test(a_wrong_example_refuses_the_rules),
                cmocka_unit_test(contrived_text_is_escalated_in_bounded_time),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
