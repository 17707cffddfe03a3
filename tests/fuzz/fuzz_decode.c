/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the coding, the rest is a body. Whatever it is: in small pieces and through small room it
 * gives the same bytes and the same end as whole, and it never gives more than it may.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/decode.h"

#include <string.h>

enum { OUT_MAX = 1 << 20 };

struct result {
        struct buf out;
        ssize_t error;
        bool whole;
};

static struct result run(enum coding coding, struct str in, size_t piece, size_t room) {
        struct result r = { .out = BUF(OUT_MAX) };
        struct decoder *d = NULL;
        static char text[65536];
        FUZZ_CHECK(decoder_new(coding, &d) == 0);
        while (r.error == 0 && (in.n > 0 || decoder_owes(d))) {
                struct str part = str_first(in, in.n < piece ? in.n : piece);
                size_t had = part.n;
                ssize_t n = decoder_run(d, &part, text, room);
                FUZZ_CHECK(n <= (ssize_t)room && part.n <= had);
                FUZZ_CHECK(n != 0 || part.n < had || had == 0); /* it gets on */
                in = str_skip(in, had - part.n);
                if (n < 0)
                        r.error = n;
                else if (buf_append(&r.out, str_n(text, (size_t)n)) < 0)
                        r.error = 1; /* enough */
        }
        r.whole = r.error == 0 && decoder_is_whole(d);
        decoder_free(d);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size == 0)
                return 0;
        enum coding coding = (enum coding)(CODING_GZIP + data[0] % (CODING_UNKNOWN - CODING_GZIP));
        struct str in = str_n(data + 1, size - 1);
        struct result whole = run(coding, in, SIZE_MAX, 65536), pieces = run(coding, in, 3, 17);
        /* zstd compares an empty frame with the length that it tells only where it sees all of it at once. */
        bool lenient = coding == CODING_ZSTD && whole.error != 0;
        FUZZ_CHECK(lenient || whole.whole == pieces.whole);
        FUZZ_CHECK(lenient || (whole.error == 0) == (pieces.error == 0));
        size_t both = whole.out.n < pieces.out.n ? whole.out.n : pieces.out.n;
        FUZZ_CHECK(whole.error != 0 || whole.out.n == pieces.out.n);
        FUZZ_CHECK(both == 0 || memcmp(whole.out.p, pieces.out.p, both) == 0);
        buf_done(&whole.out);
        buf_done(&pieces.out);
        return 0;
}
