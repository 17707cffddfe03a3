/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of bridged tools: the cases, the form in which a tool gets its words, grammars that are wrong. */
#include "bridge/tool_call.h"

#include "../cmocka_all.h"
#include "../policy/cases.h"
#include "base/cleanup.h"
#include "policy/load.h"
#include "policy/tools/tool_grammar.h"
#include "policy/tools/tools.h"

static const char policy_text[] =
    "bridge:\n"
    "  gh: { repos: [github.com/acme/app] }\n"
    "  git: { repos: [github.com/acme/app] }\n"
    "  kubectl: {}\n"
    "  aws: {}\n"
    "  gcloud: {}\n"
    "  docker: {}\n"
    "  own:\n"
    "    repos: [a.test/x/*, b.test/y/z]\n"
    "    separator: true\n"
    "    front: [-v]\n"
    "    verbs:\n"
    "      - show <word> <int>? --color=<red|blue> -n|--name=<text> -q +--safe +--mode=1\n"
    "      - show all <words>...\n"
    "      - repo <repo> --in=<ref>\n"
    "      - say <prose>\n"
    "    never: [\"<hidden>: it is hidden\"]\n"
    "    ask: [show all, say, show --name, repo --in]\n";

static struct policy *policy_make(const char *text, struct err *err) {
        struct policy *policy = NULL;
        const struct policy_request request = { .only_text = text, .base = "/tmp", .network_only = true };

        (void)policy_load(&request, &policy, err);
        return policy;
}

static int setup(void **state) {
        struct err err = { 0 };

        *state = policy_make(policy_text, &err);
        if (!*state)
                print_error("%s\n", err_text(&err));
        return *state ? 0 : -1;
}

static int teardown(void **state) {
        policy_free(*state);
        return 0;
}

static bool run_case(const struct case_line *line, void *context) {
        static const char *const names[] = { [TOOL_RUN] = "run", [TOOL_INSIDE] = "inside", [TOOL_REFUSED] = "refused" };
        const struct bridge_tool *tool = tool_find(context, line->field[1]);
        cleanup(tool_call_done) struct tool_call call = { 0 };

        if (!tool || tool_call_judge(tool, line->field + 2, line->n - 2, &call) < 0)
                return case_failed(line, "no such tool");
        if (!str_is(line->field[0], names[call.verdict]))
                return case_failed(line, "%s: %s", names[call.verdict], call.why);
        if (call.verdict != TOOL_RUN && (!call.why[0] || call.argv.n))
                return case_failed(line, "no reason, or words, for what is not run");
        for (size_t i = 1; i < call.argv.n; i++)
                if (call.argv.p[i][0] == '-' && strcmp(call.argv.p[i], "--") == 0 && tool->separator != SWITCH_ON)
                        return case_failed(line, "a separator that nobody asked for");
        return true;
}

static void test_cases(void **state) {
        cases_run("bridge/calls.txt", run_case, *state);
}

static void check_written(struct policy *policy, const char *given, const char *expected) {
        struct str words[32], rest = str_of(given), name, word;
        size_t n = 0;
        cleanup(tool_call_done) struct tool_call call = { 0 };
        cleanup(buf_done) struct buf written = BUF(4096);

        assert_true(str_split(&rest, ' ', &name));
        while (n < 32 && str_split(&rest, ' ', &word))
                words[n++] = word;
        assert_int_equal(tool_call_judge(tool_find(policy, name), words, n, &call), 0);
        if (call.verdict != TOOL_RUN)
                assert_int_equal(buf_add(&written, call.why), 0);
        for (size_t i = 0; i < call.argv.n; i++)
                assert_int_equal(buf_printf(&written, "%s%s", i ? " " : "", call.argv.p[i]), 0);
        assert_string_equal(buf_text(&written), expected);
}

