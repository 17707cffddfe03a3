/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/json_walk.h"

#include "base/cleanup.h"

#include <errno.h>

#include "../cmocka_all.h"

static int list_scalar(void *arg, const struct json_scalar *scalar) {
        return buf_printf(arg, "%.*s=%.*s\n", STR_FMT(scalar->pointer), STR_FMT(scalar->raw));
}

static void every_scalar_has_its_pointer(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        const struct str text = STR(" {\"a\": [1, {\"b/~\": \"x\\\"y\"}, [] ], \"\": null, \"c\": -1.5e3, \"d\":{}}\n");

        assert_int_equal(json_walk(text, list_scalar, &out), 0);
        assert_string_equal(buf_text(&out), "/a/0=1\n/a/1/b~1~0=\"x\\\"y\"\n/=null\n/c=-1.5e3\n");
}

static void what_is_not_json_is_refused(void **state) {
        (void)state;
        static const char *const bad[] = { "",        "{",   "{\"a\"}", "{\"a\":1,}", "[1,]",     "[1 2]", "{a:1}",
                                           "'a'",     "\"a", "\"\\x\"", "\"\\u12\"",  "\"a\nb\"", "01",    "1.",
                                           "+1",      "1e",  "nul",     "tru",        "{} {}",    "[",     "\"\\",
                                           "{\"a\":", "[1}", "// x\n1", "NaN",        "{\"a\" 1}" };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                cleanup(buf_done) struct buf out = BUF(4096);
                if (json_walk(str_of(bad[i]), list_scalar, &out) != -EBADMSG)
                        fail_msg("%s was taken", bad[i]);
        }
        char deep[200];
        memset(deep, '[', sizeof deep);
        cleanup(buf_done) struct buf out = BUF(4096);
        assert_int_equal(json_walk(str_n(deep, sizeof deep), list_scalar, &out), -E2BIG);
}

static void strings_are_decoded(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);

        assert_int_equal(json_find(STR("{\"a\":\"\\u00e4\\n\\ud83d\\ude00\\ud800\\/\"}"), STR("/a"), &out), 0);
        assert_string_equal(buf_text(&out), "\u00e4\n\U0001F600\uFFFD/");
        assert_int_equal(json_find(STR("{\"a\":\"x\",\"a\":\"y\"}"), STR("/a"), &out), -ENOTUNIQ);
        assert_int_equal(json_find(STR("{\"a\":null,\"b\":\"\"}"), STR("/a"), &out), -ENOENT);
        assert_int_equal(json_find(STR("{\"a\":null,\"b\":\"\"}"), STR("/b"), &out), -ENOENT);
}

static int replace_secret(void *arg, const struct json_scalar *scalar, struct buf *out) {
        if (!str_eq(scalar->pointer, str_of(arg)))
                return 0;
        int r = json_quote(STR("new\"\\\n"), out);
        return r < 0 ? r : 1;
}

static void everything_else_stays(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        const struct str text = STR("{ \"x\":1.0,\t\"t\":{\"a\":\"old\", \"b\" : [ \"\\u0041\" ]} }\n");

        assert_int_equal(json_edit(text, replace_secret, (void *)"/t/a", &out), 0);
        assert_string_equal(buf_text(&out),
                            "{ \"x\":1.0,\t\"t\":{\"a\":\"new\\\"\\\\\\u000a\", \"b\" : [ \"\\u0041\" ]} }\n");
        buf_clear(&out);
        assert_int_equal(json_edit(text, replace_secret, (void *)"/nothing", &out), 0);
        assert_true(str_eq(buf_str(&out), text));
}

static void stars_stand_for_one_step(void **state) {
        (void)state;
        assert_true(json_pointer_matches(STR("/a/*/b"), STR("/a/x/b")));
        assert_false(json_pointer_matches(STR("/a/*/b"), STR("/a/x/y/b")));
        assert_false(json_pointer_matches(STR("/a/*"), STR("/a")));
        assert_true(json_pointer_matches(STR("/a"), STR("/a")));
        assert_false(json_pointer_matches(STR("/a"), STR("/a/b")));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_scalar_has_its_pointer), cmocka_unit_test(what_is_not_json_is_refused),
                cmocka_unit_test(strings_are_decoded),          cmocka_unit_test(everything_else_stays),
                cmocka_unit_test(stars_stand_for_one_step),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
