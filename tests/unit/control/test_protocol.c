/* SPDX-License-Identifier: Apache-2.0 */
#include "control/protocol.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdio.h>

#include "../cmocka_all.h"

static const char *document_path;

/* Every line of docs/control.md that is an example is read by the parser that will meet it. */
static void documented_examples_are_messages(void **state) {
        (void)state;
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        struct err e = { 0 };
        unsigned requests = 0, replies = 0, events = 0, seen = 0;
        assert_int_equal(path_read_file(document_path, 1 << 20, &text, &e), 0);
        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line)) {
                if (str_starts(line, STR("    C: "))) {
                        struct control_request q;
                        if (control_request_parse(str_skip(line, 7), &q, &e) < 0)
                                fail_msg("%.*s: %s", STR_FMT(line), e.text);
                        seen |= 1u << q.what;
                        requests++;
                } else if (str_starts(line, STR("    S: "))) {
                        struct control_message m;
                        if (control_message_parse(str_skip(line, 7), &m, &e) < 0)
                                fail_msg("%.*s: %s", STR_FMT(line), e.text);
                        *(m.is_event ? &events : &replies) += 1;
                        control_message_done(&m);
                }
        }
        assert_int_equal(seen, (1u << CONTROL_DOS) - 1); /* each request is shown */
        assert_true(requests == replies && events >= 12);
}

static void request_survives_writing(void **state) {
        (void)state;
        for (unsigned i = 0; i < CONTROL_DOS; i++) {
                cleanup(buf_done) struct buf out = BUF(CONTROL_LINE_MAX);
                struct control_request q = { .id = 7,
                                             .what = (enum control_do)i,
                                             .version = 1,
                                             .question = 3,
                                             .answer = ANSWER_ALLOW,
                                             .scope = SCOPE_ALWAYS },
                                       again;
                struct err e = { 0 };
                snprintf(q.client, sizeof q.client, "test \"quoted\"");
                snprintf(q.pattern, sizeof q.pattern, "*.example.com:443");
                assert_int_equal(control_request_write(&out, &q), 0);
                assert_true(out.p[out.n - 1] == '\n');
                assert_int_equal(control_request_parse(str_n(out.p, out.n - 1), &again, &e), 0);
                assert_int_equal(again.what, q.what);
                assert_int_equal(again.id, 7);
                if (i == CONTROL_ANSWER) {
                        assert_int_equal(again.question, 3);
                        assert_int_equal(again.answer, ANSWER_ALLOW);
                        assert_int_equal(again.scope, SCOPE_ALWAYS);
                }
                if (i == CONTROL_ALLOW)
                        assert_string_equal(again.pattern, q.pattern);
        }
}

static void defaults_of_scope(void **state) {
        (void)state;
        struct control_request q;
        assert_int_equal(control_request_parse(STR("{\"id\":1,\"do\":\"allow\",\"pattern\":\"a.b\"}"), &q, NULL), 0);
        assert_int_equal(q.scope, SCOPE_SANDBOX);
        assert_int_equal(
            control_request_parse(STR("{\"id\":1,\"do\":\"answer\",\"question\":1,\"answer\":\"deny\"}"), &q, NULL), 0);
        assert_int_equal(q.scope, SCOPE_ONCE);
}

static void malformed_requests_are_refused(void **state) {
        (void)state;
        static const char *const bad[] = {
                "",
                "{",
                "[]",
                "null",
                "{}",
                "{\"id\":1}",
                "{\"do\":\"status\"}",
                "{\"id\":\"1\",\"do\":\"status\"}",
                "{\"id\":-1,\"do\":\"status\"}",
                "{\"id\":1.5,\"do\":\"status\"}",
                "{\"id\":true,\"do\":\"status\"}",
                "{\"id\":1,\"do\":\"statu\"}",
                "{\"id\":1,\"do\":7}",
                "{\"id\":1,\"do\":\"status\",\"more\":1}",
                "{\"id\":1,\"id\":1,\"do\":\"status\"}",
                "{\"id\":1,\"do\":\"status\",\"pattern\":\"x\"}",
                "{\"id\":1,\"do\":\"hello\"}",
                "{\"id\":1,\"do\":\"hello\",\"version\":\"1\"}",
                "{\"id\":1,\"do\":\"allow\"}",
                "{\"id\":1,\"do\":\"allow\",\"pattern\":5}",
                "{\"id\":1,\"do\":\"allow\",\"pattern\":\"a\\u001bb\"}",
                "{\"id\":1,\"do\":\"allow\",\"pattern\":\"a.b\",\"scope\":\"ever\"}",
                "{\"id\":1,\"do\":\"answer\",\"question\":1}",
                "{\"id\":1,\"do\":\"answer\",\"question\":1,\"answer\":\"yes\"}",
                "{\"id\":1,\"do\":\"status\"} {}",
        };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                struct control_request q;
                struct err e = { 0 };
                if (control_request_parse(str_of(bad[i]), &q, &e) != -EINVAL || !e.text[0])
                        fail_msg("accepted: %s", bad[i]);
        }
}

static void id_is_known_for_the_reply(void **state) {
        (void)state;
        struct control_request q;
        assert_int_equal(control_request_parse(STR("{\"id\":9,\"do\":\"dance\"}"), &q, NULL), -EINVAL);
        assert_int_equal(q.id, 9);
}

static void faults_are_replies(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        struct control_message m;
        assert_int_equal(control_reply_fault(&out, 4, FAULT_INVALID, "a \"b\"\n"), 0);
        assert_int_equal(control_message_parse(str_n(out.p, out.n - 1), &m, NULL), 0);
        assert_true(!m.ok && m.id == 4 && str_is(m.fault, "invalid") && str_is(m.text, "a \"b\"\n"));
        control_message_done(&m);
}

int main(int argc, char **argv) {
        document_path = argc > 1 ? argv[1] : "docs/control.md";
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(documented_examples_are_messages),
                cmocka_unit_test(request_survives_writing),
                cmocka_unit_test(defaults_of_scope),
                cmocka_unit_test(malformed_requests_are_refused),
                cmocka_unit_test(id_is_known_for_the_reply),
                cmocka_unit_test(faults_are_replies),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
