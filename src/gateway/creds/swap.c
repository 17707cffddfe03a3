/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/swap.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secrets/secret.h"
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

static void cache_clear(struct worker *worker) {
        for (size_t i = 0; worker->swaps && i < CACHED_WORDS; i++)
                scrub_words_unref(take_ptr(&worker->swaps->entries[i].words));
}

void swap_cache_free(struct worker *worker) {
        cache_clear(worker);
        free(take_ptr(&worker->swaps));
}

bool swap_is_wanted(const struct worker *worker, const struct authority *to) {
        if (!worker->gateway->credentials || !worker->vault)
                return false;
        struct credential_set at = credentials_at(worker->gateway->credentials, &to->host, to->port);
        return !credential_set_is_empty(&at);
}

int swap_init(struct swap *swap, struct worker *worker, const struct authority *to, const struct inject_plan *plan,
              void (*done)(struct swap *swap)) {
        swap->worker = worker;
        swap->to = to;
        swap->done = done;
        swap->set = plan->set;
        swap->names = BUF(EVENT_TEXT_MAX);
        link_init(&swap->call.link);

        return inject_names(plan, worker->gateway->credentials, &swap->names);
}

/* Another try: nothing of the body has left. */
static void end_stream(struct swap *swap) {
        if (swap->streaming)
                sigv4_stream_done(&swap->stream);
        swap->streaming = false;
}

void swap_done(struct swap *swap) {
        vault_call_cancel(&swap->call);
        scrub_words_unref(take_ptr(&swap->words));
        end_stream(swap);
        buf_done(&swap->names);
}

const char *swap_error_text(int error) {
        switch (error) {
        case -ENOKEY:
                return "The credential has no value now: its source does not give one.";
        case -EACCES:
                return "the vault does not release the credential for this host";
        case -EKEYREVOKED:
                return "a ratchet has closed and taken the credentials away, for the rest of this run";
        case -EILSEQ:
                return "the credential has bytes that cannot stand in this place of a request";
        case -EMSGSIZE:
                return "The request is too large with its credential";
        default:
                return "The vault does not answer.";
        }
}

enum reason swap_error_reason(int error) {
        return error == -EILSEQ || error == -EACCES || error == -EKEYREVOKED ? REASON_CREDENTIAL : REASON_VAULT;
}

/* --- values --- */

static bool is_used(const struct inject_plan *plan, uint32_t mapping) {
        for (size_t i = 0; i < plan->n_swaps; i++)
                if (plan->swaps[i].mapping == mapping)
                        return true;
        return false;
}

static void on_answer(struct vault_call *c, int error) {
        struct swap *swap = link_owner(c, struct swap, call);
        if (error < 0)
                swap->failed = error;
        swap->done(swap);
}

/* The scope of the request to be signed. If the request does not use this AWS credential, we only need its key id and
 * session token to scrub responses. Any scope returns those, so ask for one that signs nothing. */
static struct vault_scope scope_of(const struct inject_plan *plan, uint32_t mapping) {
        static _Thread_local char today[9];
        if (is_used(plan, mapping))
                return (struct vault_scope){ plan->sigv4.date, plan->sigv4.region, plan->sigv4.service };
        time_t now = (time_t)(clock_wall_us() / 1000000);
        struct tm t;
        (void)strftime(today, sizeof today, "%Y%m%d", gmtime_r(&now, &t));
        return (struct vault_scope){ str_n(today, 8), STR("none"), STR("none") };
}

static bool is_signature(const struct inject_plan *plan) {
        return plan->n_swaps > 0 && plan->swaps[0].slot == SLOT_SIGV4;
}

/* Asks for one value. A host's other credentials may be without one; the request's own may not. */
static int swap_ask(struct swap *swap, const struct inject_plan *plan, const struct credential_mapping *mapping) {
        struct vault_scope scope = scope_of(plan, mapping->index);
        bool used = is_used(plan, mapping->index);
        int r = swap->failed;

        cache_clear(swap->worker);

        if (r == 0 || swap->asked != mapping->index) {
                if (swap->n_asked++ > 2 * CREDENTIALS_MAX)
                        return -ETIMEDOUT; /* they push each other out, or change all the time */

                swap->asked = mapping->index;
                swap->failed = 0;
                swap->call.done = on_answer;
                if (mapping->kind == MAPPING_SIGV4)
                        r = vault_ask_signing_key(swap->worker->vault, mapping->index, swap->to, &scope, &swap->call);
                else
                        r = vault_ask_value(swap->worker->vault, mapping->index, swap->to, &swap->call);
                if (r == 0)
                        return -EINPROGRESS;
        }

        swap->failed = 0;
        if (used || (r != -ENOKEY && r != -EACCES))
                return r;

        swap->absent.bits[mapping->index / 64] |= 1ULL << mapping->index % 64;
        return 0;
}

