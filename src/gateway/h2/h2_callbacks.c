/* SPDX-License-Identifier: Apache-2.0 */
/* What nghttp2 tells about either connection, and how it is set up. */
#include "gateway/h2/h2_internal.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/secrets/secret.h"

#include <errno.h>
#include <stdlib.h>

/* Frames that cost us and carry nothing: so many at once, so many a second. */
enum { NOISE_BURST = 2000, NOISE_PER_SECOND = 500 };
/* Streams that are opened and given up: reset by the client, or by us for what it sent on them. */
enum { RESET_BURST = 500, RESET_PER_SECOND = 100 };
enum { ACKS_MAX = 256 };

static struct h2_stream *stream_at(nghttp2_session *ng, int32_t id) {
        return id > 0 ? nghttp2_session_get_stream_user_data(ng, id) : NULL;
}

static struct h2_flow *flow_from(struct h2_stream *stream, const struct h2_side *side) {
        return side->index == H2_CLIENT ? &stream->up : &stream->down;
}

static bool is_noise(const nghttp2_frame_hd *hd) {
        switch (hd->type) {
        case NGHTTP2_DATA:
                return hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
        case NGHTTP2_HEADERS:
        case NGHTTP2_CONTINUATION:
        case NGHTTP2_WINDOW_UPDATE:
        case NGHTTP2_RST_STREAM: /* counted by themselves */
                return false;
        default:
                return true;
        }
}

static int on_frame_begins(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *user) {
        struct h2_side *side = user;
        struct h2_session *session = side->session;

        if (side->index == H2_ORIGIN && hd->type == NGHTTP2_PUSH_PROMISE)
                return NGHTTP2_ERR_CALLBACK_FAILURE; /* it was told not to */
        if (side->index == H2_ORIGIN)
                return 0;

        bool calm = true;

        if (is_noise(hd))
                calm = h2_allow(session, &session->noise, NOISE_BURST, NOISE_PER_SECOND);
        else if (hd->type == NGHTTP2_RST_STREAM)
                calm = h2_allow(session, &session->resets, RESET_BURST, RESET_PER_SECOND);

        if (!calm)
                nghttp2_session_terminate_session(ng, NGHTTP2_ENHANCE_YOUR_CALM);

        return 0;
}

static int on_headers_begin(nghttp2_session *ng, const nghttp2_frame *frame, void *user) {
        struct h2_side *side = user;
        struct h2_session *session = side->session;
        int32_t id = frame->hd.stream_id;

        h2_fields_clear(side->fields);
        if (side->index == H2_ORIGIN)
                return 0;

        session->in_head = true;
        timer_start(&session->limit, h2_settings(session)->header_ns);
        if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;

        /* Streams that the client gave up and the origin still has count, too. */
        if (session->n_streams >= 2 * H2_STREAMS_MAX || !h2_stream_new(session, id))
                nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);

        return 0;
}

static int on_field(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                    const uint8_t *value, size_t value_n, uint8_t flags, void *user) {
        (void)ng;
        (void)frame;
        struct h2_side *side = user;
        h2_fields_add(side->fields, str_n(name, name_n), str_n(value, value_n), flags & NGHTTP2_NV_FLAG_NO_INDEX);
        return 0;
}

/* nghttp2 by itself would leave such a field out and go on. */
static int on_bad_field(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                        const uint8_t *value, size_t value_n, uint8_t flags, void *user) {
        (void)name;
        (void)name_n;
        (void)value;
        (void)value_n;
        (void)flags;

        struct h2_side *side = user;
        struct h2_stream *stream = stream_at(ng, frame->hd.stream_id);
        if (stream)
                h2_stream_spoil(stream, side->index);

        return 0;
}

