/* SPDX-License-Identifier: Apache-2.0 */
#include "base/emit.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

static void write_all_kinds(struct emit *json) {
        char *const words[] = { (char *)"a", (char *)"b" };

        emit_open(json, '{');
        emit_put_text(json, "text", "say \"x\"\n");
        emit_put_text(json, "none", NULL);
        emit_put_number(json, "number", UINT64_MAX);
        emit_put_bool(json, "yes", true);
        emit_put_texts(json, "words", words, 2);
        emit_put_texts(json, "empty", NULL, 0);
        emit_key(json, "raw");
        emit_raw(json, STR("-1"));
        emit_key_str(json, STR("list"));
        emit_open(json, '[');
        emit_null(json);
        emit_open(json, '{');
        emit_close(json);
        emit_raw(json, STR("{\"made\":1}"));
        emit_string(json, STR("end"));
        emit_close(json);
        emit_close(json);
}

static void writes_every_kind(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        struct emit json = emit_to(&out);

        write_all_kinds(&json);
        assert_int_equal(emit_status(&json), 0);
        assert_string_equal(buf_text(&out),
                            "{\"text\":\"say \\\"x\\\"\\n\",\"none\":null,\"number\":18446744073709551615,"
                            "\"yes\":true,\"words\":[\"a\",\"b\"],\"empty\":[],\"raw\":-1,"
                            "\"list\":[null,{},{\"made\":1},\"end\"]}");
}

static void puts_spaces_for_people(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        struct emit json = { .out = &out, .spaced = true };

        write_all_kinds(&json);
        assert_int_equal(emit_status(&json), 0);
        assert_string_equal(buf_text(&out),
                            "{\"text\": \"say \\\"x\\\"\\n\", \"none\": null, \"number\": 18446744073709551615, "
                            "\"yes\": true, \"words\": [\"a\", \"b\"], \"empty\": [], \"raw\": -1, "
                            "\"list\": [null, {}, {\"made\":1}, \"end\"]}");
}

/* Cut off at any byte: it says so, whatever is written afterwards. */
static void first_failure_sticks(void **state) {
        (void)state;
        cleanup(buf_done) struct buf whole = BUF(4096);
        struct emit all = emit_to(&whole);
        write_all_kinds(&all);

        for (size_t max = 1; max < whole.n; max++) {
                cleanup(buf_done) struct buf out = BUF(max);
                struct emit json = emit_to(&out);
                write_all_kinds(&json);
                assert_true(emit_status(&json) < 0);
                assert_true(out.n <= max);
        }
}

static void brackets_must_match(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        struct emit open = emit_to(&out), closed = emit_to(&out), deep = emit_to(&out);

        emit_open(&open, '[');
        assert_int_equal(emit_status(&open), -EINVAL);
        emit_close(&closed);
        assert_int_equal(emit_status(&closed), -EINVAL);

        for (int i = 0; i < EMIT_DEPTH_MAX + 1; i++)
                emit_open(&deep, '[');
        assert_int_equal(emit_status(&deep), -E2BIG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(writes_every_kind),
                cmocka_unit_test(puts_spaces_for_people),
                cmocka_unit_test(first_failure_sticks),
                cmocka_unit_test(brackets_must_match),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
