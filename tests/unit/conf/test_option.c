/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/option.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include "../cmocka_all.h"

#include <errno.h>

static const char *const colours[] = { "red", "green", "blue", NULL };
enum { QUIET, FENCE, NAME, COUNT, SIZE, WAIT, COLOUR, ITEM, SETTING, HIDDEN, ROWS };
static const struct option rows[ROWS] = {
        [QUIET] = { .flag = "quiet", .letter = 'q', .type = OPTION_FLAG, .help = "say less" },
        [FENCE] = { .flag = "fence", .type = OPTION_FLAG, .fallback = "true", .help = "stand without a fence" },
        [NAME] = { .flag = "name", .letter = 'n', .env = "BAILEY_TEST_NAME", .type = OPTION_STRING, .metavar = "NAME" },
        [COUNT] = { .flag = "count", .type = OPTION_INTEGER, .min = 1, .max = 10, .fallback = "3", .help = "how many" },
        [SIZE] = { .flag = "size", .type = OPTION_SIZE, .help = "how large" },
        [WAIT] = { .flag = "wait", .type = OPTION_DURATION, .min = 0, .max = 60 * (int64_t)NS_PER_SECOND },
        [COLOUR] = { .flag = "colour", .type = OPTION_CHOICE, .choices = colours, .help = "one of" },
        [ITEM] = { .flag = "item",
                   .key = "a.items",
                   .env = "BAILEY_TEST_ITEM",
                   .type = OPTION_LIST,
                   .metavar = "ITEM",
                   .help = "a thing with a long explanation that does not fit on one line of a narrow terminal" },
        [SETTING] = { .flag = "set", .type = OPTION_MAP },
        [HIDDEN] = { .key = "a.hidden", .type = OPTION_STRING, .help = "only in files" },
};
static const struct option_table table = { .title = "Things", .rows = rows, .n = ROWS };
static const struct option_table *const tables[] = { &table };

