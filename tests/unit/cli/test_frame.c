/* SPDX-License-Identifier: Apache-2.0 */
/* The frame with a table of verbs of its own: what reaches a verb, and what becomes of what it returns. */
#include "cli/frame.h"

#include "base/fd.h"

#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEEN_MAX = 1024 };
static char seen[SEEN_MAX];     /* what the verb was called with */
static int answer, answer_code; /* what it returns, and the code of its error (0 for none) */

static const char *const sizes[] = { "small", "large", NULL };
static const struct option rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "a flag" },
        { .flag = "size",
          .letter = 's',
          .type = OPTION_CHOICE,
          .metavar = "SIZE",
          .choices = sizes,
          .help = "a choice" },
};
static const struct option_table table = { "Options", rows, 2 };

static int record(const struct call *call, struct err *e) {
        int n = snprintf(seen, sizeof seen, "%s%s%s json=%d size=%s", call->parent ? call->parent->name : "",
                         call->parent ? "/" : "", call->verb->name, option_get_flag(&call->options, &rows[0]),
                         option_get(&call->options, &rows[1]) ? option_get(&call->options, &rows[1]) : "-");
        for (int i = 0; i < call->argc; i++)
                n += snprintf(seen + n, sizeof seen - (size_t)n, " [%s]", call->argv[i]);
        assert_null(call->argv[call->argc]);
        if (answer_code)
                err_set(e, answer_code, "it went wrong");
        return answer;
}

static const struct verb verb_plain = { .name = "plain",
                                        .help = "words",
                                        .synopsis = "WORD [WORD]",
                                        .tables = { &table },
                                        .min_words = 1,
                                        .max_words = 2,
                                        .run = record };
static const struct verb verb_launch = { .name = "launch",
                                         .help = "a command",
                                         .flags = VERB_COMMAND | VERB_PASSES_STATUS,
                                         .tables = { &table },
                                         .max_words = -1,
                                         .run = record };
static const struct verb verb_left = {
        .name = "left", .help = "left", .tables = { &table }, .max_words = -1, .run = record
};
static const struct verb verb_right = { .name = "right", .help = "right", .run = record };
static const struct verb *const subs[] = { &verb_left, &verb_right, NULL };
static const struct verb verb_pair = { .name = "pair", .help = "has verbs of its own", .subs = subs };
static const struct verb verb_secret = { .name = "secret", .help = "not shown", .flags = VERB_HIDDEN, .run = record };

const struct verb *const verbs[] = { &verb_plain, &verb_launch, &verb_pair, &verb_secret, NULL };
const size_t n_verbs = 4;
const char *const verb_group_titles[VERB_GROUPS] = { "One", "Two", "Three", "Four", "Five" };

/* Runs a command line; standard output and error go to files that `out` and `errors` then hold. */
static char out[8192], errors[8192];
static void take(int file, char *ret, size_t size) {
        ssize_t n = pread(file, ret, size - 1, 0);
        assert_true(n >= 0);
        ret[n] = 0;
        close(file);
}
static int call_frame(const char *line) {
        char words[512], *argv[32] = { 0 };
        int argc = 0;
        (void)snprintf(words, sizeof words, "%s", line);
        char *rest = words;
        for (char *word; (word = strsep(&rest, " "));)
                if (*word)
                        argv[argc++] = word;
        seen[0] = 0;
        fflush(stdout);
        int saved[2] = { dup(1), dup(2) }, files[2] = { memfd_create("out", 0), memfd_create("err", 0) };
        dup2(files[0], 1);
        dup2(files[1], 2);
        int status = frame_main(argc, argv);
        fflush(stdout);
        dup2(saved[0], 1);
        dup2(saved[1], 2);
        close(saved[0]);
        close(saved[1]);
        take(files[0], out, sizeof out);
        take(files[1], errors, sizeof errors);
        return status;
}

static void words_and_options(void **state) {
        (void)state;
        static const struct {
                const char *line, *seen;
        } good[] = {
                { "bailey plain a", "plain json=0 size=- [a]" },
                { "bailey plain --json a b", "plain json=1 size=- [a] [b]" },
                { "bailey plain a --json -s small b", "plain json=1 size=small [a] [b]" },
                { "bailey plain --size=large a --no-json", "plain json=0 size=large [a]" },
                { "bailey plain --json -- --json --", "plain json=1 size=- [--json] [--]" },
                { "bailey --color never plain a --log-level error", "plain json=0 size=- [a]" },
                { "bailey launch ls --json -la", "launch json=0 size=- [ls] [--json] [-la]" },
                { "bailey launch --json -- --size x", "launch json=1 size=- [--size] [x]" },
                { "bailey launch -- -- x", "launch json=0 size=- [--] [x]" },
                { "bailey launch", "launch json=0 size=-" },
                { "bailey pair left a --json b", "pair/left json=1 size=- [a] [b]" },
                { "bailey pair right", "pair/right json=0 size=-" },
                { "bailey secret", "secret json=0 size=-" },
        };
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
                assert_int_equal(call_frame(good[i].line), 0);
                assert_string_equal(seen, good[i].seen);
                assert_string_equal(errors, "");
        }
}