struct pairs {
        size_t n;
        struct scrub_pair at[PAIRS_MAX];
};

static void add_pair(struct pairs *to, struct str real, struct str stand_in) {
        if (real.n >= VAULT_SECRET_MIN && to->n < PAIRS_MAX)
                to->at[to->n++] = (struct scrub_pair){ real, stand_in };
}

/* The values of this moment; true when one of them is a secret by itself. */
static bool add_current(struct swap *swap, const struct inject_plan *plan, const struct credential_mapping *mapping,
                        struct pairs *to) {
        if (mapping->kind == MAPPING_VALUE) {
                const struct vault_value *value = vault_value(swap->worker->vault, mapping->index, swap->to);
                if (value)
                        add_pair(to, value->bytes, mapping->stand_in[PART_VALUE]);
                return value != NULL;
        }

        struct vault_scope scope = scope_of(plan, mapping->index);
        const struct vault_signing_key *key = vault_signing_key(swap->worker->vault, mapping->index, swap->to, &scope);
        if (key) {
                add_pair(to, key->key_id, mapping->stand_in[PART_KEY_ID]);
                add_pair(to, key->token, mapping->stand_in[PART_SESSION_TOKEN]);
        }

        return false; /* a key id and a session's token are worth nothing without the secret key */
}

/* Those of other workers, and those that were replaced not long ago; the same. */
static bool add_past(struct past *past, const struct credential_mapping *mapping, struct pairs *to) {
        enum vault_part part;
        struct str value;
        bool telling = false;

        for (size_t at = 0; past_next(past, mapping->index, &at, &part, &value);) {
                add_pair(to, value, mapping->stand_in[part]);
                telling |= mapping->kind == MAPPING_VALUE;
        }

        return telling;
}

static int make_words(struct swap *swap, const struct inject_plan *plan, struct swap_words *ret) {
        static _Thread_local struct pairs pairs; /* large, and needed only within this call */
        struct gateway *gateway = swap->worker->gateway;
        int r = 0;

        pairs.n = 0;

        for (uint32_t i = 0; i < credentials_count(gateway->credentials); i++)
                if (credential_set_has(&swap->set, i))
                        ret->telling |= add_current(swap, plan, credentials_get(gateway->credentials, i), &pairs);

        if (gateway->past)
                past_lock(gateway->past, loop_now(swap->worker->loop));

        for (uint32_t i = 0; gateway->past && i < credentials_count(gateway->credentials); i++)
                if (credential_set_has(&swap->set, i))
                        ret->telling |= add_past(gateway->past, credentials_get(gateway->credentials, i), &pairs);

        if (pairs.n > 0)
                r = scrub_words_new(pairs.at, pairs.n, &ret->words);
        if (gateway->past)
                past_unlock(gateway->past);

        return r;
}

static bool is_same(const struct credential_set *set, const struct credential_set *credential_set) {
        return memcmp(set, credential_set, sizeof *set) == 0;
}

/* Everything that must not come back. */
static int find_words(struct swap *swap, const struct inject_plan *plan) {
        struct worker *worker = swap->worker;
        uint64_t generation = past_generation(worker->gateway->past);

        scrub_words_unref(take_ptr(&swap->words));
        if (!worker->swaps && !(worker->swaps = calloc(1, sizeof *worker->swaps)))
                return -ENOMEM;

        for (size_t i = 0; i < CACHED_WORDS; i++) {
                const struct swap_words *words = &worker->swaps->entries[i];
                if (!words->words || words->generation != generation || !is_same(&words->set, &swap->set) ||
                    !is_same(&words->absent, &swap->absent))
                        continue;

                swap->words = scrub_words_ref(words->words);
                swap->telling = words->telling;
                return 0;
        }

        struct swap_words made = { .set = swap->set, .absent = swap->absent, .generation = generation };
        int r = make_words(swap, plan, &made);
        swap->telling = made.telling;

        if (r < 0 || !made.words)
                return r;

        swap->words = scrub_words_ref(made.words);
        struct swap_words *place = &worker->swaps->entries[worker->swaps->next++ % CACHED_WORDS];
        scrub_words_unref(place->words);
        *place = made;

        return 0;
}