/* What a tool gets is in one form, whatever was typed. */
static void test_one_form(void **state) {
        static const char *const pairs[][2] = {
                { "own show x", "own show --safe --mode=1 -- x" },
                { "own -v show -n a x --color red 07", "own -v show --safe --mode=1 --name=a --color=red -- x 7" },
                { "own show --name=a --name b x", "own show --safe --mode=1 --name=a --name=b -- x" },
                { "own show --name -x y", "own show --safe --mode=1 --name=-x -- y" },
                { "own show -q -- x", "own show --safe --mode=1 -q -- x" },
                { "own show all a,b c", "own show all -- a,b c" },
                { "own repo a.test/x/one", "own repo -- a.test/x/one" },
                { "own repo b.test/y/z --in main", "own repo --in=refs/heads/main -- b.test/y/z" },
                { "gh pr view 5", "gh pr view --repo=github.com/acme/app -- 5" },
                { "gh pr view 5 -R acme/app.git", "gh pr view --repo=github.com/acme/app -- 5" },
                { "git push origin main",
                  "git push --no-verify --no-follow-tags --recurse-submodules=no -- https://github.com/acme/app.git "
                  "refs/heads/main:refs/heads/main" },
                { "git --no-pager ls-remote --heads https://github.com/acme/app",
                  "git --no-pager ls-remote --heads -- https://github.com/acme/app.git" },
                { "kubectl get -n web pods", "kubectl get --request-timeout=60s --namespace=web -- pods" },
        };

        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
                check_written(*state, pairs[i][0], pairs[i][1]);
}

static void test_refusals_say_why(void **state) {
        check_written(*state, "own show hidden/x", "'hidden/x': it is hidden");
        check_written(*state, "own show x --safe",
                      "'--safe' is not among the options of this verb, by its whole name: --color, -n|--name, -q");
        check_written(*state, "own fly", "'fly' is not among the verbs of own: show, show all, repo, say");
        check_written(*state, "git ls-remote --upload-pack=x origin", "--upload-pack: it runs a program");
        check_written(*state, "gh auth token", "gh auth: it prints or changes credentials");
        check_written(*state, "own repo c.test/x/y",
                      "the repository 'c.test/x/y' is not one that this sandbox may use own for (a.test/x/*, ...)");
}

static void check_ask(struct policy *policy, const char *given, const char *expected) {
        struct str words[8], rest = str_of(given), word;
        size_t n = 0;
        cleanup(tool_call_done) struct tool_call call = { 0 };

        while (n < 8 && str_split(&rest, ' ', &word))
                words[n++] = word;
        assert_int_equal(tool_call_judge(tool_find(policy, STR("own")), words, n, &call), 0);
        if (!expected) {
                assert_null(call.ask);
                return;
        }
        assert_int_equal(call.verdict, TOOL_RUN);
        assert_non_null(call.ask);
        assert_string_equal(call.ask->text, expected);
}

/* By the verb that was found, and by the options that the call has, however they were written. */
static void test_what_is_asked_about(void **state) {
        check_ask(*state, "show x", NULL);
        check_ask(*state, "show allx", NULL);
        check_ask(*state, "show all a", "show all");
        check_ask(*state, "-v show all a", "show all");
        check_ask(*state, "say x", "say");
        check_ask(*state, "show x --name y", "show --name");
        check_ask(*state, "show x --name=y", "show --name");
        check_ask(*state, "show -n y x", "show --name");
        check_ask(*state, "show x --color red", NULL);
        check_ask(*state, "repo b.test/y/z", NULL);
        check_ask(*state, "repo b.test/y/z --in main", "repo --in");
        check_ask(*state, "repo c.test/y/z --in main", NULL); /* refused: nobody is bothered */
        check_ask(*state, "say", NULL);
}