static void wrong_lines_reach_no_verb(void **state) {
        (void)state;
        static const struct {
                const char *line;
                int status;
                const char *says;
        } bad[] = {
                { "bailey plain", 2, "something is missing: bailey plain WORD [WORD]" },
                { "bailey plain a b c", 2, "\"c\" is one word too many" },
                { "bailey plain a --colour x", 2, "did you mean '--color'?" },
                { "bailey plain a --size middling", 2, "small" },
                { "bailey pair", 2, "say what to do" },
                { "bailey pair letf", 2, "did you mean 'left'?" },
                { "bailey secert", 2, "there is no verb" },
                { "bailey pair right x", 2, "one word too many" },
                { "bailey launch --sise small x", 120, "did you mean '--size'?" },
        };
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                assert_int_equal(call_frame(bad[i].line), bad[i].status);
                assert_string_equal(seen, "");
                assert_string_equal(out, "");
                assert_int_equal(strncmp(errors, "bailey: error: ", 15), 0);
                assert_non_null(strstr(errors, bad[i].says));
        }
        call_frame("bailey secert");
        assert_null(strstr(errors, "did you mean")); /* what is hidden is not offered */
}

/* A verb that hands on a command's status: its own failures move out of the way, the command's stay. */
static void bands_of_status(void **state) {
        (void)state;
        static const struct {
                const char *line;
                int answer, code, status;
        } rows_of_status[] = {
                { "bailey plain a", EXIT_CONFIG, EINVAL, 3 },       { "bailey plain a", EXIT_NO, 0, 1 },
                { "bailey launch x", EXIT_CONFIG, EINVAL, 121 },    { "bailey launch x", EXIT_UNAVAILABLE, EPERM, 122 },
                { "bailey launch x", EXIT_REFUSED, EPERM, 123 },    { "bailey launch x", EXIT_TIMEOUT, ETIMEDOUT, 124 },
                { "bailey launch x", EXIT_SYSTEM, EIO, 125 },       { "bailey launch x", 3, 0, 3 },
                { "bailey launch x", EXIT_NOT_FOUND, ENOENT, 127 }, { "bailey launch x", EXIT_SIGNAL + 9, 0, 137 },
        };
        for (size_t i = 0; i < sizeof rows_of_status / sizeof rows_of_status[0]; i++) {
                answer = rows_of_status[i].answer;
                answer_code = rows_of_status[i].code;
                assert_int_equal(call_frame(rows_of_status[i].line), rows_of_status[i].status);
                if (answer_code)
                        assert_non_null(strstr(errors, ": it went wrong\n"));
                else
                        assert_string_equal(errors, "");
        }
        answer = answer_code = 0;
}

static void help_shows_what_the_table_knows(void **state) {
        (void)state;
        assert_int_equal(call_frame("bailey --help"), 0);
        assert_non_null(strstr(out, "\nOne\n  plain     words\n"));
        assert_null(strstr(out, "secret"));
        assert_int_equal(call_frame("bailey plain --help"), 0);
        assert_string_equal(seen, "");
        assert_non_null(strstr(out, "Usage: bailey plain WORD [WORD]\n\nWords.\n"));
        assert_non_null(strstr(out, "-s, --size SIZE"));
        assert_int_equal(call_frame("bailey pair --help"), 0);
        assert_non_null(strstr(out, "  right     right\n"));
        assert_int_equal(call_frame("bailey pair left --help"), 0);
        assert_non_null(strstr(out, "Usage: bailey pair left "));
        assert_int_equal(call_frame("bailey launch x --help"), 0); /* the command's, not ours */
        assert_string_equal(seen, "launch json=0 size=- [x] [--help]");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(words_and_options),
                cmocka_unit_test(wrong_lines_reach_no_verb),
                cmocka_unit_test(bands_of_status),
                cmocka_unit_test(help_shows_what_the_table_knows),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
