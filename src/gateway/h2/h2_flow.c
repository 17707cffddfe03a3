/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies. Bytes that one side received wait in the stream's queue until the other side has room; only then is the
 * window that they came through opened again. The connection's own window is opened at once, so that a stream whose
 * reader sleeps does not hold up the others, unless too much is queued in all. A body that leaves as other bytes than
 * came is made into those when the far side asks for them, piece by piece, so that one that grows is not held here.
 */
#include "gateway/h2/h2_swap.h"

#include "base/bounds.h"
#include "base/cleanup.h"

#include <errno.h>

enum { FRAME_HEAD = 9 };

void h2_flow_init(struct h2_flow *flow, struct h2_stream *stream, unsigned from) {
        *flow = (struct h2_flow){ .stream = stream, .from = (uint8_t)from, .bytes = BUF(2 * H2_STREAM_WINDOW) };
}

static struct h2_side *source_of(const struct h2_flow *flow) {
        return &flow->stream->session->side[flow->from];
}

static int32_t id_at(const struct h2_stream *stream, unsigned side) {
        return side == H2_CLIENT ? stream->client_id : stream->origin_id;
}

static void connection_passed(struct h2_side *side, size_t n) {
        side->queued -= n;
        if (side->owed > 0 && side->queued <= H2_BUDGET) {
                if (side->stream)
                        nghttp2_session_consume_connection(side->ng, side->owed);
                side->owed = 0;
        }
}

static void flow_passed(struct h2_flow *flow, size_t n) {
        struct h2_side *side = source_of(flow);
        int32_t id = id_at(flow->stream, flow->from);

        if (flow->own)
                return;

        size_t gift = min_of(n, flow->gift);
        flow->gift -= gift;
        n -= gift;
        flow->unsent -= n;

        if (side->stream && id)
                nghttp2_session_consume_stream(side->ng, id, n);

        connection_passed(side, n);
}

void h2_flow_done(struct h2_flow *h2_flow) {
        h2_flow_drop(h2_flow);
        h2_fields_free(take_ptr(&h2_flow->trailers));
        buf_done(&h2_flow->bytes);
        buf_done(&h2_flow->raw);
}

void h2_flow_received(struct h2_flow *flow, size_t n) {
        struct h2_side *side = source_of(flow);
        flow->unsent += n;
        side->queued += n;
        if (side->queued <= H2_BUDGET)
                nghttp2_session_consume_connection(side->ng, n);
        else
                side->owed += n;
}

int h2_flow_add(struct h2_flow *flow, struct str bytes) {
        if (flow->at > 0 && flow->bytes.n + bytes.n >= flow->bytes.cap) {
                buf_consume(&flow->bytes, flow->at);
                flow->at = 0;
        }
        return buf_append(&flow->bytes, bytes); /* no more than a window: it fits */
}

void h2_flow_drop(struct h2_flow *flow) {
        flow->dropped = true;
        buf_clear(&flow->bytes);
        buf_clear(&flow->raw);
        flow->at = flow->raw_at = flow->gift = 0;
        if (flow->unsent > 0)
                flow_passed(flow, flow->unsent);
}

void h2_flow_used(struct h2_flow *flow, size_t n) {
        flow->raw_at += n;
        if (flow->raw_at == flow->raw.n) {
                buf_clear(&flow->raw);
                flow->raw_at = 0;
        }
        if (n > 0)
                flow_passed(flow, n);
}

int h2_flow_own(struct h2_flow *flow, struct str bytes) {
        h2_flow_drop(flow);
        flow->own = true;
        flow->ended = true;
        flow->dropped = false;
        return buf_append(&flow->bytes, bytes);
}

void h2_flow_resume(struct h2_flow *flow) {
        unsigned to = flow->from == H2_CLIENT ? H2_ORIGIN : H2_CLIENT;
        int32_t id = id_at(flow->stream, to);
        if (!flow->deferred || !id)
                return;
        flow->deferred = false;
        nghttp2_session_resume_data(flow->stream->session->side[to].ng, id);
}

static int end_with_trailers(nghttp2_session *ng, int32_t id, struct h2_flow *flow) {
        struct h2_nvs fields = { 0 };
        h2_nvs_add_fields(&fields, flow->trailers);
        return nghttp2_submit_trailer(ng, id, fields.at, fields.n);
}

static ssize_t on_wanted(nghttp2_session *ng, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *side) {
        (void)to;
        (void)side;
        struct h2_flow *flow = source->ptr;
        if (flow->worked && !flow->dropped && flow->at == flow->bytes.n)
                h2_swap_work(flow);

        size_t left = flow->bytes.n - flow->at, n = min_of(left, room);
        bool over = flow->worked ? flow->finished : flow->ended;
        if (flow->dropped || (n == 0 && !over)) {
                flow->deferred = true;
                return NGHTTP2_ERR_DEFERRED;
        }

        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;

        if (n == left && over) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                flow->sent = true;
                if (flow->trailers && flow->trailers->n > 0) {
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        if (end_with_trailers(ng, id, flow) < 0)
                                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                }
        }

        return (ssize_t)n;
}

nghttp2_data_provider h2_flow_provider(struct h2_flow *flow) {
        return (nghttp2_data_provider){ .source.ptr = flow, .read_callback = on_wanted };
}

/* Called again when there is room. A frame whose bytes were dropped since it was begun is never made whole. */
int h2_flow_send(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n, nghttp2_data_source *source,
                 void *user) {
        (void)ng;
        (void)frame;
        struct h2_side *side = user;
        struct h2_flow *flow = source->ptr;
        struct pool_chunk *out = side->out;
        char *to = out->bytes + out->at + out->n;

        if (out->at + out->n + FRAME_HEAD + n > sizeof out->bytes)
                return NGHTTP2_ERR_WOULDBLOCK;
        if (flow->dropped || n > flow->bytes.n - flow->at)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;

        memcpy(to, head, FRAME_HEAD);
        if (n > 0)
                memcpy(to + FRAME_HEAD, flow->bytes.p + flow->at, n);

        out->n += FRAME_HEAD + n;
        flow->at += n;
        if (flow->at == flow->bytes.n) {
                buf_clear(&flow->bytes);
                flow->at = 0;
        }

        if (n > 0) {
                if (!flow->worked)
                        flow_passed(flow, n);
                side->session->progress = true;
                flow->stream->moved = loop_now(side->session->client.worker->loop);
        }

        return 0;
}
