/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back in HTTP/2 streams from a host that has credentials: heads, bodies and trailers are searched. A
 * response in another content coding than was asked for is decoded first, by the rules of http_scrub.c. Messages of
 * gRPC that are compressed one by one are refused: they were not offered either.
 */
#include "gateway/h2/h2_swap.h"

#include "base/cleanup.h"

#include <errno.h>

void h2_swap_scrub_fields(struct h2_stream *t, struct h2_fields *f) {
        if (t->swap && t->swap->swap.words && f->text.n > 0)
                scrub_text(t->swap->swap.words, f->text.p, f->text.n);
}

/* coded responses */

static enum coding coding_in(const struct h2_fields *f) {
        enum coding found = CODING_IDENTITY;
        for (size_t i = 0; i < f->n; i++) {
                struct str name = h2_field_name(f, i), value = h2_field_value(f, i);
                if (str_is(name, "content-encoding"))
                        found = coding_add(found, value);
                else if (str_is(name, "grpc-encoding") && coding_of(value) != CODING_IDENTITY)
                        return CODING_UNKNOWN; /* message by message */
        }
        return found;
}

/* What was said about the coded form goes; an ETag becomes a weak one. */
static void plain_fields(struct h2_fields *f) {
        char weak[256];
        struct buf etag = { .p = weak, .cap = sizeof weak, .max = sizeof weak };
        size_t n = 0;
        for (size_t i = 0; i < f->n; i++) {
                struct str name = h2_field_name(f, i), value = h2_field_value(f, i);
                bool strong = str_is(name, "etag") && !str_starts(value, STR("W/"));
                if (strong && etag.n == 0 && (buf_add(&etag, "W/") < 0 || buf_append(&etag, value) < 0))
                        buf_clear(&etag);
                if (!strong && !coding_has_header(name))
                        f->at[n++] = f->at[i];
        }
        f->n = n;
        if (etag.n > 0)
                h2_fields_add(f, STR("etag"), buf_str(&etag), false);
}

/* 1 when its body will be decoded. */
static int begin_decoding(struct h2_stream *t, struct h2_fields *f, unsigned status, bool ended) {
        enum coding coding = t->swap->swap.telling ? coding_in(f) : CODING_IDENTITY;
        if (coding == CODING_IDENTITY)
                return 0;
        if (coding == CODING_UNKNOWN || status == 206) {
                t->why = "The response is compressed although that was not asked for, in a way that cannot be undone, "
                         "so it cannot be searched for secrets.";
                return ended ? 0 : -EPROTO;
        }
        plain_fields(f);
        if (ended)
                return 0;
        t->down.worked = true;
        t->down.raw = BUF(2 * H2_STREAM_WINDOW);
        int r = decoder_new(coding, &t->swap->decoder);
        return r < 0 ? r : 1;
}

/* heads */

/* The origin has stopped where a secret may begin: perhaps its message is over. */
static void on_silence(struct timer *timer) {
        struct h2_swap *k = link_owner(timer, struct h2_swap, patience);
        struct h2_stream *t = k->stream;
        if (!t->down.dropped && h2_flow_add(&t->down, scrub_release(&k->scrub)) < 0)
                h2_stream_fail(t, REASON_LIMIT, -ENOMEM);
        h2_flow_resume(&t->down);
        loop_soon(t->session->client.worker->loop, &t->session->later);
}

int h2_swap_take_head(struct h2_stream *t, struct h2_fields *f, unsigned status, bool ended) {
        struct h2_swap *k = t->swap;
        if (!k || !k->swap.words)
                return 0;
        int r = status < 200 ? 0 : begin_decoding(t, f, status, ended);
        if (r < 0)
                return r;
        h2_swap_scrub_fields(t, f);
        swap_saw_status(&k->swap, status);
        if (status < 200 || ended)
                return 0;
        timer_init(&k->patience, t->session->client.worker->loop, on_silence);
        return scrub_init(&k->scrub, k->swap.words);
}

/* bodies */

static int search(struct h2_flow *f, char *bytes, size_t n) {
        struct h2_swap *k = f->stream->swap;
        struct str before, now;
        swap_search(&k->scrub, &k->patience, bytes, n, &before, &now);
        int r = h2_flow_add(f, before);
        return r < 0 ? r : h2_flow_add(f, now);
}

int h2_swap_add(struct h2_flow *f, char *bytes, size_t n) {
        struct h2_swap *k = f->stream->swap;
        if (f->worked)
                return buf_append(&f->raw, str_n(bytes, n)); /* no more than a window: it fits */
        if (f->from == H2_ORIGIN && k && scrub_is_on(&k->scrub))
                return search(f, bytes, n);
        return h2_flow_add(f, str_n(bytes, n));
}

static int end_search(struct h2_flow *f) {
        struct h2_swap *k = f->stream->swap;
        timer_stop(&k->patience);
        int r = h2_flow_add(f, scrub_end(&k->scrub));
        scrub_done(&k->scrub);
        return r;
}

int h2_swap_end(struct h2_flow *f) {
        struct h2_swap *k = f->stream->swap;
        return f->from != H2_ORIGIN || f->worked || !k || !scrub_is_on(&k->scrub) ? 0 : end_search(f);
}

int h2_swap_decode_some(struct h2_flow *f) {
        struct h2_stream *t = f->stream;
        struct h2_swap *k = t->swap;
        struct str in = str_skip(buf_str(&f->raw), f->raw_at);
        size_t had = in.n;
        char *out = t->session->client.worker->pool.scratch;
        ssize_t n = decoder_run(k->decoder, &in, out, POOL_CHUNK_BYTES);
        if (n < 0) {
                t->why = n == -E2BIG ? "The response grows without end when it is decompressed."
                                     : "The response is not compressed in the way that it says.";
                return n == -ENOMEM ? -ENOMEM : -EBADMSG;
        }
        h2_flow_used(f, had - in.n);
        int r = n > 0 ? search(f, out, (size_t)n) : 0;
        if (r < 0 || !f->ended || decoder_owes(k->decoder))
                return r;
        if (!decoder_is_whole(k->decoder)) {
                t->why = "The response ends in the middle of its compressed form.";
                return -EBADMSG;
        }
        f->finished = true;
        return end_search(f);
}

void h2_swap_done_down(struct h2_swap *k) {
        if (scrub_is_on(&k->scrub))
                timer_stop(&k->patience);
        scrub_done(&k->scrub);
        decoder_free(take_ptr(&k->decoder));
}
