/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The automaton is a trie whose nodes know the longest other place in the trie that ends with the same bytes (`back`).
 * A byte that does not fit leads there, so the work for a text is linear in its length. Almost all nodes have one
 * child, made right after them, which keeps a walk within a cache line; only the root has a table.
 *
 * Most of a text begins nothing. What may is told by two bytes: one that a needle begins with, and behind it one that a
 * needle goes on with. Where the first kind is rare, as with some credentials, the text between is passed over in
 * blocks.
 */
#include "base/needles.h"

#include "base/cleanup.h"
#include "base/secret.h"

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

static uint32_t child_of(const struct needles *n, uint32_t at, unsigned char byte) {
        if (at == ROOT)
                return n->first[byte];
        uint32_t c = n->nodes[at].child;
        while (c && n->nodes[c].byte != byte)
                c = n->nodes[c].sibling;
        return c;
}

static uint32_t add_child(struct needles *n, uint32_t at, unsigned char byte) {
        uint32_t c = (uint32_t)n->n_nodes++;
        n->nodes[c] = (struct node){ .byte = byte, .depth = n->nodes[at].depth + 1 };
        if (at == ROOT) {
                n->first[byte] = c;
        } else {
                n->nodes[c].sibling = n->nodes[at].child;
                n->nodes[at].child = c;
        }
        return c;
}

static void add(struct needles *n, const struct needle *needle) {
        uint32_t at = ROOT;
        for (size_t i = 0; i < needle->bytes.n; i++) {
                unsigned char byte = (unsigned char)needle->bytes.p[i];
                uint32_t c = child_of(n, at, byte);
                at = c ? c : add_child(n, at, byte);
        }
        if (n->nodes[at].found)
                return;
        n->found[n->n_found] = (struct found){ needle->id, (uint32_t)needle->bytes.n };
        n->nodes[at].found = (uint32_t)++n->n_found;
        if (needle->bytes.n > n->longest)
                n->longest = needle->bytes.n;
        if (needle->bytes.n < n->shortest)
                n->shortest = needle->bytes.n;
}

static uint32_t step(const struct needles *n, uint32_t at, unsigned char byte) {
        for (;;) {
                uint32_t c = child_of(n, at, byte);
                if (c || at == ROOT)
                        return c;
                at = n->nodes[at].back;
        }
}

/* Breadth first: where a node leads back to is less deep than the node, and complete before it is needed. */
static int join(struct needles *n) {
        cleanup(free_ptr) uint32_t *queue = calloc(n->n_nodes, sizeof *queue);
        if (!queue)
                return -ENOMEM;
        size_t in = 0, out = 0;
        for (size_t byte = 0; byte < 256; byte++)
                if (n->first[byte])
                        queue[in++] = n->first[byte];
        while (out < in) {
                uint32_t at = queue[out++];
                struct node *node = &n->nodes[at];
                if (!node->found)
                        node->found = n->nodes[node->back].found;
                for (uint32_t c = node->child; c; c = n->nodes[c].sibling) {
                        n->nodes[c].back = step(n, node->back, n->nodes[c].byte);
                        queue[in++] = c;
                }
        }
        return 0;
}

/* Behind the byte, which begins something, `next` may go on with it; behind a whole needle anything may stand. */
static bool goes_on(const struct needles *n, unsigned char byte, unsigned char next) {
        uint32_t at = n->first[byte];
        return next == '%' || (byte == '%' && ascii_hex((char)next) >= 0) ||
               (at && (n->nodes[at].found || child_of(n, at, next)));
}

