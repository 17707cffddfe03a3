/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/swap.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secret.h"
#include "gateway/creds/old_secrets.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { CACHED_WORDS = 8, OUTPUT_MAX = 1 << 18, PAIRS_MAX = 4 * CREDENTIALS_MAX };

/* Words by what they are made of: the mappings of a host, and all values that were there then. */
struct swap_cache {
        size_t next;
        struct swap_words {
                struct scrub_words *words;
                struct credential_set set, absent;
                uint64_t generation; /* past_generation() */
                bool telling;
        } entries[CACHED_WORDS];
};

static void cache_clear(struct worker *w) {
        for (size_t i = 0; w->swaps && i < CACHED_WORDS; i++)
                scrub_words_unref(take_ptr(&w->swaps->entries[i].words));
}

void swap_cache_free(struct worker *w) {
        cache_clear(w);
        free(take_ptr(&w->swaps));
}

bool swap_is_wanted(const struct worker *w, const struct authority *to) {
        if (!w->gateway->credentials || !w->vault)
                return false;
        struct credential_set at = credentials_at(w->gateway->credentials, &to->host, to->port);
        return !credential_set_is_empty(&at);
}

void swap_init(struct swap *s, struct worker *w, const struct authority *to, const struct credential_set *set,
               void (*done)(struct swap *s)) {
        *s = (struct swap){ .worker = w, .to = to, .done = done, .set = *set };
        link_init(&s->call.link);
}

void swap_done(struct swap *s) {
        vault_call_cancel(&s->call);
        scrub_words_unref(take_ptr(&s->words));
}

const char *swap_error_text(int error) {
        switch (error) {
        case -ENOKEY:
                return "The credential has no value now: its source does not give one.";
        case -EACCES:
                return "the vault does not release the credential for this host";
        case -EILSEQ:
                return "the credential has bytes that cannot stand in this place of a request";
        case -EMSGSIZE:
                return "The request is too large with its credential";
        default:
                return "The vault does not answer.";
        }
}

/* --- values --- */

static bool is_used(const struct inject_plan *p, uint32_t mapping) {
        for (size_t i = 0; i < p->n_swaps; i++)
                if (p->swaps[i].mapping == mapping)
                        return true;
        return false;
}

static void on_answer(struct vault_call *c, int error) {
        struct swap *s = link_owner(c, struct swap, call);
        if (error < 0)
                s->failed = error;
        s->done(s);
}

/* What signs: the scope of the request. Of an AWS credential that is not in it only what answers are searched for is
 * wanted (the key's id, the session's token), which come with a key of any scope: that of this one signs nothing. */
static struct vault_scope scope_of(const struct inject_plan *p, uint32_t mapping) {
        static _Thread_local char today[9];
        if (is_used(p, mapping))
                return (struct vault_scope){ p->sigv4.date, p->sigv4.region, p->sigv4.service };
        time_t now = (time_t)(clock_wall_us() / 1000000);
        struct tm t;
        (void)strftime(today, sizeof today, "%Y%m%d", gmtime_r(&now, &t));
        return (struct vault_scope){ str_n(today, 8), STR("none"), STR("none") };
}

static bool is_signature(const struct inject_plan *p) {
        return p->n_swaps > 0 && p->swaps[0].slot == SLOT_SIGV4;
}

/* Asks for one value. A host's other credentials may be without one; the request's own may not. */
static int ask(struct swap *s, const struct inject_plan *p, const struct credential_mapping *m) {
        struct vault_scope scope = scope_of(p, m->index);
        bool used = is_used(p, m->index);
        int r = s->failed;
        cache_clear(s->worker);
        if (r == 0 || s->asked != m->index) {
                if (s->n_asked++ > 2 * CREDENTIALS_MAX)
                        return -ETIMEDOUT; /* they push each other out, or change all the time */
                s->asked = m->index;
                s->failed = 0;
                s->call.done = on_answer;
                r = m->kind == MAPPING_SIGV4
                        ? vault_ask_signing_key(s->worker->vault, m->index, s->to, &scope, &s->call)
                        : vault_ask_value(s->worker->vault, m->index, s->to, &s->call);
                if (r == 0)
                        return -EINPROGRESS;
        }
        s->failed = 0;
        if (used || (r != -ENOKEY && r != -EACCES))
                return r;
        s->absent.bits[m->index / 64] |= 1ULL << m->index % 64;
        return 0;
}

