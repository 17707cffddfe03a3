/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The automaton is a trie whose nodes know the longest other place in the trie that ends with the same bytes (`back`).
 * A byte that does not fit leads there, so the work for a text is linear in its length. Almost all nodes have one
 * child, made right after them, which keeps a walk within a cache line; only the root has a table.
 *
 * Most of a text starts no needle. Two bytes decide whether one may start: the first and second byte of some needle. If
 * the possible first bytes are rare, as with some credentials, the scan skips the text between them in blocks.
 */
#include "base/secrets/needles.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <errno.h>
#include <stdlib.h>

enum { ROOT = 0, NODES_MAX = 1 << 22, STOPS_FEW = 6, STOPS_MAX = 12, BLOCK = 16, CLASSES = 8 };

typedef unsigned char block __attribute__((vector_size(BLOCK))); /* all of them at once */

struct node {
        uint32_t child, sibling; /* 0: none, since the root is nobody's child */
        uint32_t back;
        uint32_t depth;
        uint32_t found; /* index of the longest needle that ends here, plus one */
        unsigned char byte;
};

struct found {
        uint32_t id, n;
};

struct needles {
        size_t longest, shortest, n_nodes, n_found;
        uint32_t first[256];        /* the root's children */
        unsigned char begins[256];  /* not 0: '%' and what a needle begins with; a bit for its class */
        unsigned char follows[256]; /* bits of the classes behind which this may stand */
        size_t n_stops;             /* STOPS_FEW or STOPS_MAX; 0: there are more */
        block stops[STOPS_MAX];     /* what begins something, each filling a block, some more than once */
        struct found *found;
        struct node nodes[];
};

/* --- building --- */

static uint32_t child_of(const struct needles *needles, uint32_t at, unsigned char byte) {
        if (at == ROOT)
                return needles->first[byte];
        uint32_t c = needles->nodes[at].child;
        while (c && needles->nodes[c].byte != byte)
                c = needles->nodes[c].sibling;
        return c;
}

static uint32_t add_child(struct needles *needles, uint32_t at, unsigned char byte) {
        uint32_t c = (uint32_t)needles->n_nodes++;

        needles->nodes[c] = (struct node){ .byte = byte, .depth = needles->nodes[at].depth + 1 };

        if (at == ROOT) {
                needles->first[byte] = c;
        } else {
                needles->nodes[c].sibling = needles->nodes[at].child;
                needles->nodes[at].child = c;
        }

        return c;
}

static void needles_add(struct needles *needles, const struct needle *needle) {
        uint32_t at = ROOT;

        for (size_t i = 0; i < needle->bytes.n; i++) {
                unsigned char byte = (unsigned char)needle->bytes.p[i];
                uint32_t c = child_of(needles, at, byte);

                if (c)
                        at = c;
                else
                        at = add_child(needles, at, byte);
        }

        if (needles->nodes[at].found)
                return;

        needles->found[needles->n_found] = (struct found){ needle->id, (uint32_t)needle->bytes.n };
        needles->nodes[at].found = (uint32_t)++needles->n_found;
        if (needle->bytes.n > needles->longest)
                needles->longest = needle->bytes.n;
        if (needle->bytes.n < needles->shortest)
                needles->shortest = needle->bytes.n;
}

static uint32_t needles_step(const struct needles *needles, uint32_t at, unsigned char byte) {
        for (;;) {
                uint32_t c = child_of(needles, at, byte);
                if (c || at == ROOT)
                        return c;
                at = needles->nodes[at].back;
        }
}

/* Breadth first: where a node leads back to is less deep than the node, and complete before it is needed. */
static int needles_join(struct needles *needles) {
        cleanup(free_ptr) uint32_t *queue = calloc(needles->n_nodes, sizeof *queue);
        if (!queue)
                return -ENOMEM;

        size_t in = 0, out = 0;

        for (size_t byte = 0; byte < 256; byte++)
                if (needles->first[byte])
                        queue[in++] = needles->first[byte];

        while (out < in) {
                uint32_t at = queue[out++];
                struct node *node = &needles->nodes[at];
                if (!node->found)
                        node->found = needles->nodes[node->back].found;

                for (uint32_t c = node->child; c; c = needles->nodes[c].sibling) {
                        needles->nodes[c].back = needles_step(needles, node->back, needles->nodes[c].byte);
                        queue[in++] = c;
                }
        }

        return 0;
}

