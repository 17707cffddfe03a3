/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Needles and a text, both from the input: "needle\nneedle\n\ntext". The scan finds exactly what looking at every place
 * by itself finds, wherever the text is cut, and never holds back less than what may still become a match.
 */
#include "base/cleanup.h"
#include "base/secrets/needles.h"
#include "base/vec.h"
#include "fuzz.h"

enum { NEEDLES = 8 };

/* Width of the symbol at the text's front and the byte it means. */
static size_t symbol(struct str in, bool decode, char *ret) {
        if (decode && in.n >= 3 && in.p[0] == '%' && ascii_hex(in.p[1]) >= 0 && ascii_hex(in.p[2]) >= 0) {
                *ret = (char)(ascii_hex(in.p[1]) << 4 | ascii_hex(in.p[2]));
                return 3;
        }
        *ret = in.p[0];
        return 1;
}

/* Whether the needle, read from `from` on in the given reading, ends exactly at `end`. */
static bool is_at(struct str text, size_t from, size_t end, struct str needle, bool decode, bool *ret_encoded) {
        *ret_encoded = false;
        for (size_t i = 0; i < needle.n; i++) {
                char c;
                if (from >= end)
                        return false;
                size_t width = symbol(str_skip(text, from), decode, &c);
                if (c != needle.p[i])
                        return false;
                *ret_encoded |= width == 3;
                from += width;
        }
        return from == end;
}

static size_t expected_at(struct str text, size_t from, size_t end, const struct needle *list, size_t n) {
        size_t longest = 0;
        for (size_t i = 0; i < n; i++) {
                bool encoded;
                if (is_at(text, from, end, list[i].bytes, false, &encoded) ||
                    is_at(text, from, end, list[i].bytes, true, &encoded))
                        longest = list[i].bytes.n > longest ? list[i].bytes.n : longest;
        }
        return longest;
}

/* Is `from` a place where a symbol of the decoded reading begins? */
static bool is_boundary(struct str text, size_t from) {
        char c;
        size_t at = 0;
        while (at < from)
                at += symbol(str_skip(text, at), true, &c);
        return at == from;
}

static size_t check_match(const struct needle_scan *scan, const struct needle_match *m, struct str text,
                          const struct needle *list, size_t n_list) {
        FUZZ_CHECK(m->start < m->end && m->end <= text.n);
        FUZZ_CHECK(expected_at(text, m->start, m->end, list, n_list) >= m->n);
        uint64_t next = m->start;
        for (size_t i = 0; i < m->n; i++) {
                struct needle_symbol s = needle_scan_symbol(scan, m, i);
                FUZZ_CHECK(s.at == next && (s.width == 1 || s.width == 3));
                next = s.at + s.width;
        }
        FUZZ_CHECK(next == m->end);
        return 1;
}

static void scan_pieces(const struct needles *n, struct str text, size_t piece, const struct needle *list,
                        size_t n_list) {
        struct needle_scan scan;
        FUZZ_CHECK(needle_scan_init(&scan, n, true) == 0);
        size_t matches = 0, wanted = 0;
        for (size_t at = 0; at < text.n; at += piece) {
                struct str part = str_first(str_skip(text, at), piece);
                struct needle_match m;
                while (needle_scan_next(&scan, &part, &m))
                        matches += check_match(&scan, &m, text, list, n_list);
                FUZZ_CHECK(needle_scan_partial(&scan) <= scan.at);
        }
        struct needle_match last;
        while (needle_scan_end(&scan, &last))
                matches += check_match(&scan, &last, text, list, n_list);
        /* Every end of a plain match was told, and every one of an encoded match that begins at a symbol. */
        for (size_t end = 1; end <= text.n; end++) {
                bool here = false;
                for (size_t from = 0; from < end && !here; from++)
                        for (size_t i = 0; i < n_list && !here; i++) {
                                bool encoded;
                                here =
                                    is_at(text, from, end, list[i].bytes, false, &encoded) ||
                                    (is_boundary(text, from) && is_at(text, from, end, list[i].bytes, true, &encoded));
                        }
                wanted += here;
        }
        FUZZ_CHECK(matches >= wanted);
        needle_scan_done(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size > 256 ? 256 : size), line;
        struct needle list[NEEDLES];
        size_t n = 0;
        while (n < NEEDLES && str_split(&rest, '\n', &line) && line.n > 0)
                list[n] = (struct needle){ line, (uint32_t)n }, n++;
        cleanup(needles_freep) struct needles *needles = NULL;
        FUZZ_CHECK(needles_new(list, n, &needles) == 0);
        for (size_t piece = 1; piece < 6; piece++)
                scan_pieces(needles, rest, piece, list, n);
        scan_pieces(needles, rest, rest.n + 1, list, n);
        return 0;
}