struct pairs {
        size_t n;
        struct scrub_pair at[PAIRS_MAX];
};

static void add_pair(struct pairs *to, struct str real, struct str fake) {
        if (real.n >= VAULT_SECRET_MIN && to->n < PAIRS_MAX)
                to->at[to->n++] = (struct scrub_pair){ real, fake };
}

/* The values of this moment; true when one of them is a secret by itself. */
static bool add_current(struct swap *s, const struct inject_plan *p, const struct credential_mapping *m,
                        struct pairs *to) {
        if (m->kind == MAPPING_VALUE) {
                const struct vault_value *v = vault_value(s->worker->vault, m->index, s->to);
                if (v)
                        add_pair(to, v->bytes, m->fake[PART_VALUE]);
                return v != NULL;
        }
        struct vault_scope scope = scope_of(p, m->index);
        const struct vault_signing_key *k = vault_signing_key(s->worker->vault, m->index, s->to, &scope);
        if (k) {
                add_pair(to, k->key_id, m->fake[PART_KEY_ID]);
                add_pair(to, k->token, m->fake[PART_SESSION_TOKEN]);
        }
        return false; /* a key id and a session's token are worth nothing without the secret key */
}

/* Those of other workers, and those that were replaced not long ago; the same. */
static bool add_past(struct past *past, const struct credential_mapping *m, struct pairs *to) {
        enum vault_part part;
        struct str value;
        bool telling = false;
        for (size_t at = 0; past_next(past, m->index, &at, &part, &value);) {
                add_pair(to, value, m->fake[part]);
                telling |= m->kind == MAPPING_VALUE;
        }
        return telling;
}

static int make_words(struct swap *s, const struct inject_plan *p, struct swap_words *ret) {
        static _Thread_local struct pairs pairs; /* large, and needed only within this call */
        struct gateway *g = s->worker->gateway;
        int r = 0;
        pairs.n = 0;
        for (uint32_t i = 0; i < credentials_count(g->credentials); i++)
                if (credential_set_has(&s->set, i))
                        ret->telling |= add_current(s, p, credentials_get(g->credentials, i), &pairs);
        if (g->past)
                past_lock(g->past, loop_now(s->worker->loop));
        for (uint32_t i = 0; g->past && i < credentials_count(g->credentials); i++)
                if (credential_set_has(&s->set, i))
                        ret->telling |= add_past(g->past, credentials_get(g->credentials, i), &pairs);
        if (pairs.n > 0)
                r = scrub_words_new(pairs.at, pairs.n, &ret->words);
        if (g->past)
                past_unlock(g->past);
        return r;
}

static bool is_same(const struct credential_set *a, const struct credential_set *b) {
        return memcmp(a, b, sizeof *a) == 0;
}

/* Everything that must not come back. */
static int find_words(struct swap *s, const struct inject_plan *p) {
        struct worker *w = s->worker;
        uint64_t generation = past_generation(w->gateway->past);
        scrub_words_unref(take_ptr(&s->words));
        if (!w->swaps && !(w->swaps = calloc(1, sizeof *w->swaps)))
                return -ENOMEM;
        for (size_t i = 0; i < CACHED_WORDS; i++) {
                const struct swap_words *e = &w->swaps->entries[i];
                if (!e->words || e->generation != generation || !is_same(&e->set, &s->set) ||
                    !is_same(&e->absent, &s->absent))
                        continue;
                s->words = scrub_words_ref(e->words);
                s->telling = e->telling;
                return 0;
        }
        struct swap_words made = { .set = s->set, .absent = s->absent, .generation = generation };
        int r = make_words(s, p, &made);
        s->telling = made.telling;
        if (r < 0 || !made.words)
                return r;
        s->words = scrub_words_ref(made.words);
        struct swap_words *place = &w->swaps->entries[w->swaps->next++ % CACHED_WORDS];
        scrub_words_unref(place->words);
        *place = made;
        return 0;
}