/* Behind the byte, which begins something, `next` may go on with it; behind a whole needle anything may stand. */
static bool goes_on(const struct needles *needles, unsigned char byte, unsigned char next) {
        uint32_t at = needles->first[byte];
        return next == '%' || (byte == '%' && ascii_hex((char)next) >= 0) ||
               (at && (needles->nodes[at].found || child_of(needles, at, next)));
}

static void note_stops(struct needles *needles) {
        size_t many = 0;

        for (unsigned byte = 0; byte < 256; byte++) {
                if (byte != '%' && !needles->first[byte])
                        continue;

                needles->begins[byte] = (unsigned char)(1u << many % CLASSES);

                for (unsigned next = 0; next < 256; next++)
                        if (goes_on(needles, (unsigned char)byte, (unsigned char)next))
                                needles->follows[next] |= needles->begins[byte];

                for (size_t i = many; i < STOPS_MAX; i++)
                        memset(&needles->stops[i], (int)byte, BLOCK);

                many++;
        }

        if (many <= STOPS_FEW)
                needles->n_stops = STOPS_FEW;
        else if (many <= STOPS_MAX)
                needles->n_stops = STOPS_MAX;
        else
                needles->n_stops = 0;
}

int needles_new(const struct needle *list, size_t n_list, struct needles **ret) {
        size_t total = 1;

        for (size_t i = 0; i < n_list; i++) {
                if (list[i].bytes.n == 0)
                        return -EINVAL;
                if (list[i].bytes.n >= NODES_MAX - total)
                        return -E2BIG;
                total += list[i].bytes.n;
        }

        cleanup(needles_freep) struct needles *n = calloc(1, sizeof *n + total * sizeof n->nodes[0]);
        if (!n)
                return -ENOMEM;

        n->n_nodes = 1;
        n->shortest = SIZE_MAX;
        n->found = calloc(n_list ? n_list : 1, sizeof *n->found);
        if (!n->found)
                return -ENOMEM;

        for (size_t i = 0; i < n_list; i++)
                needles_add(n, &list[i]);

        int r = needles_join(n);
        if (r < 0)
                return r;

        note_stops(n);
        *ret = take_ptr(&n);

        return 0;
}

void needles_free(struct needles *needles) {
        if (!needles)
                return;
        free(needles->found);
        secret_wipe(needles, sizeof *needles + needles->n_nodes * sizeof needles->nodes[0]);
        free(needles);
}

void needles_freep(struct needles **needles) {
        needles_free(*needles);
}

size_t needles_longest(const struct needles *needles) {
        return needles->longest;
}

size_t needles_shortest(const struct needles *needles) {
        return needles->shortest;
}

/* --- scanning --- */

int needle_scan_init(struct needle_scan *scan, const struct needles *needles, bool places) {
        *scan = (struct needle_scan){ .needles = needles, .n_starts = needles->longest + 1 };
        if (!places)
                return 0;
        scan->starts = malloc(scan->n_starts * sizeof *scan->starts); /* written before they are read */
        if (!scan->starts)
                return -ENOMEM;

        return 0;
}

void needle_scan_done(struct needle_scan *scan) {
        free(scan->starts);
        *scan = (struct needle_scan){ 0 };
}

static uint64_t start_of(const struct needle_scan *scan, uint64_t symbol) {
        return scan->starts[symbol % scan->n_starts];
}

/* The decoded reading begins to differ: its symbols so far are the bytes themselves. */
static void needles_split(struct needle_scan *scan) {
        size_t depth = scan->needles->nodes[scan->raw].depth;
        scan->split = true;
        scan->dec = scan->raw;
        scan->symbols = depth;
        scan->encoded = 0;
        for (size_t i = 0; scan->starts && i < depth; i++)
                scan->starts[i] = scan->at - depth + i;
}

