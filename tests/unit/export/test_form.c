/* SPDX-License-Identifier: Apache-2.0 */
/* Records as syslog (RFC 5424) and OTLP want them. */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "conf/json.h"
#include "export/record_form.h"

#include <errno.h>

#define RECORD(kind, more)                                                                                             \
        "{\"seq\":7,\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\","                    \
        "\"ts\":\"2026-11-15T03:14:15.926535Z\",\"run_id\":\"r1\",\"sandbox\":\"s1\",\"kind\":\"" kind "\"" more "}"

static const struct export_form form = { .host = "example host", .pid = 42 };
static const char allowed[] = RECORD("network", ",\"domain\":\"a.example.com\",\"port\":443,\"allowed\":true");
static const char refused[] = RECORD("network", ",\"domain\":\"b.example.com\",\"port\":443,\"allowed\":false");
static const char note[] = RECORD("note", ",\"detail\":\"<script>\\u001b[2J\"");

static void syslog_message(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(65536);

        assert_int_equal(form_syslog(&form, str_of(allowed), 0, &out), 0);
        const char *text = buf_text(&out);
        static const char head[] = "<110>1 2026-11-15T03:14:15.926535Z examplehost bailey 42 network "
                                   "[bailey@32473 run=\"r1\" sandbox=\"s1\" seq=\"7\"] ";
        assert_int_equal(strncmp(text, head, sizeof head - 1), 0);
        assert_string_equal(text + sizeof head - 1, allowed);

        buf_clear(&out);
        assert_int_equal(form_syslog(&form, str_of(refused), 0, &out), 0);
        assert_int_equal(strncmp(buf_text(&out), "<108>1 ", 7), 0); /* a warning */
}

static void syslog_is_cut(void **state) {
        (void)state;
        for (size_t max = 1; max < 400; max++) {
                cleanup(buf_done) struct buf out = BUF(65536);

                assert_int_equal(form_syslog(&form, str_of(note), max, &out), 0);
                bool cut = strstr(buf_text(&out), " cut=\"1\"]") != NULL;
                assert_true(cut == !strstr(buf_text(&out), note));
                assert_true(max < 150 || out.n <= max);
        }
}

static void what_is_no_record(void **state) {
        (void)state;
        static const char *const lines[] = { "", "{}", "null", "[1]", "{\"seq\":7}", "text", "{\"seq\":\"7\"" };

        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
                cleanup(buf_done) struct buf out = BUF(65536);
                const struct str line = str_of(lines[i]);
                size_t bad = 9;

                assert_int_equal(form_syslog(&form, line, 0, &out), -EBADMSG);
                assert_int_equal(out.n, 0);
                assert_int_equal(form_otlp(&form, &line, 1, &out, &bad), 0);
                assert_int_equal(bad, 1);
        }
}

static void otlp_request(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(65536), small = BUF(100);
        cleanup(document_freep) struct document *document = NULL;
        const struct str lines[] = { str_of(allowed), STR("{}"), str_of(refused), str_of(note) };
        size_t bad = 0;

        assert_int_equal(form_otlp(&form, lines, 4, &out, &bad), 0);
        assert_int_equal(bad, 1);
        assert_int_equal(json_read(buf_str(&out), STR("otlp"), &document, NULL), 0);
        const char *text = buf_text(&out);
        assert_non_null(strstr(text, "\"timeUnixNano\":\"1794712455926535000\""));
        assert_non_null(strstr(text, "\"severityText\":\"WARN\""));
        assert_null(strstr(text, "\033"));
        size_t records = 0;
        for (const char *at = text; (at = strstr(at, "\"timeUnixNano\"")); at++)
                records++;
        assert_int_equal(records, 3);
        assert_true(form_otlp(&form, lines, 4, &small, &bad) < 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(syslog_message),
                cmocka_unit_test(syslog_is_cut),
                cmocka_unit_test(what_is_no_record),
                cmocka_unit_test(otlp_request),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