static bool is_here(const struct swap *swap, const struct inject_plan *plan, const struct credential_mapping *mapping) {
        if (mapping->kind == MAPPING_VALUE)
                return vault_value(swap->worker->vault, mapping->index, swap->to) != NULL;
        struct vault_scope scope = scope_of(plan, mapping->index);
        return vault_signing_key(swap->worker->vault, mapping->index, swap->to, &scope) != NULL;
}

/* Every value of the host is here. */
static int swap_ready(struct swap *swap, const struct inject_plan *plan) {
        const struct credentials *table = swap->worker->gateway->credentials;
        if (plan->n_swaps > 0 && snapshot_takes_credentials(worker_snapshot(swap->worker)))
                return -EKEYREVOKED;
        for (uint32_t i = 0; i < credentials_count(table); i++) {
                const struct credential_mapping *mapping = credentials_get(table, i);

                if (!credential_set_has(&swap->set, i) || credential_set_has(&swap->absent, i))
                        continue;

                int r = 0;

                if (!is_here(swap, plan, mapping))
                        r = swap_ask(swap, plan, mapping);

                if (r < 0)
                        return r;
        }

        return find_words(swap, plan);
}

/* --- the request that leaves --- */

/* More than is ever needed, so that the buffer never moves: a move would leave a copy of a secret behind. */
static int make_room(struct swap_output *out, size_t n) {
        int e = buf_reserve(&out->text, min_of(n, OUTPUT_MAX));
        out->text.max = e < 0 ? 0 : out->text.cap - 1; /* too long is an error, never a move */
        return e;
}

static int rewrite_values(struct swap *swap, const struct request_view *view, const struct inject_plan *plan,
                          struct swap_output *out) {
        struct str values[INJECT_SWAPS_MAX] = { 0 };
        size_t room = 64 + 4 * view->target.n;

        for (size_t i = 0; i < plan->n_swaps; i++) {
                const struct vault_value *value = vault_value(swap->worker->vault, plan->swaps[i].mapping, swap->to);
                if (!value)
                        return -EPIPE;

                values[i] = value->bytes;
                room += 4 * value->bytes.n;
                if (plan->swaps[i].header != INJECT_IN_TARGET && plan->swaps[i].header != INJECT_IN_BODY)
                        room += 2 * view->headers[plan->swaps[i].header].value.n;
                if (i == 0)
                        swap->serial = value->serial;
        }

        int e = make_room(out, room);
        if (e < 0)
                return e;

        size_t at = out->text.n;
        e = inject_target(plan, view, values, &out->text);
        if (e > 0)
                out->target = str_skip(buf_str(&out->text), at);

        for (size_t i = 0; e >= 0 && i < out->n_headers; i++) {
                at = out->text.n;
                e = inject_header(plan, view, i, values, &out->text);
                if (e > 0)
                        out->headers[i].value = str_skip(buf_str(&out->text), at);
        }

        if (e < 0)
                return e;

        return 0;
}

/* The key behind the seed of a signed request; false when it has gone. */
static bool swap_signing_key(struct swap *swap, const struct inject_plan *plan, struct sigv4_key *ret) {
        struct vault_scope scope = scope_of(plan, plan->swaps[0].mapping);
        const struct vault_signing_key *key =
            vault_signing_key(swap->worker->vault, plan->swaps[0].mapping, swap->to, &scope);
        if (!key || key->key.n != sizeof ret->key)
                return false;

        *ret = (struct sigv4_key){ .key_id = key->key_id, .token = key->token };
        memcpy(ret->key, key->key.p, sizeof ret->key);
        swap->serial = key->serial;

        return true;
}

