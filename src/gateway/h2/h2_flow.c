/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies. Bytes that one side received wait in the stream's queue until the other side has room; only then is the
 * window that they came through opened again. The connection's own window is opened at once, so that a stream whose
 * reader sleeps does not hold up the others, unless too much is queued in all. A body that leaves as other bytes than
 * came is made into those when the far side asks for them, piece by piece, so that one that grows is not held here.
 */
#include "gateway/h2/h2_swap.h"

#include "base/cleanup.h"

#include <errno.h>

enum { FRAME_HEAD = 9 };

void h2_flow_init(struct h2_flow *f, struct h2_stream *t, unsigned from) {
        *f = (struct h2_flow){ .stream = t, .from = (uint8_t)from, .bytes = BUF(2 * H2_STREAM_WINDOW) };
}

static struct h2_side *source_of(const struct h2_flow *f) {
        return &f->stream->session->side[f->from];
}

static int32_t id_at(const struct h2_stream *t, unsigned side) {
        return side == H2_CLIENT ? t->client_id : t->origin_id;
}

static void connection_passed(struct h2_side *side, size_t n) {
        side->queued -= n;
        if (side->owed > 0 && side->queued <= H2_BUDGET) {
                if (side->stream)
                        nghttp2_session_consume_connection(side->ng, side->owed);
                side->owed = 0;
        }
}

static void passed(struct h2_flow *f, size_t n) {
        struct h2_side *side = source_of(f);
        int32_t id = id_at(f->stream, f->from);
        if (f->own)
                return;
        size_t gift = n < f->gift ? n : f->gift;
        f->gift -= gift;
        n -= gift;
        f->unsent -= n;
        if (side->stream && id)
                nghttp2_session_consume_stream(side->ng, id, n);
        connection_passed(side, n);
}

void h2_flow_done(struct h2_flow *f) {
        h2_flow_drop(f);
        h2_fields_free(take_ptr(&f->trailers));
        buf_done(&f->bytes);
        buf_done(&f->raw);
}

void h2_flow_received(struct h2_flow *f, size_t n) {
        struct h2_side *side = source_of(f);
        f->unsent += n;
        side->queued += n;
        if (side->queued <= H2_BUDGET)
                nghttp2_session_consume_connection(side->ng, n);
        else
                side->owed += n;
}

int h2_flow_add(struct h2_flow *f, struct str bytes) {
        if (f->at > 0 && f->bytes.n + bytes.n >= f->bytes.cap) {
                buf_consume(&f->bytes, f->at);
                f->at = 0;
        }
        return buf_append(&f->bytes, bytes); /* no more than a window: it fits */
}

void h2_flow_drop(struct h2_flow *f) {
        f->dropped = true;
        buf_clear(&f->bytes);
        buf_clear(&f->raw);
        f->at = f->raw_at = f->gift = 0;
        if (f->unsent > 0)
                passed(f, f->unsent);
}

void h2_flow_used(struct h2_flow *f, size_t n) {
        f->raw_at += n;
        if (f->raw_at == f->raw.n) {
                buf_clear(&f->raw);
                f->raw_at = 0;
        }
        if (n > 0)
                passed(f, n);
}

int h2_flow_own(struct h2_flow *f, struct str bytes) {
        h2_flow_drop(f);
        f->own = true;
        f->ended = true;
        f->dropped = false;
        return buf_append(&f->bytes, bytes);
}

void h2_flow_resume(struct h2_flow *f) {
        unsigned to = f->from == H2_CLIENT ? H2_ORIGIN : H2_CLIENT;
        int32_t id = id_at(f->stream, to);
        if (!f->deferred || !id)
                return;
        f->deferred = false;
        nghttp2_session_resume_data(f->stream->session->side[to].ng, id);
}

static int end_with_trailers(nghttp2_session *ng, int32_t id, struct h2_flow *f) {
        struct h2_nvs fields = { 0 };
        h2_nvs_add_fields(&fields, f->trailers);
        return nghttp2_submit_trailer(ng, id, fields.at, fields.n);
}

static ssize_t on_wanted(nghttp2_session *ng, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *side) {
        (void)to;
        (void)side;
        struct h2_flow *f = source->ptr;
        if (f->worked && !f->dropped && f->at == f->bytes.n)
                h2_swap_work(f);
        size_t left = f->bytes.n - f->at, n = left < room ? left : room;
        bool over = f->worked ? f->finished : f->ended;
        if (f->dropped || (n == 0 && !over)) {
                f->deferred = true;
                return NGHTTP2_ERR_DEFERRED;
        }
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (n == left && over) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                f->sent = true;
                if (f->trailers && f->trailers->n > 0) {
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        if (end_with_trailers(ng, id, f) < 0)
                                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                }
        }
        return (ssize_t)n;
}

nghttp2_data_provider h2_flow_provider(struct h2_flow *f) {
        return (nghttp2_data_provider){ .source.ptr = f, .read_callback = on_wanted };
}

/* Called again when there is room. A frame whose bytes were dropped since it was begun is never made whole. */
int h2_flow_send(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source,
                 void *user) {
        (void)ng;
        (void)frame;
        struct h2_side *side = user;
        struct h2_flow *f = source->ptr;
        struct pool_chunk *out = side->out;
        char *to = out->bytes + out->at + out->n;
        if (out->at + out->n + FRAME_HEAD + n > sizeof out->bytes)
                return NGHTTP2_ERR_WOULDBLOCK;
        if (f->dropped || n > f->bytes.n - f->at)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        memcpy(to, head, FRAME_HEAD);
        if (n > 0)
                memcpy(to + FRAME_HEAD, f->bytes.p + f->at, n);
        out->n += FRAME_HEAD + n;
        f->at += n;
        if (f->at == f->bytes.n) {
                buf_clear(&f->bytes);
                f->at = 0;
        }
        if (n > 0) {
                if (!f->worked)
                        passed(f, n);
                side->session->progress = true;
                f->stream->moved = loop_now(side->session->client.worker->loop);
        }
        return 0;
}