static void take_headers(struct h2_side *side, struct h2_stream *stream, const nghttp2_frame *frame) {
        bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

        if (side->index == H2_CLIENT && stream->state == H2_HEAD) {
                h2_request_take(stream, ended);
                return;
        }

        if (side->index == H2_ORIGIN && !stream->head_sent) {
                h2_stream_take_response(stream, ended);
                return;
        }

        h2_stream_take_trailers(flow_from(stream, side));
        if (ended)
                h2_stream_take_end(flow_from(stream, side));
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *user) {
        struct h2_side *side = user;
        struct h2_session *session = side->session;
        struct h2_stream *stream = stream_at(ng, frame->hd.stream_id);

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
                if (side->index == H2_CLIENT)
                        session->in_head = false;
                session->progress = true;
                if (stream)
                        take_headers(side, stream, frame);

                return 0;
        case NGHTTP2_DATA:
                if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
                        h2_stream_take_end(flow_from(stream, side));
                return 0;
        case NGHTTP2_RST_STREAM:
                if (stream && side->index == H2_ORIGIN)
                        stream->origin_reset = true;
                else if (stream)
                        stream->client_reset = true;

                return 0;
        case NGHTTP2_GOAWAY:
                if (side->index == H2_ORIGIN)
                        h2_session_drain(session, frame->goaway.error_code);
                return 0;
        default:
                return 0;
        }
}

/* A header block that nghttp2 refused. */
static int on_bad_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *user) {
        (void)ng;
        (void)error;
        struct h2_side *side = user;
        if (frame->hd.type == NGHTTP2_HEADERS && side->index == H2_CLIENT)
                side->session->in_head = false;
        return 0;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user) {
        (void)flags;
        struct h2_side *side = user;
        struct h2_stream *stream = stream_at(ng, id);
        if (stream)
                h2_stream_take_data(flow_from(stream, side), p, n);
        else
                nghttp2_session_consume(ng, id, n);

        return 0;
}

/* A client can have us reset a stream that the origin has begun to serve, as cheaply as it resets one itself. */
void h2_count_given_up(struct h2_stream *stream) {
        struct h2_session *session = stream->session;

        if (stream->counted)
                return;

        stream->counted = true;
        if (!h2_allow(session, &session->resets, RESET_BURST, RESET_PER_SECOND))
                nghttp2_session_terminate_session(session->side[H2_CLIENT].ng, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* A stream of the client's that was reset for its form, mostly by nghttp2. */
static bool is_broken_rule(const struct h2_stream *stream, uint32_t code) {
        switch (code) {
        case NGHTTP2_PROTOCOL_ERROR:
        case NGHTTP2_FLOW_CONTROL_ERROR:
        case NGHTTP2_STREAM_CLOSED:
        case NGHTTP2_FRAME_SIZE_ERROR:
                return !stream->client_reset && !stream->origin_reset;
        default:
                return false;
        }
}

static int on_closed(nghttp2_session *ng, int32_t id, uint32_t code, void *user) {
        struct h2_side *side = user;
        struct h2_session *session = side->session;
        struct h2_stream *stream = stream_at(ng, id);

        if (stream && side->index == H2_CLIENT && is_broken_rule(stream, code))
                h2_count_given_up(stream);

        if (stream && stream->state == H2_HEAD) /* its header block was refused */
                session->in_head = false;
        if (stream)
                h2_stream_closed(stream, side->index, code);
        return 0;
}

static int on_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *user) {
        struct h2_side *side = user;
        struct h2_stream *stream = stream_at(ng, frame->hd.stream_id);
        bool last = (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
                    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);

        if (stream && side->index == H2_ORIGIN && frame->hd.type == NGHTTP2_HEADERS)
                stream->left = true;
        if (!stream || !last || side->index != H2_CLIENT)
                return 0;

        stream->down.sent = true;
        if (stream->state == H2_ANSWERED)
                h2_stream_record(stream); /* a client need not end its body */
        h2_stream_settle(stream);

        return 0;
}

/* A request that could not be sent any more: the origin was told not to be asked, or said so itself. */
static int on_not_sent(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *user) {
        (void)ng;
        (void)error;
        struct h2_side *side = user;
        if (side->index != H2_ORIGIN || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
                return 0;

        for (struct link *l = side->session->streams.next; l != &side->session->streams; l = l->next) {
                struct h2_stream *stream = link_owner(l, struct h2_stream, link);
                if (stream->origin_id == frame->hd.stream_id) {
                        h2_stream_closed(stream, H2_ORIGIN, NGHTTP2_REFUSED_STREAM);
                        break;
                }
        }

        return 0;
}

static nghttp2_session_callbacks *make_callbacks(void) {
        nghttp2_session_callbacks *c;

        if (nghttp2_session_callbacks_new(&c) != 0)
                return NULL;

        nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_frame_begins);
        nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_headers_begin);
        nghttp2_session_callbacks_set_on_header_callback(c, on_field);
        nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_bad_field);
        nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_bad_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(c, on_closed);
        nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(c, on_not_sent);
        nghttp2_session_callbacks_set_send_data_callback(c, h2_flow_send);

        return c;
}