#define ARGC(argv) ((int)(sizeof(argv) / sizeof((argv)[0])))
#define PARSE(v, used, e, ...)                                                                                         \
        ({                                                                                                             \
                const char *words[] = { "prog", ##__VA_ARGS__ };                                                       \
                option_parse_args(tables, 1, ARGC(words), (char **)words, (v), (used), (e));                           \
        })

static void checks_values(void **state) {
        (void)state;
        static const struct {
                int row;
                const char *text;
                int result;
                uint64_t number;
                const char *says;
        } cases[] = {
                { QUIET, "true", 0, 1, NULL },
                { QUIET, "off", 0, 0, NULL },
                { QUIET, "maybe", -EINVAL, 0, "'maybe' is not true or false" },
                { COUNT, "10", 0, 10, NULL },
                { COUNT, "11", -ERANGE, 0, "'11' is out of range: 1 to 10" },
                { COUNT, "-1", -EINVAL, 0, "'-1' is not a whole number" },
                { COUNT, "", -EINVAL, 0, "a value is missing: a whole number is expected" },
                { COUNT, "99999999999999999999", -EINVAL, 0, "is not a whole number" },
                { SIZE, "0", 0, 0, NULL },
                { SIZE, "2GiB", 0, 2ULL << 30, NULL },
                { SIZE, "512m", 0, 512ULL << 20, NULL },
                { SIZE, "1 MB", 0, 1000000, NULL },
                { SIZE, "GiB", -EINVAL, 0, "'GiB' is not a size" },
                { SIZE, "9223372036854775807TiB", -EINVAL, 0, "is not a size" },
                { SIZE, "1.5GiB", -EINVAL, 0, "is not a size" },
                { WAIT, "10s", 0, 10 * NS_PER_SECOND, NULL },
                { WAIT, "5m", -ERANGE, 0, "'5m' is out of range: 0s to 1m" },
                { WAIT, "soon", -EINVAL, 0, "'soon' is not a duration such as" },
                { COLOUR, "green", 0, 1, NULL },
                { COLOUR, "gren", -EINVAL, 0, "'gren' is not one of red, green, blue; did you mean 'green'?" },
                { COLOUR, "violet", -EINVAL, 0, "'violet' is not one of red, green, blue" },
                { SETTING, "A=b=c", 0, 0, NULL },
                { SETTING, "=b", -EINVAL, 0, "'=b' is not NAME=VALUE" },
                { NAME, "", 0, 0, NULL },
                { NAME, "\x1b[2J", 0, 0, NULL },
                { COUNT, "\x1b[2J", -EINVAL, 0, "'\\x1b[2J' is not a whole number" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                struct err e = { 0 };
                struct str text = str_of(cases[i].text);
                assert_int_equal(option_check(&rows[cases[i].row], text, &e), cases[i].result);
                if (cases[i].result == 0)
                        assert_int_equal(option_number(&rows[cases[i].row], text), cases[i].number);
                else
                        assert_non_null(strstr(e.text, cases[i].says));
        }
        assert_int_equal(option_check(&rows[NAME], str_n("a\0b", 3), NULL), -EINVAL);
}

static void reads_words(void **state) {
        (void)state;
        cleanup(option_values_done) struct option_values v = { 0 };
        struct err e = { 0 };
        int used = -1;
        assert_int_equal(PARSE(&v, &used, &e, "--quiet", "--name", "joe", "--item=a", "--item", "b", "-n", "ann",
                               "--no-fence", "--size=1K", "--", "--item", "c"),
                         0);
        assert_int_equal(used, 11);
        assert_true(option_get_flag(&v, &rows[QUIET]));
        assert_false(option_get_flag(&v, &rows[FENCE]));
        assert_string_equal(option_get(&v, &rows[NAME]), "ann");
        assert_int_equal(option_get_number(&v, &rows[SIZE]), 1024);
        assert_int_equal(option_get_number(&v, &rows[COUNT]), 3); /* the default */
        assert_false(option_given(&v, &rows[COUNT]));
        size_t at = 0;
        const struct option_value *value = option_next(&v, &rows[ITEM], &at);
        assert_string_equal(value->text, "a");
        assert_string_equal(value->origin, "--item");
        assert_string_equal(option_next(&v, &rows[ITEM], &at)->text, "b");
        assert_null(option_next(&v, &rows[ITEM], &at));
}

static void stops_at_the_command(void **state) {
        (void)state;
        cleanup(option_values_done) struct option_values v = { 0 };
        int used = -1;
        assert_int_equal(PARSE(&v, &used, NULL, "-qnjoe", "ls", "--bogus"), 0);
        assert_int_equal(used, 1);
        assert_true(option_get_flag(&v, &rows[QUIET]));
        assert_string_equal(option_get(&v, &rows[NAME]), "joe");
        assert_int_equal(PARSE(&v, &used, NULL, "-"), 0); /* a word like any other */
        assert_int_equal(used, 0);
        assert_int_equal(PARSE(&v, &used, NULL), 0);
        assert_int_equal(used, 0);
}

static void refuses_words(void **state) {
        (void)state;
        static const struct {
                const char *word, *says;
        } cases[] = {
                { "--itme", "unknown option '--itme'; did you mean '--item'?" },
                { "--itme=x", "unknown option '--itme'; did you mean '--item'?" },
                { "--zzzzzz", "unknown option '--zzzzzz'" },
                { "--name", "--name needs a value: --name NAME" },
                { "-n", "-n needs a value: -n NAME" },
                { "-z", "unknown option '-z'" },
                { "--no-name", "unknown option '--no-name'" },
                { "--no-quiet=1", "--no-quiet takes no value" },
                { "--quiet=perhaps", "--quiet: 'perhaps' is not true or false" },
                { "--count=99", "--count: '99' is out of range: 1 to 10" },
                { "--\x1b]0;x", "unknown option '--\\x1b]0;x'" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                cleanup(option_values_done) struct option_values v = { 0 };
                struct err e = { 0 };
                int used;
                assert_true(PARSE(&v, &used, &e, cases[i].word) < 0);
                assert_string_equal(e.text, cases[i].says);
        }
}

static void reads_variables(void **state) {
        (void)state;
        cleanup(option_values_done) struct option_values v = { 0 };
        setenv("BAILEY_TEST_ITEM", "a, b,,c", 1);
        setenv("BAILEY_TEST_NAME", "", 1); /* empty: not given */
        assert_int_equal(option_parse_env(tables, 1, &v, NULL), 0);
        assert_int_equal(v.values.n, 3);
        assert_string_equal(v.values.p[1].text, "b");
        assert_string_equal(v.values.p[1].origin, "BAILEY_TEST_ITEM");
        unsetenv("BAILEY_TEST_ITEM");
        unsetenv("BAILEY_TEST_NAME");
}

static void helps(void **state) {
        (void)state;
        cleanup(buf_done) struct buf help = BUF(65536), man = BUF(65536);
        assert_int_equal(option_help(&help, tables, 1, 60), 0);
        const char *text = buf_text(&help);
        assert_non_null(
            strstr(text, "Things:\n  -q, --quiet       say less\n  --no-fence        stand without a fence\n"));
        assert_non_null(strstr(text, "  --count VALUE     how many (default 3)\n"));
        assert_non_null(strstr(text, "  --colour VALUE    one of: red, green, blue\n"));
        assert_null(strstr(text, "hidden"));
        struct str rest = buf_str(&help), line;
        while (str_split(&rest, '\n', &line))
                assert_true(line.n <= 60);
        assert_int_equal(option_man(&man, tables, 1), 0);
        text = buf_text(&man);
        assert_non_null(strstr(text, ".SS Things\n.TP\n.B \\-q, \\-\\-quiet\nsay less.\n"));
        assert_non_null(strstr(text, "File key:\n.B a.items.\nVariable:\n.B BAILEY_TEST_ITEM.\n"));
        assert_non_null(strstr(text, ".B a.hidden\nonly in files.\n"));
}

static void finds_rows(void **state) {
        (void)state;
        assert_ptr_equal(option_find(tables, 1, STR("a.items")), &rows[ITEM]);
        assert_ptr_equal(option_find(tables, 1, STR("item")), &rows[ITEM]);
        assert_ptr_equal(option_find(tables, 1, STR("BAILEY_TEST_NAME")), &rows[NAME]);
        assert_null(option_find(tables, 1, STR("")));
        assert_string_equal(option_name(&rows[HIDDEN]), "a.hidden");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(checks_values),        cmocka_unit_test(reads_words),
                cmocka_unit_test(stops_at_the_command), cmocka_unit_test(refuses_words),
                cmocka_unit_test(reads_variables),      cmocka_unit_test(helps),
                cmocka_unit_test(finds_rows),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