static bool is_here(const struct swap *s, const struct inject_plan *p, const struct credential_mapping *m) {
        if (m->kind == MAPPING_VALUE)
                return vault_value(s->worker->vault, m->index, s->to) != NULL;
        struct vault_scope scope = scope_of(p, m->index);
        return vault_signing_key(s->worker->vault, m->index, s->to, &scope) != NULL;
}

int swap_ready(struct swap *s, const struct inject_plan *p) {
        const struct credentials *table = s->worker->gateway->credentials;
        for (uint32_t i = 0; i < credentials_count(table); i++) {
                const struct credential_mapping *m = credentials_get(table, i);
                if (!credential_set_has(&s->set, i) || credential_set_has(&s->absent, i))
                        continue;
                int r = is_here(s, p, m) ? 0 : ask(s, p, m);
                if (r < 0)
                        return r;
        }
        return find_words(s, p);
}

/* --- the request that leaves --- */

/* More than is ever needed, so that the buffer never moves: a move would leave a copy of a secret behind. */
static int make_room(struct swap_output *out, size_t n) {
        int e = buf_reserve(&out->text, n < OUTPUT_MAX ? n : OUTPUT_MAX);
        out->text.max = e < 0 ? 0 : out->text.cap - 1; /* too long is an error, never a move */
        return e;
}

static int rewrite_values(struct swap *s, const struct request_view *r, const struct inject_plan *p,
                          struct swap_output *out) {
        struct str values[INJECT_SWAPS_MAX] = { 0 };
        size_t room = 64 + 4 * r->target.n;
        for (size_t i = 0; i < p->n_swaps; i++) {
                const struct vault_value *v = vault_value(s->worker->vault, p->swaps[i].mapping, s->to);
                if (!v)
                        return -EPIPE;
                values[i] = v->bytes;
                room += 4 * v->bytes.n;
                if (p->swaps[i].header != INJECT_IN_TARGET && p->swaps[i].header != INJECT_IN_BODY)
                        room += 2 * r->headers[p->swaps[i].header].value.n;
                if (i == 0)
                        s->serial = v->serial;
        }
        int e = make_room(out, room);
        if (e < 0)
                return e;
        size_t at = out->text.n;
        e = inject_target(p, r, values, &out->text);
        if (e > 0)
                out->target = str_skip(buf_str(&out->text), at);
        for (size_t i = 0; e >= 0 && i < out->n_headers; i++) {
                at = out->text.n;
                e = inject_header(p, r, i, values, &out->text);
                if (e > 0)
                        out->headers[i].value = str_skip(buf_str(&out->text), at);
        }
        return e < 0 ? e : 0;
}

bool swap_signing_key(struct swap *s, const struct inject_plan *p, struct sigv4_key *ret) {
        struct vault_scope scope = scope_of(p, p->swaps[0].mapping);
        const struct vault_signing_key *k = vault_signing_key(s->worker->vault, p->swaps[0].mapping, s->to, &scope);
        if (!k || k->key.n != sizeof ret->key)
                return false;
        *ret = (struct sigv4_key){ .key_id = k->key_id, .token = k->token };
        memcpy(ret->key, k->key.p, sizeof ret->key);
        s->serial = k->serial;
        return true;
}

