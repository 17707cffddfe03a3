/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in, case by case; tests/integration/test_ui_security.py asks the server itself. */
#include "../cmocka_all.h"
#include "ui/ui_gate.h"

static const struct gate_session sessions[UI_SESSIONS_MAX] = { { "cookie-one", "header-one" },
                                                               { "cookie-two", "header-two" } };
static const struct gate_rules open_rules = { .port = 4711, .sessions = sessions, .n_sessions = UI_SESSIONS_MAX };
static const struct gate_rules shown_rules = {
        .port = 4711, .sessions = sessions, .n_sessions = UI_SESSIONS_MAX, .read_only = true
};

static struct gate_request good(const char *method) {
        return (struct gate_request){ .method = str_of(method),
                                      .host = STR("127.0.0.1:4711"),
                                      .origin = STR("http://127.0.0.1:4711"),
                                      .site = STR("same-origin"),
                                      .cookies = STR("a=b; bailey_ui=cookie-one"),
                                      .header = STR("header-one"),
                                      .content_type = STR("application/json; charset=utf-8"),
                                      .origin_form = true };
}

static void what_is_whole_passes(void **state) {
        (void)state;
        struct gate_request request = good("GET");

        assert_int_equal(gate_judge(&open_rules, &request), GATE_PASS);
        request = good("POST");
        assert_int_equal(gate_judge(&open_rules, &request), GATE_PASS);
        assert_int_equal(gate_judge(&shown_rules, &request), GATE_READ_ONLY);
}

static void each_part_is_needed(void **state) {
        (void)state;
        struct gate_request request;

#define CASE(field, value, verdict)                                                                                    \
        request = good("POST");                                                                                        \
        request.field = value;                                                                                         \
        assert_int_equal(gate_judge(&open_rules, &request), verdict)
        CASE(host, STR("evil.test:4711"), GATE_HOST);
        CASE(host, STR("127.0.0.1"), GATE_HOST);
        CASE(host, STR(""), GATE_HOST);
        CASE(origin, STR("http://localhost:4711"), GATE_ORIGIN);
        CASE(origin, STR("null"), GATE_ORIGIN);
        CASE(origin, STR(""), GATE_ORIGIN);
        CASE(site, STR("same-site"), GATE_SITE);
        CASE(site, STR("cross-site"), GATE_SITE);
        CASE(origin_form, false, GATE_TARGET);
        CASE(method, STR("PUT"), GATE_METHOD);
        CASE(method, STR("post"), GATE_METHOD);
        CASE(content_type, STR("text/plain"), GATE_TYPE);
        CASE(content_type, ((struct str){ 0 }), GATE_TYPE);
        CASE(cookies, ((struct str){ 0 }), GATE_SESSION);
        CASE(cookies, STR("bailey_ui="), GATE_SESSION);
        CASE(cookies, STR("xbailey_ui=cookie-one"), GATE_SESSION);
        CASE(cookies, STR("bailey_ui=cookie-one; bailey_ui=cookie-one"), GATE_SESSION);
        CASE(header, STR("header-two"), GATE_HEADER);
        CASE(header, STR(""), GATE_HEADER);
        CASE(header, ((struct str){ 0 }), GATE_HEADER);
#undef CASE
}

static void public_is_public_for_the_own_page_only(void **state) {
        (void)state;
        struct gate_request request = {
                .method = STR("GET"), .host = STR("localhost:4711"), .origin_form = true, .is_public = true
        };

        assert_int_equal(gate_judge(&open_rules, &request), GATE_PASS);
        request.site = STR("cross-site");
        assert_int_equal(gate_judge(&open_rules, &request), GATE_SITE);
}

/* Of a paired device: one host, TLS, another cookie, and a list of what it may ask for. */
static void a_device_has_its_own(void **state) {
        (void)state;
        static const struct gate_session session = { "cookie-one", "header-one" };
        static const struct gate_rules rules = {
                .port = 4711, .sessions = &session, .n_sessions = 1, .device_host = "192.0.2.5:4712"
        };
        struct gate_request request = good("POST");

        assert_int_equal(gate_judge(&rules, &request), GATE_HOST);
        request.host = STR("192.0.2.5:4712");
        assert_int_equal(gate_judge(&rules, &request), GATE_ORIGIN);
        request.origin = STR("http://192.0.2.5:4712");
        assert_int_equal(gate_judge(&rules, &request), GATE_ORIGIN);
        request.origin = STR("https://192.0.2.5:4712");
        assert_int_equal(gate_judge(&rules, &request), GATE_SESSION); /* the browser's cookie is none here */
        request.cookies = STR(GATE_DEVICE_COOKIE "=cookie-one");
        assert_int_equal(gate_judge(&rules, &request), GATE_PAIRED);
        request.is_paired = true;
        assert_int_equal(gate_judge(&rules, &request), GATE_PASS);
        request.header = STR("");
        assert_int_equal(gate_judge(&rules, &request), GATE_HEADER);
        request.cookies = STR(GATE_DEVICE_COOKIE "=");
        assert_int_equal(gate_judge(&rules, &request), GATE_SESSION);
}

static void every_verdict_has_words(void **state) {
        (void)state;
        for (int i = GATE_PASS + 1; i < GATE_VERDICTS; i++) {
                assert_in_range(gate_status((enum gate_verdict)i), 400, 499);
                assert_true(strlen(gate_text((enum gate_verdict)i)) > 10);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_whole_passes),
                cmocka_unit_test(each_part_is_needed),
                cmocka_unit_test(public_is_public_for_the_own_page_only),
                cmocka_unit_test(a_device_has_its_own),
                cmocka_unit_test(every_verdict_has_words),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
