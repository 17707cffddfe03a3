/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_line.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

#include "../cmocka_all.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static struct audit_head head(void) {
        return (struct audit_head){ .run_id = "r1", .sandbox = "s1", .seq = 7, .prev = ZEROS };
}

static struct event request(void) {
        return (struct event){
                .wall_us = 1763176447000042,
                .connection = 3,
                .bytes_in = 1024,
                .bytes_out = 77,
                .duration_us = 12034,
                .rule = 0,
                .kind = EVENT_REQUEST,
                .via = VIA_HTTP,
                .scheme = SCHEME_HTTP,
                .reason = REASON_ALLOWED,
                .port = 80,
                .status = 200,
                .allowed = true,
                .addr = { ADDR_V4, { 93, 184, 216, 34 } },
                .domain = STR("plain.ok.test"),
                .method = STR("GET"),
                .path = STR("/index"),
                .swapped = STR("openai,github"),
        };
}

static void line_is_exactly_this(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX);
        struct audit_head h = head();
        struct event ev = request();
        const struct snapshot_rule rule = { STR("*.ok.test:80"), STR("policy.yaml:3"), LIST_ALLOW };
        assert_int_equal(audit_line_format(&out, &h, &ev, &rule), 0);
        assert_string_equal(
            buf_text(&out),
            "{\"ts\":\"2025-11-15T03:14:07.000042Z\",\"run_id\":\"r1\",\"sandbox\":\"s1\",\"seq\":7,\"kind\":"
            "\"request\","
            "\"method\":\"GET\",\"scheme\":\"http\",\"domain\":\"plain.ok.test\",\"port\":80,\"path\":\"/index\","
            "\"addr\":\"93.184.216.34\",\"allowed\":true,\"rule\":\"*.ok.test:80\",\"origin\":\"policy.yaml:3\","
            "\"whitelist_matched\":\"*.ok.test:80\",\"reason\":\"allowed\",\"status\":200,\"bytes_in\":1024,\"bytes_"
            "out\":77,"
            "\"duration_ms\":12.034,\"via\":\"http\",\"swapped\":[\"openai\",\"github\"],\"connection\":3,\"prev\":"
            "\"" ZEROS "\"}");
}

static void refusal_names_no_whitelist(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX);
        struct audit_head h = head();
        struct event ev = request();
        const struct snapshot_rule rule = { STR("gist.github.com"), STR("--deny"), LIST_DENY };
        ev.allowed = false;
        ev.reason = REASON_DENY_RULE;
        ev.addr.family = ADDR_NONE;
        ev.swapped = STR("");
        assert_int_equal(audit_line_format(&out, &h, &ev, &rule), 0);
        assert_null(strstr(buf_text(&out), "whitelist_matched"));
        assert_non_null(strstr(out.p,
                               "\"addr\":null,\"allowed\":false,\"rule\":\"gist.github.com\",\"origin\":\"--deny\","
                               "\"reason\":\"deny-rule\""));
        assert_non_null(strstr(out.p, "\"swapped\":[]"));
}

/* Whatever a string holds, the line stays one line, parses, and gives the string back. */
static void forged_text_stays_text(void **state) {
        (void)state;
        static const struct str evil[] = {
                { "/a\n{\"ts\":\"forged\"}", 17 },
                { "\",\"allowed\":true,\"x\":\"", 22 },
                { "\\", 1 },
                { "\\\",\"seq\":9", 10 },
                { "a\0b", 3 },
                { "\x1b[2J\x07", 5 },
                { "\r\nX", 3 },
                { "\xe2\x80\xae"
                  "evil",
                  7 },
                { "\x7f\x01", 2 },
        };
        for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
                cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX), back = BUF(AUDIT_LINE_MAX);
                struct audit_head h = head();
                struct event ev = request();
                struct audit_record record;
                struct err e = { 0 };
                ev.domain = ev.path = ev.method = ev.detail = evil[i];
                const struct snapshot_rule rule = { evil[i], evil[i], LIST_ALLOW };
                assert_int_equal(audit_line_format(&out, &h, &ev, &rule), 0);
                for (size_t k = 0; k < out.n; k++)
                        assert_true((unsigned char)out.p[k] >= 0x20 && out.p[k] != 0x7f);
                assert_int_equal(audit_line_parse(buf_str(&out), &record, &e), 0);
                assert_int_equal(record.seq, 7);
                assert_true(str_is(record.prev, ZEROS));
                struct str texts[] = { record.domain, record.path, record.method,
                                       record.detail, record.rule, record.origin };
                for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
                        buf_clear(&back);
                        assert_int_equal(audit_unescape(&back, texts[k]), 0);
                        assert_true(str_eq(buf_str(&back), evil[i]));
                }
        }
}