static void note_stops(struct needles *n) {
        size_t many = 0;
        for (unsigned byte = 0; byte < 256; byte++) {
                if (byte != '%' && !n->first[byte])
                        continue;
                n->begins[byte] = (unsigned char)(1u << many % CLASSES);
                for (unsigned next = 0; next < 256; next++)
                        if (goes_on(n, (unsigned char)byte, (unsigned char)next))
                                n->follows[next] |= n->begins[byte];
                for (size_t i = many; i < STOPS_MAX; i++)
                        memset(&n->stops[i], (int)byte, BLOCK);
                many++;
        }
        n->n_stops = many <= STOPS_FEW ? STOPS_FEW : many <= STOPS_MAX ? STOPS_MAX : 0;
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
                add(n, &list[i]);
        int r = join(n);
        if (r < 0)
                return r;
        note_stops(n);
        *ret = take_ptr(&n);
        return 0;
}

void needles_free(struct needles *n) {
        if (!n)
                return;
        free(n->found);
        secret_wipe(n, sizeof *n + n->n_nodes * sizeof n->nodes[0]);
        free(n);
}

void needles_freep(struct needles **n) {
        needles_free(*n);
}

size_t needles_longest(const struct needles *n) {
        return n->longest;
}

size_t needles_shortest(const struct needles *n) {
        return n->shortest;
}

/* --- scanning --- */

int needle_scan_init(struct needle_scan *s, const struct needles *n, bool places) {
        *s = (struct needle_scan){ .needles = n, .n_starts = n->longest + 1 };
        if (!places)
                return 0;
        s->starts = malloc(s->n_starts * sizeof *s->starts); /* written before they are read */
        return s->starts ? 0 : -ENOMEM;
}

void needle_scan_done(struct needle_scan *s) {
        free(s->starts);
        *s = (struct needle_scan){ 0 };
}

static uint64_t start_of(const struct needle_scan *s, uint64_t symbol) {
        return s->starts[symbol % s->n_starts];
}

/* The decoded reading begins to differ: its symbols so far are the bytes themselves. */
static void split(struct needle_scan *s) {
        size_t depth = s->needles->nodes[s->raw].depth;
        s->split = true;
        s->dec = s->raw;
        s->symbols = depth;
        s->encoded = 0;
        for (size_t i = 0; s->starts && i < depth; i++)
                s->starts[i] = s->at - depth + i;
}

static void queue(struct needle_scan *s, unsigned char byte, uint64_t at, bool encoded) {
        s->queue[s->n_queue].byte = byte;
        s->queue[s->n_queue].at = at;
        s->queue[s->n_queue++].encoded = encoded;
}

/* One byte for the decoded reading, s->at stands behind it: the symbols that are certain now. */
static void read_escapes(struct needle_scan *s, char c) {
        if (s->pending == 1 && ascii_hex(c) >= 0) {
                s->escape = c;
                s->pending = 2;
                return;
        }
        if (s->pending == 2 && ascii_hex(c) >= 0) {
                s->pending = 0;
                queue(s, (unsigned char)(ascii_hex(s->escape) << 4 | ascii_hex(c)), s->at - 3, true);
                return;
        }
        if (s->pending > 0) /* no escape after all: its bytes stand for themselves */
                queue(s, '%', s->at - 1 - s->pending, false);
        if (s->pending > 1)
                queue(s, (unsigned char)s->escape, s->at - 2, false);
        s->pending = c == '%';
        if (!s->pending)
                queue(s, (unsigned char)c, s->at - 1, false);
}

static bool found_at(const struct needle_scan *s, uint32_t state, struct needle_match *ret) {
        uint32_t found = s->needles->nodes[state].found;
        if (!found)
                return false;
        *ret = (struct needle_match){ .id = s->needles->found[found - 1].id, .n = s->needles->found[found - 1].n };
        return true;
}

/* Both readings are the same again when they stand at the same place and nothing encoded leads to it. */
static void rejoin(struct needle_scan *s) {
        size_t depth = s->needles->nodes[s->dec].depth;
        if (s->pending == 0 && s->dec == s->raw && s->encoded + depth <= s->symbols)
                s->split = false;
}

