/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "secret\nbody": whatever they are, the body keeps its length, is the same in pieces as whole, does not hold the
 * secret any more (unless the stand-in brings it about itself), and a second pass over it finds nothing new to hold
 * back wrongly. The same for an origin that pauses after every byte.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/creds/scrub.h"

#include <string.h>

enum { MAX = 2048 };

static size_t run(struct scrub_words *w, struct str text, size_t piece, bool pauses, char *out) {
        struct scrub s;
        size_t n = 0;
        FUZZ_CHECK(scrub_init(&s, w) == 0);
        for (size_t at = 0; at < text.n; at += piece) {
                char part[MAX];
                struct str in = str_first(str_skip(text, at), piece), before, now;
                memcpy(part, in.p, in.n);
                scrub_feed(&s, part, in.n, &before, &now);
                FUZZ_CHECK(n + before.n + now.n <= text.n);
                memcpy(out + n, before.p, before.n);
                memcpy(out + n + before.n, now.p, now.n);
                n += before.n + now.n;
                struct str released = pauses ? scrub_release(&s) : STR("");
                FUZZ_CHECK(n + released.n <= text.n);
                memcpy(out + n, released.p, released.n);
                n += released.n;
        }
        struct str left = scrub_end(&s);
        memcpy(out + n, left.p, left.n);
        n += left.n;
        scrub_done(&s);
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size > MAX ? MAX : size), secret;
        if (!str_split(&rest, '\n', &secret) || secret.n < 8 || rest.n == 0)
                return 0;
        char stand_in[MAX], whole[MAX], pieces[MAX];
        memset(stand_in, '\1', secret.n); /* a byte that no base64 or secret of interest has */
        struct scrub_pair pair = { secret, str_n(stand_in, secret.n) };
        struct scrub_words *w = NULL;
        FUZZ_CHECK(scrub_words_new(&pair, 1, &w) == 0);
        FUZZ_CHECK(run(w, rest, rest.n, false, whole) == rest.n);
        static const size_t sizes[] = { 1, 2, 3, 7, 64 };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                FUZZ_CHECK(run(w, rest, sizes[i], false, pieces) == rest.n);
                FUZZ_CHECK(memcmp(whole, pieces, rest.n) == 0);
        }
        bool odd = memchr(secret.p, '\1', secret.n) != NULL;
        FUZZ_CHECK(odd || !memmem(whole, rest.n, secret.p, secret.n));
        FUZZ_CHECK(run(w, rest, 1, true, pieces) == rest.n);
        FUZZ_CHECK(odd || !memmem(pieces, rest.n, secret.p, secret.n));
        scrub_words_unref(w);
        return 0;
}
