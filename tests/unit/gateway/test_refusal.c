/* SPDX-License-Identifier: Apache-2.0 */
/* Our own answers, as HTTP/1 and HTTP/2 send them: status, reason, headers, text. */
#include "gateway/refusal.h"

#include "../cmocka_all.h"

#include <errno.h>

static struct authority target = { .host = { .kind = HOST_NAME, .name = "a.example", .name_n = 9 }, .port = 443 };

static void each_reason_has_its_status(void **state) {
        (void)state;
        static const struct {
                uint8_t reason;
                int error;
                unsigned status;
                bool by_rule;
        } cases[] = {
                { REASON_NOT_ALLOWED, 0, 403, true },
                { REASON_METHOD, 0, 405 },
                { REASON_PATH, 0, 403 },
                { REASON_BAD_NAME, 0, 400, true },
                { REASON_UPSTREAM, -EPIPE, 502 },
                { REASON_TIMEOUT, 0, 504 },
                { REASON_VAULT, 0, 503 },
                { REASON_LIMIT, -ENOMEM, 503 },
                { REASON_LIMIT, 0, 429 },
                { REASON_CREDENTIAL, 0, 403 },
                { REASON_RESOLVE, -ETIMEDOUT, 504 },
                { REASON_CERTIFICATE, 0, 502 },
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct verdict verdict = { .rule = RULE_NONE };
                const struct refused refused = {
                        .target = &target, .verdict = &verdict, .error = cases[i].error, .why = "why"
                };

                refusal_decide(&verdict, (enum reason)cases[i].reason);
                assert_int_equal(verdict.decision, DECISION_DENY);
                assert_int_equal(refusal_status(&verdict, cases[i].error), cases[i].status);
                if (cases[i].by_rule)
                        continue; /* its text has the rule, of a snapshot */

                struct refusal refusal = refusal_of(&refused);
                assert_int_equal(refusal.status, cases[i].status);
                assert_int_equal(refusal.reason, cases[i].reason);
                assert_true(refusal.text.n > 1 && refusal.text.p[refusal.text.n - 1] == '\n');
                assert_non_null(strstr(buf_text(&refusal.text), "a.example:443"));
                refusal_done(&refusal);
                assert_null(refusal.text.p);
        }
}

static void bytes_and_rests_say_why(void **state) {
        (void)state;
        struct verdict verdict = { .decision = DECISION_DENY, .reason = REASON_CREDENTIAL, .rule = RULE_NONE };
        const struct refused refused = { .target = &target, .verdict = &verdict, .why = "it is in the trailers" };

        struct refusal refusal = refusal_of_bytes(431, REASON_PROTOCOL, "Its header is too large");
        assert_int_equal(refusal.status, 431);
        assert_true(str_eq(buf_str(&refusal.text),
                           STR("Bailey did not forward this request: Its header is too large.\n"
                               "Sending the same bytes again will not help; the request itself must change.\n")));
        refusal_done(&refusal);

        refusal = refusal_of_rest(&refused);
        assert_int_equal(refusal.status, 403);
        assert_int_equal(refusal.reason, REASON_CREDENTIAL);
        assert_non_null(strstr(buf_text(&refusal.text), "was cut off: it is in the trailers."));
        assert_non_null(strstr(buf_text(&refusal.text), "its trailers were not."));
        refusal_done(&refusal);

        /* The chunk that goes over the limit is not sent. */
        const struct refused large = { .target = &target, .verdict = &verdict, .why = REFUSAL_LARGE_BODY };
        verdict.reason = REASON_LIMIT;
        refusal = refusal_of_rest(&large);
        assert_int_equal(refusal.status, 413);
        assert_non_null(strstr(buf_text(&refusal.text), "the rest was not."));
        assert_null(strstr(buf_text(&refusal.text), "trailers"));
        refusal_done(&refusal);

        verdict.reason = REASON_PROTOCOL;
        refusal = refusal_of_rest(&large);
        assert_int_equal(refusal.status, 400);
        assert_non_null(strstr(buf_text(&refusal.text), "the rest was not."));
        refusal_done(&refusal);
}

/* More than there is room for is left out, and the answer is one all the same. */
static void too_long_a_text_is_left_out(void **state) {
        (void)state;
        char what[REFUSAL_TEXT_MAX + 1];

        memset(what, 'x', sizeof what);
        what[sizeof what - 1] = '\0';
        struct refusal refusal = refusal_of_bytes(400, REASON_PROTOCOL, what);
        assert_int_equal(refusal.status, 400);
        assert_int_equal(refusal.text.n, 0);
        refusal_done(&refusal);
}

static void both_versions_have_the_same_headers(void **state) {
        (void)state;
        struct refusal_head head;

        refusal_head(&head, REASON_PATH, "text/plain", 1234);
        assert_true(str_eq(head.at[1].value, STR("1234")));
        assert_true(str_eq(head.at[3].name, STR("x-bailey-reason")));
        assert_true(str_eq(head.at[3].value, str_of(reason_code(REASON_PATH))));

        for (size_t i = 0; i < REFUSAL_HEADERS; i++) {
                assert_true(str_eq_nocase(head.at[i].name, head.at[i].lower));
                for (size_t k = 0; k < head.at[i].lower.n; k++)
                        assert_false(head.at[i].lower.p[k] >= 'A' && head.at[i].lower.p[k] <= 'Z');
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_reason_has_its_status),
                cmocka_unit_test(bytes_and_rests_say_why),
                cmocka_unit_test(too_long_a_text_is_left_out),
                cmocka_unit_test(both_versions_have_the_same_headers),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