static bool take_queue(struct needle_scan *s, struct needle_match *ret) {
        while (s->n_queue > 0) {
                uint64_t at = s->queue[0].at, end = at + (s->queue[0].encoded ? 3 : 1);
                if (s->starts)
                        s->starts[s->symbols % s->n_starts] = at;
                s->symbols++;
                if (s->queue[0].encoded)
                        s->encoded = s->symbols;
                s->dec = step(s->needles, s->dec, s->queue[0].byte);
                memmove(&s->queue[0], &s->queue[1], --s->n_queue * sizeof s->queue[0]);
                if (s->n_queue == 0)
                        rejoin(s);
                /* What holds no encoded symbol is seen in the other reading. */
                if (found_at(s, s->dec, ret) && s->encoded + ret->n > s->symbols) {
                        ret->decoded = true;
                        ret->start = s->starts ? start_of(s, s->symbols - ret->n) : 0;
                        ret->end = end;
                        return true;
                }
        }
        return false;
}

/* One byte for both readings; what the decoded one makes of it waits in the queue. */
static bool take_byte(struct needle_scan *s, char c, struct needle_match *ret) {
        if (c == '%' && !s->split)
                split(s);
        s->at++;
        s->raw = step(s->needles, s->raw, (unsigned char)c);
        if (s->split)
                read_escapes(s, c);
        if (!found_at(s, s->raw, ret))
                return false;
        ret->end = s->at;
        ret->start = s->at - ret->n;
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
static const char *skip(const struct needles *n, const char *p, const char *end) {
        for (;; p++) {
                if (n->n_stops == STOPS_FEW) /* constants, for the compiler */
                        p = skip_blocks(n->stops, STOPS_FEW, p, end);
                else if (n->n_stops == STOPS_MAX)
                        p = skip_blocks(n->stops, STOPS_MAX, p, end);
                p = skip_bytes(n->begins, p, end);
                if (end - p < 2 || n->begins[(unsigned char)p[0]] & n->follows[(unsigned char)p[1]])
                        return p;
        }
}

bool needle_scan_next(struct needle_scan *s, struct str *bytes, struct needle_match *ret) {
        const char *p = bytes->p ? bytes->p : "", *end = p + bytes->n;
        bool found = s->n_queue > 0 && take_queue(s, ret);
        while (p < end && !found) {
                if (s->raw == ROOT && !s->split) {
                        const char *from = p;
                        p = skip(s->needles, p, end);
                        s->at += (uint64_t)(p - from);
                        if (p == end)
                                break;
                }
                found = take_byte(s, *p++, ret) || (s->n_queue > 0 && take_queue(s, ret));
        }
        *bytes = str_n(p, (size_t)(end - p));
        return found;
}

bool needle_scan_end(struct needle_scan *s, struct needle_match *ret) {
        if (s->pending > 0)
                queue(s, '%', s->at - s->pending, false);
        if (s->pending > 1)
                queue(s, (unsigned char)s->escape, s->at - 1, false);
        s->pending = 0;
        return take_queue(s, ret);
}

struct needle_symbol needle_scan_symbol(const struct needle_scan *s, const struct needle_match *m, size_t i) {
        if (!m->decoded)
                return (struct needle_symbol){ m->start + i, 1 };
        uint64_t number = s->symbols - m->n + i;
        uint64_t at = start_of(s, number), next = number + 1 < s->symbols ? start_of(s, number + 1) : m->end;
        return (struct needle_symbol){ at, next - at };
}

/* How much of what leads here can still be the beginning of a needle: the end of one has nothing behind it. */
static size_t open_depth(const struct needles *n, uint32_t at) {
        while (at != ROOT && !n->nodes[at].child)
                at = n->nodes[at].back;
        return n->nodes[at].depth;
}

size_t needle_scan_partial(const struct needle_scan *s) {
        size_t raw = open_depth(s->needles, s->raw);
        if (!s->split)
                return raw;
        size_t depth = open_depth(s->needles, s->dec), dec = s->pending;
        if (depth > 0)
                dec = (size_t)(s->at - start_of(s, s->symbols - depth));
        return raw > dec ? raw : dec;
}
