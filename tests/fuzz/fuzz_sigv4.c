/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target and headers from the input, one a line. The canonical path and query are their own canonical form (for S3,
 * which escapes once), whatever was there before; and a request that can be signed anew is found, checked and signed
 * again with the same result.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/creds/sigv4.h"

#include <string.h>

enum { HEADERS = 16, NOW = 1369353600 };

static void check_canonical(struct str target) {
        ptrdiff_t question = str_find(target, '?');
        struct str path = str_first(target, question < 0 ? target.n : (size_t)question);
        struct str query = str_skip(target, question < 0 ? target.n : (size_t)question + 1);
        cleanup(buf_done) struct buf once = BUF(1 << 20), twice = BUF(1 << 20), other = BUF(1 << 20);
        FUZZ_CHECK(sigv4_canonical_path(path, true, &once) == 0);
        FUZZ_CHECK(sigv4_canonical_path(buf_str(&once), true, &twice) == 0);
        FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
        FUZZ_CHECK(sigv4_canonical_path(path, false, &other) == 0);
        FUZZ_CHECK(other.p && other.n > 0 && other.p[0] == '/' && !memmem(other.p, other.n, "//", 2) &&
                   !memmem(other.p, other.n, "/../", 4));
        buf_clear(&once);
        buf_clear(&twice);
        int r = sigv4_canonical_query(query, &once);
        if (r < 0)
                return;
        FUZZ_CHECK(sigv4_canonical_query(buf_str(&once), &twice) == 0 && str_eq(buf_str(&once), buf_str(&twice)));
}

static void check_signing(const struct request_view *r) {
        struct sigv4 s, again;
        if (!sigv4_find(r, &s))
                return;
        FUZZ_CHECK(s.key_id.n > 0);
        if (!sigv4_check(r, &s)) {
                FUZZ_CHECK(sigv4_problem_text(s.problem)[0]);
                return;
        }
        struct sigv4_key key = { .key_id = STR("AKIAREAL"), .token = STR("tok/en=="), .key = { 1, 2, 3 } };
        cleanup(buf_done) struct buf out = BUF(1 << 20), second = BUF(1 << 20);
        char signature[SIGV4_SIGNATURE_HEX], repeated[SIGV4_SIGNATURE_HEX];
        if (sigv4_sign(&s, r, &key, STR(""), &out, signature) < 0)
                return;
        struct header_view headers[HEADERS + 1];
        struct request_view signed_view = *r;
        if (s.presigned) {
                signed_view.target = buf_str(&out);
        } else {
                memcpy(headers, r->headers, r->n_headers * sizeof *headers);
                headers[s.authorization].value = buf_str(&out);
                signed_view.headers = headers;
        }
        FUZZ_CHECK(sigv4_find(&signed_view, &again) && sigv4_check(&signed_view, &again));
        FUZZ_CHECK(str_is(again.key_id, "AKIAREAL") && again.presigned == s.presigned);
        FUZZ_CHECK(sigv4_sign(&again, &signed_view, &key, STR(""), &second, repeated) == 0);
        FUZZ_CHECK(memcmp(signature, repeated, sizeof signature) == 0 && str_eq(buf_str(&out), buf_str(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size > 4096 ? 4096 : size), line;
        struct header_view headers[HEADERS];
        struct request_view r = { .secure = true,
                                  .method = STR("PUT"),
                                  .target = STR("/"),
                                  .host = STR("bucket.s3.test"),
                                  .now_s = NOW,
                                  .headers = headers };
        if (str_split(&rest, '\n', &line) && line.n > 0)
                r.target = line;
        check_canonical(r.target);
        while (r.n_headers < HEADERS && str_split(&rest, '\n', &line)) {
                ptrdiff_t colon = str_find(line, ':');
                if (colon > 0)
                        headers[r.n_headers++] = (struct header_view){ str_first(line, (size_t)colon),
                                                                       str_trim(str_skip(line, (size_t)colon + 1)) };
        }
        check_signing(&r);
        return 0;
}
