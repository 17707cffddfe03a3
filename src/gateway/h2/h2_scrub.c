/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back in HTTP/2 streams from a host that has credentials: heads, bodies and trailers are searched. A
 * response in another content coding than was asked for is decoded first, by the rules of http_scrub.c. Messages of
 * gRPC that are compressed one by one are refused: they were not offered either.
 */
#include "gateway/h2/h2_swap.h"

#include "base/cleanup.h"

#include <errno.h>

void h2_swap_scrub_fields(struct h2_stream *stream, struct h2_fields *fields) {
        if (stream->swap && stream->swap->swap.words && fields->text.n > 0)
                scrub_text(stream->swap->swap.words, fields->text.p, fields->text.n);
}

/* coded responses */

static enum coding coding_in(const struct h2_fields *fields) {
        enum coding found = CODING_IDENTITY;

        for (size_t i = 0; i < fields->n; i++) {
                struct str name = h2_field_name(fields, i), value = h2_field_value(fields, i);
                if (str_is(name, "content-encoding"))
                        found = coding_add(found, value);
                else if (str_is(name, "grpc-encoding") && coding_of(value) != CODING_IDENTITY)
                        return CODING_UNKNOWN; /* message by message */
        }

        return found;
}

/* What was said about the coded form goes; an ETag becomes a weak one. */
static void plain_fields(struct h2_fields *fields) {
        char weak[256];
        struct buf etag = { .p = weak, .cap = sizeof weak, .max = sizeof weak };
        size_t n = 0;
        for (size_t i = 0; i < fields->n; i++) {
                struct str name = h2_field_name(fields, i), value = h2_field_value(fields, i);
                bool strong = str_is(name, "etag") && !str_starts(value, STR("W/"));
                if (strong && etag.n == 0 && (buf_add(&etag, "W/") < 0 || buf_append(&etag, value) < 0))
                        buf_clear(&etag);
                if (!strong && !coding_has_header(name))
                        fields->at[n++] = fields->at[i];
        }

        fields->n = n;
        if (etag.n > 0)
                h2_fields_add(fields, STR("etag"), buf_str(&etag), false);
}

/* 1 when its body will be decoded. */
static int begin_decoding(struct h2_stream *stream, struct h2_fields *fields, unsigned status, bool ended) {
        enum coding coding = stream->swap->swap.telling ? coding_in(fields) : CODING_IDENTITY;
        if (coding == CODING_IDENTITY)
                return 0;

        if (coding == CODING_UNKNOWN || status == 206) {
                stream->why =
                    "The response is compressed although that was not asked for, in a way that cannot be undone, "
                    "so it cannot be searched for secrets.";
                if (!ended)
                        return -EPROTO;

                return 0;
        }

        plain_fields(fields);
        if (ended)
                return 0;

        stream->down.worked = true;
        stream->down.raw = BUF(2 * H2_STREAM_WINDOW);
        int r = decoder_new(coding, &stream->swap->decoder);
        if (r < 0)
                return r;

        return 1;
}

/* heads */

/* The origin has stopped where a secret may begin: perhaps its message is over. */
static void on_silence(struct timer *timer) {
        struct h2_swap *swap = link_owner(timer, struct h2_swap, patience);
        struct h2_stream *stream = swap->stream;
        if (!stream->down.dropped && h2_flow_add(&stream->down, scrub_release(&swap->scrub)) < 0)
                h2_stream_fail(stream, REASON_LIMIT, -ENOMEM);
        h2_flow_resume(&stream->down);
        loop_soon(stream->session->client.worker->loop, &stream->session->later);
}

int h2_swap_take_head(struct h2_stream *stream, struct h2_fields *fields, unsigned status, bool ended) {
        struct h2_swap *swap = stream->swap;
        if (!swap || !swap->swap.words)
                return 0;

        int r = 0;

        if (status >= 200)
                r = begin_decoding(stream, fields, status, ended);

        if (r < 0)
                return r;

        h2_swap_scrub_fields(stream, fields);
        swap_saw_status(&swap->swap, status);
        if (status < 200 || ended)
                return 0;

        timer_init(&swap->patience, stream->session->client.worker->loop, on_silence);
        return scrub_init(&swap->scrub, swap->swap.words);
}

/* bodies */

static int scrub_search(struct h2_flow *flow, char *bytes, size_t n) {
        struct h2_swap *swap = flow->stream->swap;
        struct str before, now;

        swap_search(&swap->scrub, &swap->patience, bytes, n, &before, &now);
        int r = h2_flow_add(flow, before);
        if (r < 0)
                return r;

        return h2_flow_add(flow, now);
}

int h2_swap_add(struct h2_flow *flow, char *bytes, size_t n) {
        struct h2_swap *swap = flow->stream->swap;
        if (flow->worked)
                return buf_append(&flow->raw, str_n(bytes, n)); /* no more than a window: it fits */
        if (flow->from == H2_ORIGIN && swap && scrub_is_on(&swap->scrub))
                return scrub_search(flow, bytes, n);
        return h2_flow_add(flow, str_n(bytes, n));
}

static int end_search(struct h2_flow *flow) {
        struct h2_swap *swap = flow->stream->swap;
        timer_stop(&swap->patience);
        int r = h2_flow_add(flow, scrub_end(&swap->scrub));
        scrub_done(&swap->scrub);
        return r;
}

int h2_swap_end(struct h2_flow *flow) {
        struct h2_swap *swap = flow->stream->swap;
        if (flow->from != H2_ORIGIN || flow->worked || !swap || !scrub_is_on(&swap->scrub))
                return 0;

        return end_search(flow);
}

int h2_swap_decode_some(struct h2_flow *flow) {
        struct h2_stream *stream = flow->stream;
        struct h2_swap *swap = stream->swap;
        struct str in = str_skip(buf_str(&flow->raw), flow->raw_at);
        size_t had = in.n;
        char *out = stream->session->client.worker->pool.scratch;
        ssize_t n = decoder_run(swap->decoder, &in, out, POOL_CHUNK_BYTES);
        if (n < 0) {
                stream->why = n == -E2BIG ? "The response grows without end when it is decompressed."
                                          : "The response is not compressed in the way that it says.";
                if (n == -ENOMEM)
                        return -ENOMEM;

                return -EBADMSG;
        }

        h2_flow_used(flow, had - in.n);
        int r = 0;

        if (n > 0)
                r = scrub_search(flow, out, (size_t)n);

        if (r < 0 || !flow->ended || decoder_owes(swap->decoder))
                return r;

        if (!decoder_is_whole(swap->decoder)) {
                stream->why = "The response ends in the middle of its compressed form.";
                return -EBADMSG;
        }

        flow->finished = true;
        return end_search(flow);
}

void h2_swap_done_down(struct h2_swap *h2_swap) {
        if (scrub_is_on(&h2_swap->scrub))
                timer_stop(&h2_swap->patience);
        scrub_done(&h2_swap->scrub);
        decoder_free(take_ptr(&h2_swap->decoder));
}
