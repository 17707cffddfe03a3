/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a stream, and where a body ends. */
#include "gateway/http/http_internal.h"

#include "base/cleanup.h"
#include "net/splice.h"

#include <errno.h>
#include <stdio.h>

void http_flow_done(struct http_flow *flow, struct pool *pool) {
        if (flow->rest)
                pool_chunk_put(pool, take_ptr(&flow->rest));
        pool_pipe_put(pool, take_ptr(&flow->pipe));
        buf_done(&flow->head);
        flow->head_at = 0;
        flow->begun = flow->held = false;
}

/* Keeps what the stream did not take. A reader takes no more at once than a chunk holds, so it fits. */
static int flow_keep(struct http_flow *flow, struct pool *pool, struct str bytes) {
        if (!flow->rest) {
                flow->rest = pool_chunk_get(pool);
                if (!flow->rest)
                        return -ENOMEM;
                flow->rest->at = flow->rest->n = 0;
        }

        struct pool_chunk *chunk = flow->rest;
        if (bytes.n > sizeof chunk->bytes - chunk->at - chunk->n) {
                memmove(chunk->bytes, chunk->bytes + chunk->at, chunk->n);
                chunk->at = 0;
        }

        if (bytes.n > sizeof chunk->bytes - chunk->n)
                return -ENOBUFS;

        memcpy(chunk->bytes + chunk->at + chunk->n, bytes.p, bytes.n);
        chunk->n += bytes.n;

        return 0;
}

int http_flow_push(struct http_flow *flow, struct pool *pool, struct stream *to, struct str bytes) {
        if (flow->rest) {
                int r = flow_keep(flow, pool, bytes);
                if (r < 0)
                        return r;

                return http_flow_flush(flow, pool, to);
        }

        size_t head = flow->head.n - flow->head_at;
        struct iovec parts[2] = { { flow->head.p + flow->head_at, head }, { (void *)bytes.p, bytes.n } };
        ssize_t put = 0;
        if (head > 0)
                put = stream_writev(to, parts, bytes.n > 0 ? 2 : 1);
        else if (bytes.n > 0)
                put = stream_writev(to, parts + 1, 1);
        if (put == -EAGAIN)
                put = 0;
        if (put < 0)
                return (int)put;

        size_t of_head = (size_t)put < head ? (size_t)put : head;
        flow->head_at += of_head;
        struct str left = str_skip(bytes, (size_t)put - of_head);
        if (left.n == 0 && flow->head_at < flow->head.n)
                return -EAGAIN;
        if (left.n == 0)
                return 0;

        int r = flow_keep(flow, pool, left);
        if (r < 0)
                return r;

        return -EAGAIN;
}

static int drain_pipe(struct http_flow *flow, struct stream *to) {
        while (flow->pipe && flow->pipe->n > 0) {
                ssize_t put = splice_out(flow->pipe, to);
                if (put < 0)
                        return (int)put;
        }
        return 0;
}

int http_flow_flush(struct http_flow *flow, struct pool *pool, struct stream *to) {
        if (flow->held)
                return -EAGAIN;

        while (flow->head_at < flow->head.n || flow->rest) {
                size_t head = flow->head.n - flow->head_at, rest = flow->rest ? flow->rest->n : 0;
                struct iovec parts[2] = { { flow->head.p + flow->head_at, head },
                                          { flow->rest ? flow->rest->bytes + flow->rest->at : NULL, rest } };
                ssize_t put;
                if (head > 0)
                        put = stream_writev(to, parts, rest > 0 ? 2 : 1);
                else
                        put = stream_writev(to, parts + 1, 1);
                if (put < 0)
                        return (int)put;

                size_t of_head = (size_t)put < head ? (size_t)put : head;
                flow->head_at += of_head;
                if (flow->rest) {
                        flow->rest->at += (size_t)put - of_head;
                        flow->rest->n -= (size_t)put - of_head;
                        if (flow->rest->n == 0)
                                pool_chunk_put(pool, take_ptr(&flow->rest));
                }
        }

        return drain_pipe(flow, to);
}

int http_flow_queue(struct http_flow *flow, struct str bytes) {
        if (bytes.n > 0 && flow->head_at == flow->head.n) {
                flow->begun |= flow->head_at > 0;
                flow->head.n = 0;
                flow->head_at = 0;
        }
        return buf_append(&flow->head, bytes);
}

int http_flow_queue_chunk(struct http_flow *flow, struct str first, struct str second) {
        char size[24];

        if (first.n + second.n == 0)
                return 0;

        int n = snprintf(size, sizeof size, "%zx\r\n", first.n + second.n);
        int e = http_flow_queue(flow, str_n(size, (size_t)n));
        if (e < 0)
                return e;

        e = http_flow_queue(flow, first);
        if (e < 0)
                return e;

        e = http_flow_queue(flow, second);
        if (e < 0)
                return e;

        return http_flow_queue(flow, STR("\r\n"));
}

ssize_t http_flow_splice(struct http_flow *flow, struct pool *pool, struct stream *from, uint64_t max) {
        if (!from->readable)
                return -EAGAIN;
        if (!flow->pipe && !(flow->pipe = pool_pipe_get(pool)))
                return -ENOSR;
        return splice_in(from, flow->pipe, max < SIZE_MAX ? (size_t)max : SIZE_MAX);
}

void http_flow_rest(struct http_flow *flow, struct pool *pool) {
        if (flow->pipe && flow->pipe->n == 0)
                pool_pipe_put(pool, take_ptr(&flow->pipe));
}

void http_body_passed(struct http_body *body, uint64_t n) {
        if (body->kind != BODY_LENGTH)
                return;
        body->left -= n;
        body->done = body->left == 0;
}

enum http1_result http_body_next(struct http_body *body, struct str *bytes, struct str *ret_span) {
        if (body->done || bytes->n == 0)
                return HTTP1_MORE;

        if (body->kind == BODY_CHUNKED) {
                enum http1_result r = http1_chunked_next(&body->chunked, bytes, ret_span);

                body->done = body->chunked.done;
                return r;
        }

        uint64_t opaque = http_body_opaque(body);
        size_t n = bytes->n < opaque ? bytes->n : (size_t)opaque;
        http_body_passed(body, n);
        *ret_span = str_first(*bytes, n);
        *bytes = str_skip(*bytes, n);

        return HTTP1_OK;
}