static void needles_queue(struct needle_scan *scan, unsigned char byte, uint64_t at, bool encoded) {
        scan->queue[scan->n_queue].byte = byte;
        scan->queue[scan->n_queue].at = at;
        scan->queue[scan->n_queue++].encoded = encoded;
}

/* One byte for the decoded reading, s->at stands behind it: the symbols that are certain now. */
static void read_escapes(struct needle_scan *scan, char c) {
        if (scan->pending == 1 && ascii_hex(c) >= 0) {
                scan->escape = c;
                scan->pending = 2;
                return;
        }

        if (scan->pending == 2 && ascii_hex(c) >= 0) {
                scan->pending = 0;
                needles_queue(scan, (unsigned char)(ascii_hex(scan->escape) << 4 | ascii_hex(c)), scan->at - 3, true);
                return;
        }

        if (scan->pending > 0) /* no escape after all: its bytes stand for themselves */
                needles_queue(scan, '%', scan->at - 1 - scan->pending, false);
        if (scan->pending > 1)
                needles_queue(scan, (unsigned char)scan->escape, scan->at - 2, false);

        scan->pending = c == '%';
        if (!scan->pending)
                needles_queue(scan, (unsigned char)c, scan->at - 1, false);
}

static bool found_at(const struct needle_scan *scan, uint32_t state, struct needle_match *ret) {
        uint32_t found = scan->needles->nodes[state].found;
        if (!found)
                return false;
        *ret =
            (struct needle_match){ .id = scan->needles->found[found - 1].id, .n = scan->needles->found[found - 1].n };
        return true;
}

/* Both readings are the same again when they stand at the same place and nothing encoded leads to it. */
static void needles_rejoin(struct needle_scan *scan) {
        size_t depth = scan->needles->nodes[scan->dec].depth;
        if (scan->pending == 0 && scan->dec == scan->raw && scan->encoded + depth <= scan->symbols)
                scan->split = false;
}

static bool take_queue(struct needle_scan *scan, struct needle_match *ret) {
        while (scan->n_queue > 0) {
                uint64_t at = scan->queue[0].at, end = at + (scan->queue[0].encoded ? 3 : 1);

                if (scan->starts)
                        scan->starts[scan->symbols % scan->n_starts] = at;

                scan->symbols++;
                if (scan->queue[0].encoded)
                        scan->encoded = scan->symbols;

                scan->dec = needles_step(scan->needles, scan->dec, scan->queue[0].byte);
                memmove(&scan->queue[0], &scan->queue[1], --scan->n_queue * sizeof scan->queue[0]);
                if (scan->n_queue == 0)
                        needles_rejoin(scan);

                /* What holds no encoded symbol is seen in the other reading. */
                if (found_at(scan, scan->dec, ret) && scan->encoded + ret->n > scan->symbols) {
                        ret->decoded = true;
                        if (scan->starts)
                                ret->start = start_of(scan, scan->symbols - ret->n);
                        else
                                ret->start = 0;
                        ret->end = end;
                        return true;
                }
        }

        return false;
}

/* One byte for both readings; what the decoded one makes of it waits in the queue. */
static bool take_byte(struct needle_scan *scan, char c, struct needle_match *ret) {
        if (c == '%' && !scan->split)
                needles_split(scan);

        scan->at++;
        scan->raw = needles_step(scan->needles, scan->raw, (unsigned char)c);
        if (scan->split)
                read_escapes(scan, c);
        if (!found_at(scan, scan->raw, ret))
                return false;

        ret->end = scan->at;
        ret->start = scan->at - ret->n;

        return true;
}

/* Whether a byte that begins something is among these blocks. */
static inline bool has_stop(const block *stops, size_t n_stops, const char *p, size_t blocks) {
        block at, hits = { 0 };

        for (size_t k = 0; k < blocks; k++) {
                memcpy(&at, p + k * BLOCK, BLOCK);
                for (size_t i = 0; i < n_stops; i++)
                        hits |= (block)(at == stops[i]);
        }

        uint64_t words[BLOCK / sizeof(uint64_t)];
        memcpy(words, &hits, BLOCK);

        return (words[0] | words[1]) != 0;
}

