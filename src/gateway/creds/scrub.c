/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This is a guard against echoes: error pages, debugging endpoints, redirects, a service that shows a key to its owner.
 * An origin that wants to hand a secret to the sandbox can do so in a thousand forms; but an origin that holds the
 * secret may keep it, and needs no sandbox to give it away.
 *
 * Each secret is looked for in seven forms at once (itself, and base64 at three alignments in two alphabets) by one
 * automaton, which also reads through percent signs. A form's replacement is the same form of the stand-in, and what
 * was percent-encoded stays so, symbol by symbol. In base64 the first and last character may carry bits of a neighbour
 * and up to four bits of the secret's first or last byte; those stay.
 *
 * The last byte of a message may by chance be the first of a secret. A client that waits for that byte before it goes
 * on (gRPC, WebSocket) would hang, so queued bytes are released after a while: at most RELEASE_MAX, and less than half
 * of the shortest secret, counted from where the secret would begin. So a secret that arrives byte by byte does not
 * leave byte by byte. An origin that pauses that long inside a secret reveals that much of it.
 */
#include "gateway/creds/scrub.h"

#include "base/base64.h"
#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"
#include "base/vec.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FORMS = 7, RELEASE_MAX = 16 };

struct scrub_words {
        atomic_uint references;
        struct needles *needles;
        struct str *replacements; /* by the needle's id */
        struct buf text;          /* of the replacements; never grows */
        size_t release;           /* so much of what is held may go when nothing follows */
};

/* --- words --- */

struct making {
        struct scrub_words *words;
        struct buf secrets; /* every form of them; wiped when the automaton is made */
        VEC(struct needle) needles;
        VEC(struct str) replacements;
};

static int add_form(struct making *making, struct str real, struct str stand_in) {
        struct needle needle = { real, (uint32_t)making->needles.n };
        if (real.n == 0)
                return 0;
        if (vec_push(&making->replacements, stand_in) < 0 || vec_push(&making->needles, needle) < 0)
                return -ENOMEM;
        return 0;
}

static char *scrub_room(struct buf *buf, size_t n) {
        char *at = buf->p + buf->n;
        buf->n += n;
        return at;
}

/* The stand-in has the secret's length; where it had not, it is cut, or filled up. */
static int add_pair(struct making *making, const struct scrub_pair *pair) {
        size_t n = pair->real.n;
        struct buf *secrets = &making->secrets, *text = &making->words->text;
        char *real = scrub_room(secrets, n), *stand_in = scrub_room(text, n);

        memcpy(real, pair->real.p, n);
        memset(stand_in, '*', n);
        memcpy(stand_in, pair->stand_in.p, min_of(pair->stand_in.n, n));

        int r = add_form(making, str_n(real, n), str_n(stand_in, n));
        for (unsigned form = 0; r == 0 && form < FORMS - 1; form++) {
                enum base64_alphabet alphabet = form < 3 ? BASE64_STANDARD : BASE64_URL;
                char *there = scrub_room(secrets, base64_length(n)), *here = scrub_room(text, base64_length(n));
                size_t length = base64_inner(str_n(real, n), form % 3, alphabet, there);

                base64_inner(str_n(stand_in, n), form % 3, alphabet, here);
                r = add_form(making, str_n(there, length), str_n(here, length));
        }

        return r;
}

int scrub_words_new(const struct scrub_pair *pairs, size_t n, struct scrub_words **ret) {
        struct making m = { .words = calloc(1, sizeof *m.words), .secrets = BUF(SIZE_MAX) };
        if (!m.words)
                return -ENOMEM;

        atomic_init(&m.words->references, 1);
        m.words->text = BUF(SIZE_MAX);
        m.words->release = RELEASE_MAX;

        size_t total = 1;
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                total += pairs[i].real.n + (FORMS - 1) * base64_length(pairs[i].real.n);
                if (pairs[i].real.n == 0)
                        r = -EINVAL;
                if ((pairs[i].real.n - 1) / 2 < m.words->release)
                        m.words->release = (pairs[i].real.n - 1) / 2;
        }

        if (r >= 0)
                r = buf_reserve(&m.words->text, total);
        if (r >= 0)
                r = buf_reserve(&m.secrets, total);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = add_pair(&m, &pairs[i]);

        if (r >= 0)
                r = needles_new(m.needles.p, m.needles.n, &m.words->needles);
        vec_done(&m.needles);
        if (m.secrets.p)
                secret_wipe(m.secrets.p, m.secrets.cap);

        buf_done(&m.secrets);
        m.words->replacements = m.replacements.p;

        if (r < 0) {
                scrub_words_unref(m.words);
                return r;
        }

        *ret = m.words;
        return 0;
}

struct scrub_words *scrub_words_ref(struct scrub_words *words) {
        atomic_fetch_add_explicit(&words->references, 1, memory_order_relaxed);
        return words;
}

