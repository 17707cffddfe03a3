/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds any of several needles in bytes that come in pieces, in one pass (Aho and Corasick). The result does not depend
 * on where the pieces were cut, and hostile input cannot make the scan read a byte twice.
 *
 * A scan also sees needles of which some or all bytes are percent-encoded ("%2D" for "-"). It follows two readings of
 * the bytes, as they are and decoded, the second only while it differs from the first.
 */
#include "base/str.h"

struct needle {
        struct str bytes; /* not empty */
        uint32_t id;      /* the caller's name for it */
};

struct needles;

/* Copies the needles. Of two that are the same, the first counts. -ENOMEM, -EINVAL (an empty one), -E2BIG. */
int needles_new(const struct needle *list, size_t n_list, struct needles **ret);
/* Wipes what it held: needles may be secrets. Accepts NULL. */
void needles_free(struct needles *needles);
void needles_freep(struct needles **needles);
size_t needles_longest(const struct needles *needles);  /* in bytes */
size_t needles_shortest(const struct needles *needles); /* a text of fewer bytes holds none; SIZE_MAX without needles */

/* One byte of what a needle consists of, where it was seen: one byte of the text, or three when it was encoded. */
struct needle_symbol {
        uint64_t at; /* offset in the text since the scan began */
        uint64_t width;
};

struct needle_match {
        uint32_t id;
        size_t n;            /* symbols, as many as the needle has bytes */
        bool decoded;        /* found in the decoded reading */
        uint64_t start, end; /* offsets in the text since the scan began; start is 0 when places are not wanted */
};

struct needle_scan {
        const struct needles *needles;
        uint64_t at;       /* bytes seen */
        uint32_t raw, dec; /* states of both readings */
        bool split;        /* the decoded reading differs */
        uint8_t pending;   /* bytes of a "%XX" that was begun */
        char escape;       /* the one behind '%' */
        uint8_t n_queue;   /* symbols that the decoded reading has yet to take */
        struct {
                uint64_t at;
                unsigned char byte;
                bool encoded;
        } queue[3];
        uint64_t symbols; /* of the decoded reading, since it split */
        uint64_t encoded; /* how many there were when the last encoded one was taken */
        uint64_t *starts; /* of the last needles_longest() + 1 symbols; NULL: places are not wanted */
        size_t n_starts;
};

/* places: matches in the decoded reading say where they are, and needle_scan_partial() works. 0 or -ENOMEM. */
int needle_scan_init(struct needle_scan *scan, const struct needles *needles, bool places);
void needle_scan_done(struct needle_scan *scan);
/* Takes bytes off the front up to and with the next match; false: all were taken and none was found. If several matches
 * end at the same byte, the longest is reported. */
bool needle_scan_next(struct needle_scan *scan, struct str *bytes, struct needle_match *ret);
/* The text is over: an escape that was begun stands for itself. To be called until it returns false. */
bool needle_scan_end(struct needle_scan *scan, struct needle_match *ret);
/* The i-th symbol of a match, valid until the next match is asked for. */
struct needle_symbol needle_scan_symbol(const struct needle_scan *scan, const struct needle_match *match, size_t i);
/* How many of the bytes seen last may be the beginning of a needle. */
size_t needle_scan_partial(const struct needle_scan *scan);