/* Nothing before it begins anything. Blocks are taken singly at first: where stops are frequent, more at once is work
 * for nothing. */
static inline const char *skip_blocks(const block *stops, size_t n_stops, const char *p, const char *end) {
        for (int clean = 0; clean < 4; clean++, p += BLOCK)
                if (end - p < BLOCK || has_stop(stops, n_stops, p, 1))
                        return p;

        while (end - p >= 4 * BLOCK && !has_stop(stops, n_stops, p, 4))
                p += 4 * BLOCK;

        while (end - p >= BLOCK && !has_stop(stops, n_stops, p, 1))
                p += BLOCK;

        return p;
}

static const char *skip_bytes(const unsigned char *begins, const char *p, const char *end) {
        const unsigned char *at = (const unsigned char *)p, *last = (const unsigned char *)end;
        while (last - at >= 4 && !(begins[at[0]] | begins[at[1]] | begins[at[2]] | begins[at[3]]))
                at += 4;
        while (at < last && !begins[*at])
                at++;
        return (const char *)at;
}

/* The first byte from p on that may begin something, or end. */
static const char *needles_skip(const struct needles *needles, const char *p, const char *end) {
        for (;; p++) {
                if (needles->n_stops == STOPS_FEW) /* constants, for the compiler */
                        p = skip_blocks(needles->stops, STOPS_FEW, p, end);
                else if (needles->n_stops == STOPS_MAX)
                        p = skip_blocks(needles->stops, STOPS_MAX, p, end);

                p = skip_bytes(needles->begins, p, end);
                if (end - p < 2 || needles->begins[(unsigned char)p[0]] & needles->follows[(unsigned char)p[1]])
                        return p;
        }
}

bool needle_scan_next(struct needle_scan *scan, struct str *bytes, struct needle_match *ret) {
        const char *p = text_or(bytes->p, ""), *end = p + bytes->n;
        bool found = scan->n_queue > 0 && take_queue(scan, ret);
        while (p < end && !found) {
                if (scan->raw == ROOT && !scan->split) {
                        const char *from = p;

                        p = needles_skip(scan->needles, p, end);
                        scan->at += (uint64_t)(p - from);
                        if (p == end)
                                break;
                }

                found = take_byte(scan, *p++, ret) || (scan->n_queue > 0 && take_queue(scan, ret));
        }

        *bytes = str_n(p, (size_t)(end - p));
        return found;
}

bool needle_scan_end(struct needle_scan *scan, struct needle_match *ret) {
        if (scan->pending > 0)
                needles_queue(scan, '%', scan->at - scan->pending, false);
        if (scan->pending > 1)
                needles_queue(scan, (unsigned char)scan->escape, scan->at - 1, false);
        scan->pending = 0;
        return take_queue(scan, ret);
}

struct needle_symbol needle_scan_symbol(const struct needle_scan *scan, const struct needle_match *match, size_t i) {
        if (!match->decoded)
                return (struct needle_symbol){ match->start + i, 1 };
        uint64_t number = scan->symbols - match->n + i;
        uint64_t at = start_of(scan, number),
                 next = number + 1 < scan->symbols ? start_of(scan, number + 1) : match->end;
        return (struct needle_symbol){ at, next - at };
}

/* How much of what leads here can still be the beginning of a needle: the end of one has nothing behind it. */
static size_t open_depth(const struct needles *needles, uint32_t at) {
        while (at != ROOT && !needles->nodes[at].child)
                at = needles->nodes[at].back;
        return needles->nodes[at].depth;
}

size_t needle_scan_partial(const struct needle_scan *scan) {
        size_t raw = open_depth(scan->needles, scan->raw);
        if (!scan->split)
                return raw;
        size_t depth = open_depth(scan->needles, scan->dec), dec = scan->pending;
        if (depth > 0)
                dec = (size_t)(scan->at - start_of(scan, scan->symbols - depth));
        return max_of(raw, dec);
}