void scrub_words_unref(struct scrub_words *words) {
        if (!words || atomic_fetch_sub_explicit(&words->references, 1, memory_order_acq_rel) > 1)
                return;
        needles_free(words->needles);
        free(words->replacements);
        buf_done(&words->text);
        free(words);
}

/* --- a body --- */

int scrub_init(struct scrub *scrub, struct scrub_words *words) {
        size_t most = 3 * needles_longest(words->needles) + 3; /* every byte percent-encoded, and an escape begun */

        *scrub = (struct scrub){ 0 };
        scrub->held = malloc(2 * most);
        if (!scrub->held || needle_scan_init(&scrub->scan, words->needles, true) < 0) {
                free(scrub->held);
                *scrub = (struct scrub){ 0 };
                return -ENOMEM;
        }

        scrub->spare = scrub->held + most;
        scrub->words = scrub_words_ref(words);

        return 0;
}

void scrub_done(struct scrub *scrub) {
        if (!scrub->words)
                return;

        char *memory = min_of(scrub->held, scrub->spare);
        secret_wipe(memory, 2 * (3 * needles_longest(scrub->words->needles) + 3));
        free(memory);
        needle_scan_done(&scrub->scan);
        scrub_words_unref(scrub->words);
        *scrub = (struct scrub){ 0 };
}

struct place {
        struct scrub *scrub;
        char *bytes;
        uint64_t base; /* offset of bytes[0]; what is held lies right before it */
};

static void scrub_put(const struct place *place, uint64_t at, char c) {
        if (at >= place->base)
                place->bytes[at - place->base] = c;
        else if (place->base - at <= place->scrub->n_held) /* else it was released */
                place->scrub->held[place->scrub->n_held - (size_t)(place->base - at)] = c;
}

static void scrub_replace(const struct place *place, const struct needle_match *match) {
        static const char digits[] = "0123456789ABCDEF";
        struct str by = place->scrub->words->replacements[match->id];

        for (size_t i = 0; i < match->n; i++) {
                struct needle_symbol symbol = needle_scan_symbol(&place->scrub->scan, match, i);
                if (symbol.width == 1) {
                        scrub_put(place, symbol.at, by.p[i]);
                        continue;
                }

                scrub_put(place, symbol.at + 1, digits[(unsigned char)by.p[i] >> 4]);
                scrub_put(place, symbol.at + 2, digits[(unsigned char)by.p[i] & 15]);
        }
}

void scrub_feed(struct scrub *scrub, char *bytes, size_t n, struct str *ret_before, struct str *ret_now) {
        struct place place = { .scrub = scrub, .bytes = bytes, .base = scrub->scan.at };
        struct str rest = str_n(bytes, n);
        struct needle_match match;

        while (needle_scan_next(&scrub->scan, &rest, &match)) {
                scrub_replace(&place, &match);
                scrub->found = true;
        }

        size_t keep = needle_scan_partial(&scrub->scan);
        size_t of_bytes = min_of(keep, n), of_held = keep - of_bytes;
        if (of_held >= scrub->n_held)
                of_held = scrub->n_held; /* some may have been released */
        *ret_before = str_n(scrub->held, scrub->n_held - of_held);
        *ret_now = str_n(bytes, n - of_bytes);

        if (of_held > 0)
                memcpy(scrub->spare, scrub->held + scrub->n_held - of_held, of_held);
        if (of_bytes > 0)
                memcpy(scrub->spare + of_held, bytes + n - of_bytes, of_bytes);

        char *released = scrub->held;
        scrub->held = scrub->spare;
        scrub->spare = released;
        scrub->n_held = of_held + of_bytes;
}

struct str scrub_release(struct scrub *scrub) {
        bool little = needle_scan_partial(&scrub->scan) <= scrub->words->release; /* with what was released before */
        struct str now = str_n(scrub->held, little ? scrub->n_held : 0);
        scrub->n_held -= now.n;
        return now;
}

struct str scrub_end(struct scrub *scrub) {
        struct place place = { .scrub = scrub, .base = scrub->scan.at };
        struct needle_match match;

        while (needle_scan_end(&scrub->scan, &match)) {
                scrub_replace(&place, &match);
                scrub->found = true;
        }

        struct str left = str_n(scrub->held, scrub->n_held);
        scrub->n_held = 0;

        return left;
}

bool scrub_text(const struct scrub_words *words, char *bytes, size_t n) {
        struct scrub scrub = { .words = (struct scrub_words *)words };
        struct str rest = str_n(bytes, n);
        struct needle_match match;

        if (needle_scan_init(&scrub.scan, words->needles, true) < 0) {
                memset(bytes, '*', n);
                return true;
        }

        struct place place = { .scrub = &scrub, .bytes = bytes };

        while (needle_scan_next(&scrub.scan, &rest, &match) || needle_scan_end(&scrub.scan, &match)) {
                scrub_replace(&place, &match);
                scrub.found = true;
        }

        needle_scan_done(&scrub.scan);
        return scrub.found;
}
