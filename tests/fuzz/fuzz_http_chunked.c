/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body passes the same bytes however it is split; what passes is a chunked body without extensions and trailers,
 * which decodes to the same data as the original.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/http1.h"

enum { OUT_MAX = 1 << 20 };

static enum http1_result run(struct str in, size_t piece, bool bare, struct buf *out, size_t *ret_used) {
        struct http1_chunked c = { .bare = bare };
        struct str rest = in;
        while (rest.n > 0 && !c.done) {
                struct str part = str_first(rest, piece), span;
                size_t had = part.n;
                enum http1_result r;
                while ((r = http1_chunked_next(&c, &part, &span)) == HTTP1_OK) {
                        FUZZ_CHECK(span.n > 0 && span.p >= in.p && span.p + span.n <= in.p + in.n);
                        FUZZ_CHECK(buf_append(out, span) == 0);
                }
                if (r != HTTP1_MORE)
                        return r;
                FUZZ_CHECK(c.done || part.n == 0);
                rest = str_skip(rest, had - part.n);
        }
        *ret_used = in.n - rest.n;
        return c.done ? HTTP1_OK : HTTP1_MORE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        cleanup(buf_done) struct buf whole = BUF(OUT_MAX), bytes = BUF(OUT_MAX), bare = BUF(OUT_MAX),
                                     again = BUF(OUT_MAX);
        size_t used = 0, used_bytes = 0, used_again = 0;
        enum http1_result r = run(in, size ? size : 1, false, &whole, &used);
        FUZZ_CHECK(r == run(in, 1, false, &bytes, &used_bytes));
        if (r != HTTP1_OK)
                return 0;
        FUZZ_CHECK(used == used_bytes && str_eq(buf_str(&whole), buf_str(&bytes)));
        FUZZ_CHECK(run(in, 3, true, &bare, &used) == HTTP1_OK);
        FUZZ_CHECK(run(buf_str(&whole), whole.n, true, &again, &used_again) == HTTP1_OK);
        FUZZ_CHECK(used_again == whole.n && str_eq(buf_str(&bare), buf_str(&again)));
        return 0;
}
