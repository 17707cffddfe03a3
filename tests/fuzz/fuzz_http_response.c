/* SPDX-License-Identifier: Apache-2.0 */
/* As for requests: the same result however split, and what is written to the client is accepted again and means the
 * same. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/http1.h"

enum { MAX = 4096 };

static void check_split(struct str in, enum http1_result whole, const struct http1_response *expected) {
        static struct http1_response again;
        struct http1_progress at = { 0 };
        enum http1_result r = HTTP1_MORE;
        for (size_t n = 1; n <= in.n && r == HTTP1_MORE; n++)
                r = http1_response_parse(&at, str_first(in, n), MAX, &again);
        FUZZ_CHECK((whole == HTTP1_MORE) == (r == HTTP1_MORE));
        FUZZ_CHECK((whole == HTTP1_OK) == (r == HTTP1_OK));
        if (whole != HTTP1_OK)
                return;
        FUZZ_CHECK(again.status == expected->status && again.head.bytes == expected->head.bytes);
        FUZZ_CHECK(again.head.body == expected->head.body && again.head.length == expected->head.length);
}

static void check_rewrite(const struct http1_response *r, bool head_method) {
        static struct http1_response again;
        enum http1_body body = http1_response_body(r, head_method);
        cleanup(buf_done) struct buf out = BUF(1 << 17);
        FUZZ_CHECK(http1_response_write(&out, r, body, true, "close") == 0);
        struct http1_progress at = { 0 };
        FUZZ_CHECK(http1_response_parse(&at, buf_str(&out), 1 << 17, &again) == HTTP1_OK);
        FUZZ_CHECK(again.head.bytes == out.n && again.status == r->status);
        FUZZ_CHECK(http1_response_body(&again, head_method) == body);
        if (body == BODY_LENGTH)
                FUZZ_CHECK(again.head.length == r->head.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct http1_response response;
        struct str in = str_n(data, size);
        struct http1_progress at = { 0 };
        if (size == 0)
                return 0;
        enum http1_result r = http1_response_parse(&at, in, MAX, &response);
        FUZZ_CHECK((unsigned)r < HTTP1_RESULTS);
        if (r == HTTP1_OK) {
                FUZZ_CHECK(response.head.bytes <= size && response.status >= 100 && response.status <= 599);
                check_rewrite(&response, false);
                check_rewrite(&response, true);
        }
        check_split(in, r, &response);
        return 0;
}
