/* SPDX-License-Identifier: Apache-2.0 */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "bridge/callback_request.h"
#include "bridge/page.h"

#include <errno.h>

static void a_sign_in_names_its_callback(void **state) {
        struct page page;
        (void)state;

        assert_int_equal(
            page_parse(
                STR("https://login.test/a?redirect_uri=http%3A%2F%2Flocalhost%3A8085%2Fcb%3Fx%3D1&state=a%2Bb#f"),
                &page, NULL),
            0);
        assert_true(page.callback.wanted);
        assert_int_equal(page.callback.port, 8085);
        assert_string_equal(page.callback.host, "localhost");
        assert_string_equal(page.callback.path, "/cb");
        assert_string_equal(page.callback.state, "a+b");

        assert_int_equal(page_parse(STR("https://login.test?redirect_uri=http://[::1]:1455"), &page, NULL), 0);
        assert_true(page.callback.wanted && page.callback.v6);
        assert_string_equal(page.callback.path, "/");
        assert_string_equal(page.url, "https://login.test/?redirect_uri=http://[::1]:1455");
}

/* Pages whose answer goes elsewhere are pages, and nothing is opened for them. */
static void other_redirects_are_no_callback(void **state) {
        static const char *const urls[] = {
                "https://login.test/?redirect_uri=https%3A%2F%2Flocalhost%3A8085%2F",
                "https://login.test/?redirect_uri=http%3A%2F%2Fevil.test%3A8085%2F",
                "https://login.test/?redirect_uri=http%3A%2F%2Flocalhost.evil.test%3A8085%2F",
                "https://login.test/?redirect_uri=http%3A%2F%2F127.0.0.1.evil.test%3A8085%2F",
                "https://login.test/?x=1#redirect_uri=http%3A%2F%2Flocalhost%3A8085%2F",
                "https://login.test/"
        };
        struct page page;
        (void)state;

        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
                assert_int_equal(page_parse(str_of(urls[i]), &page, NULL), 0);
                assert_false(page.callback.wanted);
        }
}

/* Only a GET is carried inside: who would wait for a POST is told so at once. */
static void answers_by_post_are_refused(void **state) {
        static const char *const modes[] = { "form_post", "form_post.jwt", "form%5Fpost",
                                             "query&response_mode=form_post", "%00" };
        struct page page;
        (void)state;

        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
                struct err err = { 0 };
                cleanup(free_ptr) char *url = str_format(
                    "https://login.test/?response_mode=%s&redirect_uri=http%%3A%%2F%%2Flocalhost%%3A8085%%2Fcb",
                    modes[i]);

                assert_non_null(url);
                assert_int_equal(page_parse(str_of(url), &page, &err), -EINVAL);
                assert_non_null(strstr(err_text(&err), "response_mode=form_post"));
        }
        assert_int_equal(
            page_parse(STR("https://login.test/?response_mode=query&redirect_uri=http://localhost:8085/cb"), &page,
                       NULL),
            0);
        assert_true(page.callback.wanted);
        assert_int_equal(
            page_parse(STR("https://login.test/?response_mode=form_post&redirect_uri=https://a.test/cb"), &page, NULL),
            0);
}

static enum callback_verdict judge(const char *head, struct buf *out) {
        static const struct page_callback callback = {
                .wanted = true, .port = 8085, .host = "localhost", .path = "/cb", .state = "a+b"
        };

        return callback_judge(str_of(head), &callback, out);
}

static void one_request_is_carried(void **state) {
        cleanup(buf_done) struct buf out = BUF(CALLBACK_HEAD_MAX);
        (void)state;

        assert_int_equal(
            judge("GET /cb?code=1&state=a%2Bb HTTP/1.1\r\nhost: LOCALHOST:8085\r\nCookie: x\r\n\r\n", &out),
            CALLBACK_CARRY);
        assert_string_equal(buf_text(&out),
                            "GET /cb?code=1&state=a%2Bb HTTP/1.1\r\nHost: localhost:8085\r\nUser-Agent: "
                            "bailey\r\nAccept: */*\r\nConnection: close\r\n\r\n");
        assert_int_equal(judge("GET /cb?state=a%2Bb HTTP/1.1\r\nHost: localhost:8085\r\n", &out), CALLBACK_MORE);
        assert_int_equal(judge("GET /cb?state=a HTTP/1.1\r\nHost: localhost:8085\r\n\r\n", &out), CALLBACK_STATE);
        assert_int_equal(judge("GET /c%62?state=a%2Bb HTTP/1.1\r\nHost: localhost:8085\r\n\r\n", &out), CALLBACK_PATH);
        assert_int_equal(judge("GET /cb?state=a%2Bb HTTP/1.1\r\nHost: evil.test\r\n\r\n", &out), CALLBACK_HOST);
        assert_int_equal(judge("PUT /cb?state=a%2Bb HTTP/1.1\r\nHost: localhost:8085\r\n\r\n", &out), CALLBACK_METHOD);
        assert_int_equal(judge("GET /cb?state=a%2Bb HTTP/1.1\r\n\r\n", &out), CALLBACK_FORM);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_sign_in_names_its_callback),
                cmocka_unit_test(other_redirects_are_no_callback),
                cmocka_unit_test(answers_by_post_are_refused),
                cmocka_unit_test(one_request_is_carried),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
