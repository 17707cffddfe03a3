/* SPDX-License-Identifier: Apache-2.0 */
/* Following requests through a tunnel: the sequence of hosts seen is the same however the bytes are cut. */
#include "base/hash.h"
#include "fuzz.h"
#include "gateway/wire/tunnelled.h"

#include <stdbool.h>
#include <stdlib.h>

struct trace {
        uint64_t heads, hash;
        enum requests_next end;
};

/* Feeds the bytes as a relay would: held until something may pass, then cut off at the front. */
static struct trace follow(struct str in, size_t step) {
        static const struct hash_key key = { 1, 2 };
        struct requests r = { 0 };
        struct trace t = { .end = REQUESTS_MORE };
        struct host host;
        size_t have = 0;
        uint64_t skip = 0; /* bytes that may pass and have not come yet */
        size_t from = 0;
        for (size_t guard = 0; guard < 4 * in.n + 8; guard++) {
                size_t can = have - from < skip ? have - from : (size_t)skip;
                from += can;
                skip -= can;
                enum requests_next next = REQUESTS_MORE;
                if (skip == 0 && have > from)
                        next = requests_look(&r, str_n(in.p + from, have - from), 4096, &host);
                switch (next) {
                case REQUESTS_HEAD:
                        t.heads++;
                        if (r.has_host)
                                t.hash = t.hash * 31 + hash_bytes(&key, host.name, host.name_n);
                        skip = r.pass;
                        FUZZ_CHECK(r.pass > 0);
                        continue;
                case REQUESTS_BODY:
                        FUZZ_CHECK(r.pass > 0 && r.pass <= have - from);
                        skip = r.pass;
                        continue;
                case REQUESTS_MORE:
                        break;
                default:
                        t.end = next;
                        return t;
                }
                if (have == in.n)
                        return t;
                have = have + step < in.n ? have + step : in.n;
        }
        bool made_progress = false;
        FUZZ_CHECK(made_progress);
        return t;
}

/* An unfinished head may be known to be bad earlier or later; what has passed must be the same. */
static void check_same(const struct trace *a, const struct trace *b) {
        FUZZ_CHECK(a->heads == b->heads && a->hash == b->hash);
        if (a->end != b->end)
                FUZZ_CHECK(a->end != REQUESTS_SWITCH && b->end != REQUESTS_SWITCH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size < 8192 ? size : 8192);
        struct trace whole = follow(in, in.n ? in.n : 1), bytes = follow(in, 1), some = follow(in, 7);
        check_same(&whole, &bytes);
        check_same(&whole, &some);
        return 0;
}