/* For a connection that secrets are sent on: nghttp2 has copies of them in heads that wait, and in frames. */

static void *wiped_malloc(size_t n, void *user) {
        (void)user;
        return malloc(n);
}

static void wiped_free(void *p, void *user) {
        (void)user;
        if (p)
                secret_wipe(p, alloc_size(p));
        free(p);
}

static void *wiped_calloc(size_t n, size_t size, void *user) {
        (void)user;
        return calloc(n, size);
}

static void *wiped_realloc(void *p, size_t n, void *user) {
        size_t had = 0;

        if (p)
                had = alloc_size(p);

        void *grown = malloc(n);
        if (!grown)
                return NULL;
        if (p)
                memcpy(grown, p, min_of(had, n));

        wiped_free(p, user);
        return grown;
}

static nghttp2_mem wiping = { NULL, wiped_malloc, wiped_free, wiped_calloc, wiped_realloc };

static int callbacks_greet(struct h2_side *side) {
        uint32_t heads = (uint32_t)side->fields->max;
        const nghttp2_settings_entry to_client[] = {
                { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX },
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
                { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, heads },
                { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
        };
        const nghttp2_settings_entry to_origin[] = {
                { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
                { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, heads },
        };
        int r;

        if (side->index == H2_CLIENT)
                r = nghttp2_submit_settings(side->ng, NGHTTP2_FLAG_NONE, to_client,
                                            sizeof to_client / sizeof *to_client);
        else
                r = nghttp2_submit_settings(side->ng, NGHTTP2_FLAG_NONE, to_origin,
                                            sizeof to_origin / sizeof *to_origin);
        if (r == 0)
                r = nghttp2_session_set_local_window_size(side->ng, NGHTTP2_FLAG_NONE, 0, H2_CONNECTION_WINDOW);

        return r;
}

int h2_side_open(struct h2_side *side) {
        nghttp2_session_callbacks *callbacks = make_callbacks();
        nghttp2_option *options = NULL;
        int r = callbacks && nghttp2_option_new(&options) == 0 ? 0 : NGHTTP2_ERR_NOMEM;
        if (r == 0) {
                nghttp2_option_set_no_auto_window_update(options, 1);
                nghttp2_option_set_no_closed_streams(options, 1);
                nghttp2_option_set_max_outbound_ack(options, ACKS_MAX);
                nghttp2_option_set_peer_max_concurrent_streams(options, H2_STREAMS_MAX);

                if (side->index == H2_CLIENT)
                        r = nghttp2_session_server_new2(&side->ng, callbacks, side, options);
                else
                        r = nghttp2_session_client_new3(&side->ng, callbacks, side, options,
                                                        side->session->secrets ? &wiping : NULL);
        }

        if (r == 0)
                r = callbacks_greet(side);

        nghttp2_option_del(options);
        if (callbacks)
                nghttp2_session_callbacks_del(callbacks);

        if (r != 0)
                return -ENOMEM;

        return 0;
}
