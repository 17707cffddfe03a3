/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/http1.h"

#include "base/cleanup.h"

#include "../cmocka_all.h"

static struct http1_request request;
static struct http1_response response;

static enum http1_result parse(struct str bytes) {
        struct http1_progress at = { 0 };
        return http1_request_parse(&at, bytes, HTTP1_HEAD_MAX, &request);
}

static enum http1_result parse_response(struct str bytes) {
        struct http1_progress at = { 0 };
        return http1_response_parse(&at, bytes, HTTP1_HEAD_MAX, &response);
}

#define H "Host: a.test\r\n"
#define REQUEST(line, headers) STR(line "\r\n" H headers "\r\n")

static void refused_requests(void **state) {
        (void)state;
        static const struct {
                struct str bytes;
                enum http1_result result;
        } cases[] = {
                { STR("GET / HTTP/1.1\nHost: a\n\n"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\nHost: a\n\r\n"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\nHost: a\r\n\n"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\rHost: a\r\n\r\n"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\nHost: a\r\n\rX"), HTTP1_BAD_LINE },
                { STR("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n"), HTTP1_BAD_VALUE },
                { STR("GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n"), HTTP1_BAD_VALUE },
                { STR("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"), HTTP1_BAD_VALUE },
                { STR("GET / HTTP/1.1\r\nHost: a\r\nX: 1234567890123456\x1b[0m\r\n\r\n"), HTTP1_BAD_VALUE },
                { REQUEST("GET / HTTP/1.1", "X: a\r\n b\r\n"), HTTP1_FOLDED },
                { STR("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), HTTP1_FOLDED },
                { REQUEST("GET / HTTP/1.1", "X : a\r\n"), HTTP1_SPACE_BEFORE_COLON },
                { REQUEST("GET / HTTP/1.1", "X\t: a\r\n"), HTTP1_SPACE_BEFORE_COLON },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding : chunked\r\n"), HTTP1_SPACE_BEFORE_COLON },
                { REQUEST("GET / HTTP/1.1", ": a\r\n"), HTTP1_BAD_NAME },
                { REQUEST("GET / HTTP/1.1", "X(: a\r\n"), HTTP1_BAD_NAME },
                { REQUEST("GET / HTTP/1.1", "X\x80: a\r\n"), HTTP1_BAD_NAME },
                { REQUEST("GET / HTTP/1.1", "novalue\r\n"), HTTP1_BAD_LINE },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
                  HTTP1_LENGTH_AND_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
                  HTTP1_LENGTH_AND_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 5\r\nContent-Length: 5\r\n"), HTTP1_TWO_LENGTHS },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 5\r\ncontent-length: 6\r\n"), HTTP1_TWO_LENGTHS },
                { REQUEST("POST / HTTP/1.1", "Content-Length: +5\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: -5\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 5,5\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 5 5\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 0x5\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length:\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 9223372036854775808\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Content-Length: 99999999999999999999999\r\n"), HTTP1_BAD_LENGTH },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: chunked, gzip\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: identity\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: xchunked\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: chunked;q=1\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding:\r\n"), HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                  HTTP1_BAD_ENCODING },
                { REQUEST("POST / HTTP/1.0", "Transfer-Encoding: chunked\r\n"), HTTP1_BAD_ENCODING },
                { STR("GET /\r\n\r\n"), HTTP1_BAD_VERSION },
                { REQUEST("GET / HTTP/2.0", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET / HTTP/1.2", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET / http/1.1", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET / HTTP/1.1 ", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET / HTTP/1.10", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET /  HTTP/1.1", ""), HTTP1_BAD_VERSION },
                { REQUEST("GET  / HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST(" GET / HTTP/1.1", ""), HTTP1_BAD_METHOD },
                { STR("\r\nGET / HTTP/1.1\r\n" H "\r\n"), HTTP1_BAD_METHOD },
                { REQUEST("G(T / HTTP/1.1", ""), HTTP1_BAD_METHOD },
                { REQUEST("AAAAAAAAAABBBBBBBBBBCCCCCCCCCCDDD / HTTP/1.1", ""), HTTP1_BAD_METHOD },
                { STR("\x16\x03\x01\x02\x00"), HTTP1_BAD_METHOD },
                { REQUEST("GET foo HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET * HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET ftp://a.test/ HTTP/1.1", ""), HTTP1_BAD_SCHEME },
                { REQUEST("GET http:///x HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET http://a.test/#f HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET /a\\b HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET /<x> HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET /\xc3\xa9 HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { REQUEST("GET /\x01 HTTP/1.1", ""), HTTP1_BAD_TARGET },
                { STR("GET / HTTP/1.1\r\nX: a\r\n\r\n"), HTTP1_HOST_MISSING },
                { STR("GET / HTTP/1.1\r\n" H H "\r\n"), HTTP1_HOST_TWICE },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                enum http1_result r = parse(cases[i].bytes);
                if (r != cases[i].result)
                        fail_msg("case %zu: %s, expected %s", i, http1_result_text(r),
                                 http1_result_text(cases[i].result));
        }
}

static void accepted_request(void **state) {
        (void)state;
        struct str bytes =
            STR("POST http://A.test:8080/p/q?x=\\y HTTP/1.1\r\nHost: a.test:8080\r\nContent-Length: 5\r\n"
                "Accept:  text/html ;q=1\t \r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nEmpty:\r\n"
                "Expect: 100-continue\r\n\r\nhello");
        assert_int_equal(parse(bytes), HTTP1_OK);
        assert_int_equal(request.form, FORM_ABSOLUTE);
        assert_true(str_is(request.method, "POST"));
        assert_true(str_is(request.authority, "A.test:8080"));
        assert_true(str_is(request.path, "/p/q?x=\\y"));
        assert_true(str_is(http1_path_only(request.path), "/p/q"));
        assert_true(str_is(request.host, "a.test:8080"));
        assert_int_equal(request.head.body, BODY_LENGTH);
        assert_int_equal(request.head.length, 5);
        assert_true(request.head.close && request.expect_continue && !request.head.upgrade);
        assert_int_equal(request.head.bytes, bytes.n - 5);
        assert_true(str_is(request.head.headers[2].value, "text/html ;q=1"));
        assert_true(request.head.headers[4].hop);
        assert_int_equal(request.head.headers[5].value.n, 0);
}

static void forms(void **state) {
        (void)state;
        assert_int_equal(parse(STR("CONNECT a.test:443 HTTP/1.0\r\n\r\n")), HTTP1_OK);
        assert_int_equal(request.form, FORM_AUTHORITY);
        assert_true(request.head.close);
        assert_int_equal(parse(STR("CONNECT a.test:443 HTTP/1.1\r\n\r\n")), HTTP1_OK);
        assert_int_equal(parse(REQUEST("OPTIONS * HTTP/1.1", "")), HTTP1_OK);
        assert_int_equal(request.form, FORM_ASTERISK);
        assert_int_equal(parse(REQUEST("GET https://a.test/ HTTP/1.1", "")), HTTP1_OK);
        assert_true(request.https);
        assert_int_equal(parse(REQUEST("GET http://a.test?q HTTP/1.1", "")), HTTP1_OK);
        assert_true(str_is(request.path, "?q") && str_is(request.authority, "a.test"));
        assert_true(str_is(http1_path_only(request.path), "/"));
        assert_int_equal(parse(STR("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")), HTTP1_OK);
        assert_false(request.head.close);
}

static void upgrades(void **state) {
        (void)state;
        static const struct {
                struct str headers;
                bool passes;
        } cases[] = {
                { STR("Connection: Upgrade\r\nUpgrade: websocket\r\n"), true },
                { STR("Connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n"), true },
                { STR("Upgrade: websocket\r\n"), false },
                { STR("Connection: upgrade\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: h2c\r\n"), false },
                { STR("Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: HTTP/2.0\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: TLS/1.0\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n"), false },
                { STR("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n"), false },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf b = BUF(1024);
                buf_add(&b, "GET / HTTP/1.1\r\n" H);
                buf_append(&b, cases[i].headers);
                buf_add(&b, "\r\n");
                assert_int_equal(parse(buf_str(&b)), HTTP1_OK);
                assert_int_equal(request.head.upgrade, cases[i].passes);
                cleanup(buf_done) struct buf out = BUF(1024);
                struct authority to = { .host = { .name = "a.test", .name_n = 6 }, .port = 80 };
                assert_int_equal(http1_request_write(&out, &request, &to, 80), 0);
                assert_int_equal(strstr(buf_text(&out), "Upgrade: ") != NULL, cases[i].passes);
                assert_null(strstr(buf_text(&out), "HTTP2-Settings"));
        }
}

static void rewritten(void **state) {
        (void)state;
        assert_int_equal(
            parse(STR(
                "POST http://A.TEST./x HTTP/1.1\r\nAccept: a\r\nHost: a.test\r\nB: c\r\nProxy-Authorization: "
                "Basic x\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nConnection: x-secret, close\r\nX-Secret: "
                "1\r\nKeep-Alive: 5\r\nTransfer-Encoding: CHUNKED\r\nTrailer: X\r\nLast: 1\r\n\r\n")),
            HTTP1_OK);
        cleanup(buf_done) struct buf out = BUF(1024);
        struct authority to = { .host = { .name = "a.test", .name_n = 6 }, .port = 8080 };
        assert_int_equal(http1_request_write(&out, &request, &to, 80), 0);
        assert_string_equal(buf_text(&out), "POST /x HTTP/1.1\r\nHost: a.test:8080\r\nAccept: a\r\nB: c\r\nLast: 1\r\n"
                                            "Transfer-Encoding: chunked\r\n\r\n");
        assert_int_equal(parse(REQUEST("OPTIONS http://a.test HTTP/1.1", "")), HTTP1_OK);
        buf_clear(&out);
        to.port = 80;
        assert_int_equal(http1_request_write(&out, &request, &to, 80), 0);
        assert_string_equal(buf_text(&out), "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n");
}

/* However the bytes are split, the result is the same; before the last byte it is MORE or the refusal. */
static void split_anywhere(void **state) {
        (void)state;
        struct str bytes =
            STR("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n");
        for (size_t cut = 1; cut < bytes.n; cut++) {
                struct http1_progress at = { 0 };
                assert_int_equal(http1_request_parse(&at, str_first(bytes, cut), HTTP1_HEAD_MAX, &request), HTTP1_MORE);
                assert_int_equal(http1_request_parse(&at, bytes, HTTP1_HEAD_MAX, &request), HTTP1_OK);
                assert_int_equal(request.head.n_headers, 2);
        }
        struct http1_progress at = { 0 };
        for (size_t n = 1; n < bytes.n; n++)
                assert_int_equal(http1_request_parse(&at, str_first(bytes, n), HTTP1_HEAD_MAX, &request), HTTP1_MORE);
        assert_int_equal(http1_request_parse(&at, bytes, HTTP1_HEAD_MAX, &request), HTTP1_OK);
}

static void bounds(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(1 << 20);
        buf_add(&b, "GET / HTTP/1.1\r\n" H);
        for (int i = 0; i < 200; i++)
                buf_printf(&b, "X-%d: a\r\n", i);
        buf_add(&b, "\r\n");
        assert_int_equal(parse(buf_str(&b)), HTTP1_TOO_MANY);
        buf_clear(&b);
        buf_add(&b, "GET / HTTP/1.1\r\n" H "Connection: close");
        for (int i = 1; i < HTTP1_OPTIONS_MAX; i++)
                buf_add(&b, ",a");
        buf_add(&b, "\r\n\r\n");
        assert_int_equal(parse(buf_str(&b)), HTTP1_OK);
        b.n -= 4;
        buf_add(&b, ",a\r\n\r\n");
        assert_int_equal(parse(buf_str(&b)), HTTP1_TOO_MANY);
        buf_clear(&b);
        buf_add(&b, "GET / HTTP/1.1\r\n" H);
        for (int i = 0; i <= HTTP1_NAME_MAX; i++)
                buf_add_char(&b, 'a');
        assert_int_equal(parse(buf_str(&b)), HTTP1_BAD_NAME);
        buf_clear(&b);
        buf_add(&b, "GET / HTTP/1.1\r\n" H "X: ");
        while (b.n < HTTP1_HEAD_MAX)
                buf_add_char(&b, 'a');
        assert_int_equal(parse(buf_str(&b)), HTTP1_TOO_LARGE);
        buf_add(&b, "\r\n\r\n");
        assert_int_equal(parse(buf_str(&b)), HTTP1_TOO_LARGE);
        struct http1_progress at = { 0 };
        assert_int_equal(http1_request_parse(&at, str_first(buf_str(&b), 100), HTTP1_HEAD_MAX, &request), HTTP1_MORE);
        assert_int_equal(http1_request_parse(&at, buf_str(&b), HTTP1_HEAD_MAX, &request), HTTP1_TOO_LARGE);
}

static void responses(void **state) {
        (void)state;
        static const struct {
                struct str bytes;
                enum http1_result result;
        } cases[] = {
                { STR("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"), HTTP1_OK },
                { STR("HTTP/1.1 200\r\n\r\n"), HTTP1_OK },
                { STR("HTTP/1.0 200 \r\n\r\n"), HTTP1_OK },
                { STR("HTTP/1.1 2000 OK\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/1.1 20 OK\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/1.1  200 OK\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/1.1 099 OK\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/1.1 600 OK\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/2 200\r\n\r\n       "), HTTP1_BAD_VERSION },
                { STR("ICY 200 OK\r\n\r\n"), HTTP1_BAD_VERSION },
                { STR("HTTP/1.1 200 OK\n\n"), HTTP1_BAD_LINE },
                { STR("HTTP/1.1 200 O\x01K\r\n\r\n"), HTTP1_BAD_STATUS },
                { STR("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), HTTP1_TWO_LENGTHS },
                { STR("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
                  HTTP1_LENGTH_AND_ENCODING },
                { STR("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP1_BAD_ENCODING },
                { STR("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"), HTTP1_FOLDED },
                { STR("HTTP/1.1 200 OK\r\nX"), HTTP1_MORE },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                enum http1_result r = parse_response(cases[i].bytes);
                if (r != cases[i].result)
                        fail_msg("case %zu: %s, expected %s", i, http1_result_text(r),
                                 http1_result_text(cases[i].result));
        }
        assert_int_equal(parse_response(STR("HTTP/1.1 200 OK\r\n\r\n")), HTTP1_OK);
        assert_int_equal(http1_response_body(&response, false), BODY_UNTIL_CLOSE);
        assert_int_equal(http1_response_body(&response, true), BODY_NONE);
        assert_int_equal(parse_response(STR("HTTP/1.1 304 OK\r\nContent-Length: 9\r\n\r\n")), HTTP1_OK);
        assert_int_equal(http1_response_body(&response, false), BODY_NONE);
        assert_int_equal(parse_response(STR("HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")),
                         HTTP1_OK);
        assert_true(http1_response_switches(&response, STR("WebSocket")));
        assert_false(http1_response_switches(&response, STR("other")));
        assert_false(http1_response_switches(&response, STR("")));
        assert_int_equal(parse_response(STR("HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n")), HTTP1_OK);
        assert_false(http1_response_switches(&response, STR("websocket")));
}

/* Feeds piece by piece; what passes is collected. */
static enum http1_result dechunk(struct str in, size_t piece, bool bare, struct buf *out, size_t *ret_behind) {
        struct http1_chunked c = { .bare = bare };
        while (in.n > 0 && !c.done) {
                struct str part = str_first(in, piece), span;
                size_t had = part.n;
                enum http1_result r;
                while ((r = http1_chunked_next(&c, &part, &span)) == HTTP1_OK)
                        buf_append(out, span);
                if (r != HTTP1_MORE)
                        return r;
                in = str_skip(in, had - part.n);
        }
        *ret_behind = in.n;
        return c.done ? HTTP1_OK : HTTP1_MORE;
}

static void chunks(void **state) {
        (void)state;
        struct str in = STR("5;a=\"b c\"\r\nhello\r\n00A\r\n0123456789\r\n0;x\r\nX-T: 1\r\nY:2\r\n\r\nGET");
        for (size_t piece = 1; piece <= in.n; piece++) {
                cleanup(buf_done) struct buf framed = BUF(1024), bare = BUF(1024);
                size_t behind = 0;
                assert_int_equal(dechunk(in, piece, false, &framed, &behind), HTTP1_OK);
                assert_int_equal(behind, 3);
                assert_string_equal(buf_text(&framed), "5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n");
                assert_int_equal(dechunk(in, piece, true, &bare, &behind), HTTP1_OK);
                assert_string_equal(buf_text(&bare), "hello0123456789");
        }
        static const char *const bad[] = {
                "\r\n",
                "g\r\n",
                "5 \r\nhello",
                " 5\r\n",
                "5\nhello",
                "5\r\nhelloX",
                "5\r\nhello\n",
                "0x5\r\n",
                "-1\r\n",
                "8000000000000000\r\n",
                "ffffffffffffffff\r\n",
                "00000000000000005\r\n",
                "5;\x01\r\n",
                "5;a\nb\r\n",
                "0\r\nX\r\n",
                "0\r\n X: 1\r\n",
                "0\r\nX : 1\r\n",
                "0\r\nX: 1\n\r\n",
                "0\r\n\n",
                "0\r\n\rX",
                "5;a\rb",
        };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                cleanup(buf_done) struct buf out = BUF(1024);
                size_t behind;
                if (dechunk(str_of(bad[i]), 64, false, &out, &behind) != HTTP1_BAD_CHUNK)
                        fail_msg("chunk case %zu was not refused", i);
        }
        cleanup(buf_done) struct buf long_line = BUF(1 << 16), out = BUF(1 << 16);
        buf_add(&long_line, "5;");
        for (int i = 0; i < 300; i++)
                buf_add_char(&long_line, 'a');
        size_t behind;
        assert_int_equal(dechunk(buf_str(&long_line), 7, false, &out, &behind), HTTP1_BAD_CHUNK);
        buf_clear(&long_line);
        buf_add(&long_line, "0\r\nX: ");
        for (int i = 0; i < HTTP1_TRAILER_MAX; i++)
                buf_add_char(&long_line, 'a');
        assert_int_equal(dechunk(buf_str(&long_line), 4096, false, &out, &behind), HTTP1_TOO_LARGE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(refused_requests),
                cmocka_unit_test(accepted_request),
                cmocka_unit_test(forms),
                cmocka_unit_test(upgrades),
                cmocka_unit_test(rewritten),
                cmocka_unit_test(split_anywhere),
                cmocka_unit_test(bounds),
                cmocka_unit_test(responses),
                cmocka_unit_test(chunks),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