static int rewrite_signature(struct swap *swap, const struct request_view *view, const struct inject_plan *plan,
                             struct str body_hash, struct swap_output *out) {
        struct sigv4_key key;
        int e = make_room(out, 4096 + 4 * (view->target.n + VAULT_SECRET_MAX));
        if (e < 0)
                return e;
        if (!swap_signing_key(swap, plan, &key))
                return -EPIPE;

        size_t n = 0, at = out->text.n;

        for (size_t i = 0; i < out->n_headers; i++)
                if (!str_eq_nocase(out->headers[i].name, STR("x-amz-security-token")))
                        out->headers[n++] = out->headers[i];

        struct request_view leaves = *view;
        leaves.headers = out->headers;
        leaves.n_headers = n;
        e = sigv4_sign(&plan->sigv4, &leaves, &key, body_hash, &out->text, out->seed);

        struct str made = str_skip(buf_str(&out->text), at);
        secret_wipe(key.key, sizeof key.key);
        if (e < 0)
                return e;
        if (plan->sigv4.presigned)
                out->target = made;

        for (size_t i = 0; i < n && !plan->sigv4.presigned; i++)
                if (str_eq_nocase(out->headers[i].name, STR("authorization")))
                        out->headers[i].value = made;

        out->n_headers = n;

        if (key.token.n > 0 && !plan->sigv4.presigned) {
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

int swap_again(struct swap *swap) {
        int e = swap_ready(swap, &swap->plan);
        if (e < 0)
                return e;

        return -EPIPE;
}

static int swap_rewrite(struct swap *swap, const struct request_view *view, const struct inject_plan *plan,
                        struct str body_hash, struct swap_output *out) {
        if (view->n_headers + 2 > SWAP_HEADERS_MAX)
                return -EMSGSIZE;

        int e = 0;
        memcpy(out->headers, view->headers, view->n_headers * sizeof out->headers[0]);
        out->n_headers = view->n_headers;
        swap->swapped = plan->n_swaps > 0;
        swap->mapping = swap->swapped ? plan->swaps[0].mapping : UINT32_MAX;

        if (e == 0 && !is_signature(plan))
                e = rewrite_values(swap, view, plan, out);
        if (e == 0)
                force_identity(out);
        if (e == 0 && is_signature(plan))
                e = rewrite_signature(swap, view, plan, body_hash, out);

        return e;
}

/* With the key that signed the head; one that changed meanwhile is asked for, and the head is written again. */
static int begin_chunks(struct swap *swap, const char seed[static SIGV4_SIGNATURE_HEX]) {
        struct sigv4_key key;

        if (!swap_signing_key(swap, &swap->plan, &key))
                return -EPIPE;

        int e = sigv4_stream_init(&swap->stream, &swap->plan.sigv4, &key, seed);
        secret_wipe(key.key, sizeof key.key);
        swap->streaming = e == 0;

        if (e == -EINVAL)
                return -EACCES;

        return e;
}

int swap_judge(struct swap *swap, const struct request_view *view) {
        const struct credentials *table = swap->worker->gateway->credentials;

        if (inject_judge(table, swap->to, view, &swap->plan) == INJECT_REFUSE)
                return -EACCES;

        return 0;
}

int swap_compose(struct swap *swap, const struct request_view *view, const struct swap_body *body,
                 struct swap_output *out) {
        char hash[DIGEST_HEX_MAX] = "";

        out->text = BUF(OUTPUT_MAX);
        out->target = (struct str){ 0 };
        out->n_headers = 0;
        end_stream(swap);

        int e = swap_ready(swap, &swap->plan);
        if (e < 0)
                return e;

        if (body->keeps) {
                unsigned char digest[DIGEST_BYTES];

                digest_sha256(body->kept, digest);
                digest_hex(digest, hash);
        }

        e = swap_rewrite(swap, view, &swap->plan, str_of(hash), out);
        if (e == 0 && body->follows && swap_signs_chunks(&swap->plan))
                e = begin_chunks(swap, out->seed);

        if (e == -EPIPE)
                return swap_again(swap);

        return e;
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

void swap_saw_status(const struct swap *swap, unsigned status) {
        const struct credential_mapping *mapping = credentials_get(swap->worker->gateway->credentials, swap->mapping);
        bool refused =
            status == 401 || (status == 403 && mapping && mapping->kind == MAPPING_SIGV4); /* as AWS says it */
        if (swap->swapped && refused)
                vault_tell_stale(swap->worker->vault, swap->mapping, swap->serial);
}