static void longest_event_fits(void **state) {
        (void)state;
        char text[EVENT_TEXT_MAX];
        memset(text, 1, sizeof text);
        cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX);
        struct audit_head h = head();
        struct event ev = request();
        struct audit_record record;
        ev.domain = ev.path = ev.method = ev.detail = ev.swapped = str_n(text, sizeof text);
        assert_int_equal(audit_line_format(&out, &h, &ev, NULL), 0);
        assert_int_equal(audit_line_parse(buf_str(&out), &record, NULL), 0);
}

static void note_has_only_what_it_needs(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX);
        struct audit_head h = head();
        struct event ev = { .kind = EVENT_NOTE, .detail = STR("started") };
        struct audit_record record;
        assert_int_equal(audit_line_format(&out, &h, &ev, NULL), 0);
        assert_string_equal(buf_text(&out),
                            "{\"ts\":\"1970-01-01T00:00:00.000000Z\",\"run_id\":\"r1\",\"sandbox\":\"s1\",\"seq\":7,"
                            "\"kind\":\"note\",\"detail\":\"started\",\"prev\":\"" ZEROS "\"}");
        assert_int_equal(audit_line_parse(buf_str(&out), &record, NULL), 0);
        assert_false(record.has_allowed);
}

static void numbers_come_back(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(AUDIT_LINE_MAX);
        struct audit_head h = head();
        struct event ev = request();
        struct audit_record r;
        h.seq = UINT64_MAX;
        ev.bytes_in = UINT64_MAX;
        ev.bytes_out = 0;
        assert_int_equal(audit_line_format(&out, &h, &ev, NULL), 0);
        assert_int_equal(audit_line_parse(buf_str(&out), &r, NULL), 0);
        assert_true(r.seq == UINT64_MAX && r.bytes_in == UINT64_MAX && r.bytes_out == 0);
        assert_int_equal(r.duration_us, 12034);
        assert_int_equal(r.port, 80);
        assert_int_equal(r.status, 200);
        assert_int_equal(r.connection, 3);
        assert_true(r.allowed && r.has_allowed);
}

/* A whole record but for its number and what stands before its end. */
#define NOTE(seq, end)                                                                                                 \
        ("{\"ts\":\"a\",\"run_id\":\"r\",\"sandbox\":\"s\",\"seq\":" seq ",\"kind\":\"note\",\"prev\":\"" ZEROS        \
         "\"" end "}")

static void malformed_lines_are_refused(void **state) {
        (void)state;
        static const char *const bad[] = {
                "",
                "{}",
                "[]",
                "{\"ts\":1}",
                "{\"ts\":\"a\",\"ts\":\"b\"}",
                "{\"ts\": \"a\"}",
                "{\"ts\":\"a\"}x",
                "{\"ts\":\"a\\x\"}",
                "{\"ts\":\"a\\u12g4\"}",
                "{\"ts\":\"a",
                "{\"a\":{\"b\":1}}",
                "{\"a\":[1]}",
                "{\"a\":-1}",
                "{\"a\":1.}",
                "{\"ts\":\"a\",\"run_id\":\"r\",\"sandbox\":\"s\",\"seq\":1,\"kind\":\"note\"}",
                "{\"ts\":\"a\",\"run_id\":\"r\",\"sandbox\":\"s\",\"seq\":1,\"kind\":\"note\",\"prev\":\"short\"}",
                NOTE("99999999999999999999", ""),
                NOTE("1.5", ""),
                NOTE("-1", ""),
                NOTE("1", ","),
        };
        struct audit_record whole;
        assert_int_equal(audit_line_parse(str_of(NOTE("1", "")), &whole, NULL), 0);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                struct audit_record record;
                struct err e = { 0 };
                assert_int_equal(audit_line_parse(str_of(bad[i]), &record, &e), -EBADMSG);
                assert_true(e.text[0] != '\0');
        }
}

static void ids(void **state) {
        (void)state;
        assert_true(audit_id_valid("a-B_9"));
        assert_false(audit_id_valid(""));
        assert_false(audit_id_valid("a b"));
        assert_false(audit_id_valid("a\"b"));
        assert_false(audit_id_valid("a/b"));
        assert_false(audit_id_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(line_is_exactly_this),        cmocka_unit_test(refusal_names_no_whitelist),
                cmocka_unit_test(forged_text_stays_text),      cmocka_unit_test(longest_event_fits),
                cmocka_unit_test(note_has_only_what_it_needs), cmocka_unit_test(numbers_come_back),
                cmocka_unit_test(malformed_lines_are_refused), cmocka_unit_test(ids),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
