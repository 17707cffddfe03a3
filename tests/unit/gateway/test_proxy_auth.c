/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of a run as a client brings it: one form of it fits, everything near it does not. */
#include "gateway/wire/proxy_auth.h"

#include "base/base64.h"
#include "gateway/wire/socks5_wire.h"

#include "../cmocka_all.h"

#define SECRET "abcdefghijkmnopqrstuvwxyz0123456"

/* A request with these header lines, judged. */
static bool head_fits(const char *lines) {
        char text[4096];
        struct http1_progress progress = { 0 };
        static struct http1_request request;

        snprintf(text, sizeof text, "GET http://h.test/ HTTP/1.1\r\nHost: h.test\r\n%s\r\n", lines);
        assert_int_equal(http1_request_parse(&progress, str_of(text), 65536, &request), HTTP1_OK);
        return proxy_auth_head_fits(str_of(SECRET), &request.head);
}

static bool basic_fits(const char *name, const char *scheme, const char *plain) {
        char encoded[1024] = "", line[2048];

        base64_encode(str_of(plain), BASE64_STANDARD, encoded);
        snprintf(line, sizeof line, "%s: %s%s\r\n", name, scheme, encoded);
        return head_fits(line);
}

static void the_one_form_fits(void **state) {
        (void)state;
        assert_true(basic_fits("Proxy-Authorization", "Basic ", "bailey:" SECRET));
        assert_true(basic_fits("proxy-authorization", "bAsIc ", "bailey:" SECRET));
        assert_true(basic_fits("Proxy-Authorization", "Basic   ", "bailey:" SECRET));
}

static void nothing_near_it_fits(void **state) {
        (void)state;
        static const char *const wrong[] = { "bailey:" SECRET "7",
                                             "bailey:" SECRET ":",
                                             "bailey:",
                                             "bailey",
                                             "Bailey:" SECRET,
                                             ":" SECRET,
                                             SECRET,
                                             "",
                                             "bailey::" SECRET,
                                             "bailey:\n" SECRET,
                                             " bailey:" SECRET,
                                             "bailey:abcdefghijkmnopqrstuvwxyz012345",
                                             "bailey:Abcdefghijkmnopqrstuvwxyz0123456" };

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                assert_false(basic_fits("Proxy-Authorization", "Basic ", wrong[i]));

        assert_false(basic_fits("Proxy-Authorization", "Bearer ", "bailey:" SECRET));
        assert_false(basic_fits("Proxy-Authorization", "Basic", "bailey:" SECRET));
        assert_false(basic_fits("Proxy-Authorization", "", "bailey:" SECRET));
        assert_false(basic_fits("Authorization", "Basic ", "bailey:" SECRET));
        assert_false(basic_fits("Proxy-Authorisation", "Basic ", "bailey:" SECRET));
        assert_false(head_fits(""));
        assert_false(head_fits("Proxy-Authorization: Basic bailey:" SECRET "\r\n"));
        assert_false(head_fits("Proxy-Authorization:\r\n"));
}

static void two_headers_do_not_fit(void **state) {
        (void)state;
        char encoded[256] = "", lines[1024];

        base64_encode(STR("bailey:" SECRET), BASE64_STANDARD, encoded);
        snprintf(lines, sizeof lines, "Proxy-Authorization: Basic %s\r\nproxy-authorization: Basic %s\r\n", encoded,
                 encoded);
        assert_false(head_fits(lines));
        snprintf(lines, sizeof lines, "Proxy-Authorization: Basic eDp5\r\nProxy-Authorization: Basic %s\r\n", encoded);
        assert_false(head_fits(lines));
}

static void long_values_are_not_decoded(void **state) {
        (void)state;
        char plain[700];

        memset(plain, 'x', sizeof plain - 1);
        plain[sizeof plain - 1] = '\0';
        memcpy(plain, "bailey:" SECRET, sizeof "bailey:" SECRET - 1);
        assert_false(basic_fits("Proxy-Authorization", "Basic ", plain));
}

static void an_empty_secret_fits_nobody(void **state) {
        (void)state;
        assert_false(proxy_auth_fits(STR(""), STR("bailey"), STR("")));
        assert_true(proxy_auth_fits(STR(SECRET), STR("bailey"), STR(SECRET)));
        assert_false(proxy_auth_fits(STR(SECRET), STR("other"), STR(SECRET)));
}

static void passwords_of_socks5_are_read(void **state) {
        (void)state;
        struct str user, password;
        size_t used = 0;
        static const char whole[] = "\1\6bailey\3abcrest";

        assert_int_equal(socks5_password(str_n(whole, sizeof whole - 1), &used, &user, &password), SOCKS5_OK);
        assert_int_equal(used, 12);
        assert_true(str_is(user, "bailey") && str_is(password, "abc"));
        for (size_t n = 0; n < used; n++)
                assert_int_equal(socks5_password(str_n(whole, n), &used, &user, &password), SOCKS5_MORE);
        assert_int_equal(socks5_password(STR("\5\1\1"), &used, &user, &password), SOCKS5_BAD);

        struct socks5_methods methods;
        assert_int_equal(socks5_greeting(STR("\5\2\0\2"), &used, &methods), SOCKS5_OK);
        assert_true(methods.none && methods.password);
        assert_int_equal(socks5_greeting(STR("\5\1\2"), &used, &methods), SOCKS5_OK);
        assert_true(!methods.none && methods.password);
        assert_int_equal(socks5_greeting(STR("\5\2\1\3"), &used, &methods), SOCKS5_OK);
        assert_true(!methods.none && !methods.password);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_one_form_fits),           cmocka_unit_test(nothing_near_it_fits),
                cmocka_unit_test(two_headers_do_not_fit),      cmocka_unit_test(long_values_are_not_decoded),
                cmocka_unit_test(an_empty_secret_fits_nobody), cmocka_unit_test(passwords_of_socks5_are_read),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