static int rewrite_signature(struct swap *s, const struct request_view *r, const struct inject_plan *p,
                             struct str body_hash, struct swap_output *out) {
        struct sigv4_key key;
        int e = make_room(out, 4096 + 4 * (r->target.n + VAULT_SECRET_MAX));
        if (e < 0)
                return e;
        if (!swap_signing_key(s, p, &key))
                return -EPIPE;
        size_t n = 0, at = out->text.n;
        for (size_t i = 0; i < out->n_headers; i++)
                if (!str_eq_nocase(out->headers[i].name, STR("x-amz-security-token")))
                        out->headers[n++] = out->headers[i];
        struct request_view leaves = *r;
        leaves.headers = out->headers;
        leaves.n_headers = n;
        e = sigv4_sign(&p->sigv4, &leaves, &key, body_hash, &out->text, out->seed);
        struct str made = str_skip(buf_str(&out->text), at);
        secret_wipe(key.key, sizeof key.key);
        if (e < 0)
                return e;
        if (p->sigv4.presigned)
                out->target = made;
        for (size_t i = 0; i < n && !p->sigv4.presigned; i++)
                if (str_eq_nocase(out->headers[i].name, STR("authorization")))
                        out->headers[i].value = made;
        out->n_headers = n;
        if (key.token.n > 0 && !p->sigv4.presigned) {
                at = out->text.n;
                e = buf_append(&out->text, key.token);
                out->headers[out->n_headers++] =
                    (struct header_view){ STR("x-amz-security-token"), str_skip(buf_str(&out->text), at) };
        }
        return e;
}

/* A response in another coding could not be searched, nor could a WebSocket with compression. */
static void force_identity(struct swap_output *out) {
        size_t n = 0;
        for (size_t i = 0; i < out->n_headers; i++)
                if (!str_eq_nocase(out->headers[i].name, STR("accept-encoding")) &&
                    !str_eq_nocase(out->headers[i].name, STR("sec-websocket-extensions")))
                        out->headers[n++] = out->headers[i];
        out->headers[n++] = (struct header_view){ STR("Accept-Encoding"), STR("identity") };
        out->n_headers = n;
}

int swap_again(struct swap *s, const struct inject_plan *p) {
        int e = swap_ready(s, p);
        return e < 0 ? e : -EPIPE;
}

int swap_rewrite(struct swap *s, const struct request_view *r, const struct inject_plan *p, struct str body_hash,
                 struct swap_output *out) {
        out->text = BUF(OUTPUT_MAX);
        out->target = (struct str){ 0 };
        if (r->n_headers + 2 > SWAP_HEADERS_MAX)
                return -EMSGSIZE;
        int e = 0;
        memcpy(out->headers, r->headers, r->n_headers * sizeof out->headers[0]);
        out->n_headers = r->n_headers;
        s->swapped = p->n_swaps > 0;
        s->mapping = s->swapped ? p->swaps[0].mapping : UINT32_MAX;
        if (e == 0 && !is_signature(p))
                e = rewrite_values(s, r, p, out);
        if (e == 0)
                force_identity(out);
        if (e == 0 && is_signature(p))
                e = rewrite_signature(s, r, p, body_hash, out);
        return e == -EPIPE ? swap_again(s, p) : e;
}

void swap_output_done(struct swap_output *out) {
        if (out->text.p)
                secret_wipe(out->text.p, out->text.cap);
        buf_done(&out->text);
}

void swap_search(struct scrub *scrub, struct timer *patience, char *bytes, size_t n, struct str *ret_before,
                 struct str *ret_now) {
        scrub_feed(scrub, bytes, n, ret_before, ret_now);
        if (scrub->n_held > 0)
                timer_start(patience, SCRUB_RELEASE_NS);
        else
                timer_stop(patience);
}

void swap_saw_status(const struct swap *s, unsigned status) {
        const struct credential_mapping *m = credentials_get(s->worker->gateway->credentials, s->mapping);
        bool refused = status == 401 || (status == 403 && m && m->kind == MAPPING_SIGV4); /* as AWS says it */
        if (s->swapped && refused)
                vault_tell_stale(s->worker->vault, s->mapping, s->serial);
}
