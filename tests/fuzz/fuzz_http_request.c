/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the bytes: split at any point the result is the same as whole, and a request that is accepted and written
 * out again is accepted again, means the same, and carries exactly one reading of its framing.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/http1.h"
#include "gateway/wire/proxy_auth.h"

enum { MAX = 4096 };

static bool is_final(enum http1_result r) {
        return r != HTTP1_MORE;
}

static void check_split(struct str in, enum http1_result whole, const struct http1_request *expected) {
        static struct http1_request again;
        struct http1_progress at = { 0 };
        enum http1_result r = HTTP1_MORE;
        for (size_t n = 1; n <= in.n && r == HTTP1_MORE; n++)
                r = http1_request_parse(&at, str_first(in, n), MAX, &again);
        FUZZ_CHECK(is_final(whole) == is_final(r));
        FUZZ_CHECK((whole == HTTP1_OK) == (r == HTTP1_OK));
        if (whole != HTTP1_OK)
                return;
        FUZZ_CHECK(again.head.bytes == expected->head.bytes);
        FUZZ_CHECK(again.head.n_headers == expected->head.n_headers);
        FUZZ_CHECK(again.head.body == expected->head.body && again.head.length == expected->head.length);
        FUZZ_CHECK(str_eq(again.method, expected->method) && str_eq(again.path, expected->path));
        FUZZ_CHECK(str_eq(again.authority, expected->authority) && str_eq(again.host, expected->host));
}

static void check_rewrite(const struct http1_request *r) {
        static struct http1_request again;
        if (r->form == FORM_AUTHORITY)
                return;
        struct authority to = { .host = { .name = "host.test", .name_n = 9 }, .port = 8080 };
        cleanup(buf_done) struct buf out = BUF(1 << 17);
        FUZZ_CHECK(http1_request_write(&out, r, &to, 80) == 0);
        struct http1_progress at = { 0 };
        FUZZ_CHECK(http1_request_parse(&at, buf_str(&out), 1 << 17, &again) == HTTP1_OK);
        FUZZ_CHECK(again.head.bytes == out.n);
        FUZZ_CHECK(str_eq(again.method, r->method));
        FUZZ_CHECK(str_is(again.host, "host.test:8080"));
        FUZZ_CHECK(again.head.body == r->head.body && again.head.length == r->head.length);
        FUZZ_CHECK(again.head.upgrade == r->head.upgrade && again.head.close == http1_request_is_last(r));
        FUZZ_CHECK(str_eq(http1_path_only(again.path),
                          r->path.n || !str_is(r->method, "OPTIONS") ? http1_path_only(r->path) : STR("*")));
        for (size_t i = 0; i < again.head.n_headers; i++)
                FUZZ_CHECK(again.head.headers[i].id != HEADER_PROXY && again.head.headers[i].id != HEADER_TE);
}

/* Who fits one secret fits no other, and nobody fits an empty one. */
static void check_secret(const struct http1_head *head) {
        bool fits = proxy_auth_head_fits(STR("abcdefghijkmnopqrstuvwxyz0123456"), head);
        FUZZ_CHECK(!proxy_auth_head_fits(STR(""), head));
        FUZZ_CHECK(!fits || !proxy_auth_head_fits(STR("abcdefghijkmnopqrstuvwxyz0123457"), head));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct http1_request request;
        struct str in = str_n(data, size);
        struct http1_progress at = { 0 };
        if (size == 0)
                return 0;
        enum http1_result r = http1_request_parse(&at, in, MAX, &request);
        FUZZ_CHECK((unsigned)r < HTTP1_RESULTS);
        if (r == HTTP1_OK) {
                FUZZ_CHECK(request.head.bytes <= size && request.head.bytes <= MAX);
                FUZZ_CHECK(memcmp(in.p + request.head.bytes - 4, "\r\n\r\n", 4) == 0);
                check_rewrite(&request);
                check_secret(&request.head);
        }
        check_split(in, r, &request);
        return 0;
}