static void test_limits(void **state) {
        static struct str many[TOOL_ARGS_MAX + 1];
        static char prose[40000];
        const struct bridge_tool *own = tool_find(*state, STR("own"));
        cleanup(tool_call_done) struct tool_call call = { 0 }, longer = { 0 };

        for (size_t i = 0; i <= TOOL_ARGS_MAX; i++)
                many[i] = STR("x");
        assert_int_equal(tool_call_judge(own, many, TOOL_ARGS_MAX + 1, &call), 0);
        assert_int_equal(call.verdict, TOOL_REFUSED);
        memset(prose, 'x', sizeof prose);
        const struct str words[] = { STR("say"), { prose, sizeof prose } };
        assert_int_equal(tool_call_judge(own, words, 2, &longer), 0);
        assert_int_equal(longer.verdict, TOOL_REFUSED);
}

static void check_grammar(const char *line, const char *expected) {
        struct tool_verb verb;
        struct err err = { 0 };
        int r = tool_verb_parse(str_of(line), &verb, &err);

        assert_int_equal(r, expected ? -EINVAL : 0);
        if (expected && !strstr(err_text(&err), expected))
                fail_msg("%s: %s", line, err_text(&err));
}

static void test_grammars(void **state) {
        (void)state;
        check_grammar("a b-c <word> --x -y -z|--zz=<int>! +--w=5 ", NULL);
        check_grammar("", "begins with its word");
        check_grammar("--x", "begins with its word");
        check_grammar("a <wort>", "did you mean 'word'");
        check_grammar("a <x|>", "a value is empty");
        check_grammar("a <x|y|x>", "twice");
        check_grammar("a --x --x", "twice");
        check_grammar("a -x|--y -x|--z", "twice");
        check_grammar("a --x +--x", "twice");
        check_grammar("a <word>? <word>", "cannot stand behind");
        check_grammar("a <word>... <word>", "nothing can stand behind");
        check_grammar("a --x b", "come first");
        check_grammar("a -x=<word>", "long name");
        check_grammar("a --x=word", "angle brackets");
        check_grammar("a b;c", "neither a word");
        check_grammar("a +x", "behind +");
}

static void check_policy(const char *text, const char *expected) {
        struct err err = { 0 };
        cleanup(policy_freep) struct policy *policy = policy_make(text, &err);

        assert_null(policy);
        if (!strstr(err_text(&err), expected))
                fail_msg("%s: %s", text, err_text(&err));
}

static void test_policies(void **state) {
        (void)state;
        check_policy("bridge:\n  ghh: {}\n", "nothing is known of a tool 'ghh'; did you mean 'gh'?");
        check_policy("bridge:\n  gh: {}\n", "none is named");
        check_policy("bridge:\n  op: {}\n", "'op' prints secrets");
        check_policy("bridge:\n  pass: {}\n", "'pass' prints secrets");
        check_policy("bridge:\n  x:\n    verbs: [\"a --exec\"]\n    never: [\"--exec: runs\"]\n",
                     ":3:5: x: `never` refuses --exec");
        check_policy("bridge:\n  x:\n    verbs:\n      - a --x\n      - a --y\n", "is there twice");
        check_policy("bridge:\n  x:\n    verbs:\n      - a <no>\n", ":4:9: verbs: there is no type 'no'");
        check_policy("bridge:\n  x: { verbs: [a], program: gh }\n", "whole path");
        check_policy("bridge:\n  x:\n    verbs: [a]\n    ask: [b]\n", ":4:11: ask \"b\" meets no call of the tool 'x'");
        check_policy("bridge:\n  x:\n    verbs: [a --y]\n    ask: [a --z]\n", "meets no call");
        check_policy("bridge:\n  x:\n    verbs: [a]\n    ask: [\"a ;\"]\n", ":4:11: ask: ';' is neither a word");
        check_policy("bridge:\n  kubectl: { ask: [delete] }\n", "meets no call of the tool 'kubectl'");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cases),
                cmocka_unit_test(test_one_form),
                cmocka_unit_test(test_refusals_say_why),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_grammars),
                cmocka_unit_test(test_policies),
                cmocka_unit_test(test_what_is_asked_about),
        };
        return cmocka_run_group_tests(tests, setup, teardown);
}
