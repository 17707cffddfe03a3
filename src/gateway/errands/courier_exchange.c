/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request. States: CONNECTING (name, address, TLS), HEAD, BODY or SOCKET, OVER. Each has one connection of its own,
 * which ends with it: services answer some requests a minute, and one that waits for news blocks no other.
 *
 * Redirects are not followed: a token goes to the host that the person named. Statuses are handed on as they are.
 */
#include "base/cleanup.h"
#include "base/random.h"
#include "base/secrets/secret.h"
#include "gateway/errands/courier_internal.h"

#include <errno.h>
#include <stdlib.h>

enum { LINE_MAX_BYTES = 65536, READ_BYTES = 16384 };
#define CONNECT_NS (20 * NS_PER_SECOND)

static void exchange_free(struct task *task) {
        struct exchange *exchange = link_owner(task, struct exchange, freeing);

        if (exchange->out.p)
                secret_wipe(exchange->out.p, exchange->out.cap);

        buf_done(&exchange->out);
        buf_done(&exchange->in);
        buf_done(&exchange->body);
        buf_done(&exchange->fragments);
        free(exchange);
}

void exchange_end(struct exchange *exchange) {
        if (exchange->state == EXCHANGE_OVER)
                return;

        exchange->state = EXCHANGE_OVER;
        timer_stop(&exchange->limit);
        resolve_cancel(&exchange->resolving);
        dial_cancel(exchange->dial);
        stream_close(exchange->stream);
        exchange->dial = NULL;
        exchange->stream = NULL;
        link_remove(&exchange->link);
        exchange->courier->n_exchanges--;
        loop_defer(exchange->courier->loop, &exchange->freeing);
}

void exchange_fail(struct exchange *exchange, const char *why) {
        courier_tell(exchange->courier,
                     &(struct courier_message){ .kind = COURIER_FAILED, .id = exchange->id, .parts = { str_of(why) } });
        exchange_end(exchange);
}

void exchange_reply(struct exchange *exchange) {
        courier_tell(exchange->courier, &(struct courier_message){ .kind = COURIER_REPLY,
                                                                   .id = exchange->id,
                                                                   .status = exchange->status,
                                                                   .retry_s = exchange->retry_s,
                                                                   .parts = { buf_str(&exchange->body) } });
        exchange_end(exchange);
}

static void exchange_data(struct exchange *exchange, struct str text) {
        courier_tell(exchange->courier,
                     &(struct courier_message){ .kind = COURIER_DATA, .id = exchange->id, .parts = { text } });
}

static void on_limit(struct timer *timer) {
        struct exchange *exchange = link_owner(timer, struct exchange, limit);

        if ((exchange->flags & COURIER_BYTES) && exchange->shaken)
                bytes_limit(exchange);
        else
                exchange_fail(exchange, "no answer in time");
}

/*
 * The body.
 */
static bool is_stream(const struct exchange *exchange) {
        return (exchange->flags & COURIER_LINES) && exchange->status == 200;
}

static void take_body(struct exchange *exchange, struct str bytes) {
        struct str rest, line;

        if (buf_append(&exchange->body, bytes) < 0) {
                exchange_fail(exchange, "the answer is too long");
                return;
        }

        if (!is_stream(exchange))
                return;

        rest = buf_str(&exchange->body);

        for (;;) {
                ptrdiff_t end = -1;

                if (rest.n)
                        end = str_find(rest, '\n');

                if (end < 0)
                        break;

                line = str_first(rest, (size_t)end);
                rest = str_skip(rest, (size_t)end + 1);
                if (line.n)
                        exchange_data(exchange, line);
        }

        buf_consume(&exchange->body, exchange->body.n - rest.n);
}

/* What came of the body; true when it is over. */
static bool read_body(struct exchange *exchange, bool ended) {
        struct str in = buf_str(&exchange->in), span;
        enum http1_result result = HTTP1_MORE;

        switch (exchange->framing) {
        case BODY_NONE:
                return true;
        case BODY_LENGTH:
                in = str_first(in, in.n < exchange->left ? in.n : (size_t)exchange->left);
                exchange->left -= in.n;
                take_body(exchange, in);
                break;
        case BODY_UNTIL_CLOSE:
                take_body(exchange, in);
                break;
        case BODY_CHUNKED:
                while (exchange->state == EXCHANGE_BODY &&
                       (result = http1_chunked_next(&exchange->chunked, &in, &span)) == HTTP1_OK)
                        take_body(exchange, span);
                break;
        }

        buf_clear(&exchange->in);
        if (exchange->state != EXCHANGE_BODY)
                return false;

        bool whole = exchange->framing == BODY_CHUNKED ? exchange->chunked.done : exchange->left == 0;
        if (exchange->framing == BODY_UNTIL_CLOSE)
                whole = ended;

        if (!whole && (ended || (result != HTTP1_MORE && result != HTTP1_OK))) {
                exchange_fail(exchange, "the answer was cut off or is malformed");
                return false;
        }

        return whole;
}

/*
 * A WebSocket.
 */
static void socket_write(struct exchange *exchange, enum websocket_opcode opcode, struct str text) {
        unsigned char mask[4];

        random_bytes(mask, sizeof mask);
        if (websocket_write(&exchange->out, opcode, text, mask) < 0)
                exchange_fail(exchange, "the other side does not read");
}

static void take_frame(struct exchange *exchange, const struct websocket_frame *frame) {
        bool goes_on = frame->opcode == WEBSOCKET_MORE;

        switch (frame->opcode) {
        case WEBSOCKET_PING:
                socket_write(exchange, WEBSOCKET_PONG, frame->payload);
                return;
        case WEBSOCKET_PONG:
                return;
        case WEBSOCKET_CLOSE:
                exchange_fail(exchange, "the service closed the connection");

                return;
        default:
                break;
        }

        if (goes_on != exchange->in_pieces) {
                exchange_fail(exchange, "a message in pieces that do not follow each other");
                return;
        }

        if (frame->last && !goes_on) {
                exchange_data(exchange, frame->payload);
                return;
        }

        if (buf_append(&exchange->fragments, frame->payload) < 0) {
                exchange_fail(exchange, "a message that is too long");
                return;
        }

        exchange->in_pieces = !frame->last;

        if (frame->last) {
                exchange_data(exchange, buf_str(&exchange->fragments));
                buf_clear(&exchange->fragments);
        }
}

static void read_frames(struct exchange *exchange) {
        size_t used = 0;

        while (exchange->state == EXCHANGE_SOCKET) {
                struct websocket_frame frame;
                size_t n = 0;
                int r = websocket_read(str_skip(buf_str(&exchange->in), used), COURIER_PART_MAX, &frame, &n);

                if (r < 0) {
                        exchange_fail(exchange, "what came is no WebSocket frame");
                        return;
                }

                if (r == 0)
                        break;

                used += n;
                take_frame(exchange, &frame);
        }

        if (exchange->state == EXCHANGE_SOCKET)
                buf_consume(&exchange->in, used);
}

static struct str header_value(const struct http1_head *head, const char *name) {
        for (size_t i = 0; i < head->n_headers; i++)
                if (str_eq_nocase(head->headers[i].name, str_of(name)))
                        return head->headers[i].value;
        return STR("");
}

static void become_socket(struct exchange *exchange, const struct http1_response *response) {
        struct str proof = header_value(&response->head, "Sec-WebSocket-Accept");

        if (!http1_response_switches(response, STR("websocket")) || !str_is(proof, exchange->proof) ||
            header_value(&response->head, "Sec-WebSocket-Extensions").n) {
                exchange_fail(exchange, "the service does not speak WebSocket as it must");
                return;
        }

        exchange->state = EXCHANGE_SOCKET;
        buf_consume(&exchange->in, response->head.bytes);
        courier_tell(exchange->courier, &(struct courier_message){ .kind = COURIER_OPEN, .id = exchange->id });
}

/*
 * The head.
 */
static void read_head(struct exchange *exchange, bool ended) {
        struct http1_response response;
        enum http1_result result =
            http1_response_parse(&exchange->progress, buf_str(&exchange->in), COURIER_HEAD_MAX, &response);
        uint64_t retry_s = 0;

        if (result == HTTP1_MORE && !ended)
                return;

        if (result != HTTP1_OK) {
                exchange_fail(exchange, ended ? "the connection ended without an answer" : "what came is no HTTP");
                return;
        }

        if ((exchange->flags & COURIER_WEBSOCKET) && response.status == 101) {
                become_socket(exchange, &response);
                return;
        }

        if (response.status / 100 == 1) { /* the real one follows */
                buf_consume(&exchange->in, response.head.bytes);
                exchange->progress = (struct http1_progress){ 0 };
                return;
        }

        if (str_to_u64(header_value(&response.head, "Retry-After"), 86400, &retry_s))
                exchange->retry_s = (uint32_t)retry_s;

        exchange->status = response.status;
        exchange->framing = http1_response_body(&response, false);
        exchange->left = response.head.length;
        exchange->chunked = (struct http1_chunked){ .bare = true };
        exchange->state = EXCHANGE_BODY;
        buf_consume(&exchange->in, response.head.bytes);

        if (is_stream(exchange))
                courier_tell(exchange->courier, &(struct courier_message){ .kind = COURIER_OPEN, .id = exchange->id });
}

static void use_bytes(struct exchange *exchange, bool ended) {
        enum exchange_state before;

        do {
                before = exchange->state;

                if (exchange->state == EXCHANGE_HEAD)
                        read_head(exchange, ended);
                else if (exchange->state == EXCHANGE_BODY && read_body(exchange, ended))
                        exchange_reply(exchange);
                else if (exchange->state == EXCHANGE_SOCKET)
                        read_frames(exchange);
        } while (exchange->state != before && exchange->state != EXCHANGE_OVER);

        if (exchange->state == EXCHANGE_SOCKET && ended)
                exchange_fail(exchange, "the service ended the connection");
}

/*
 * The connection.
 */
static void read_more(struct exchange *exchange) {
        while (exchange->state != EXCHANGE_OVER) {
                char bytes[READ_BYTES];
                ssize_t n = stream_read(exchange->stream, bytes, sizeof bytes);

                if (n == -EAGAIN)
                        return;

                if (n < 0) {
                        exchange_fail(exchange, "the connection broke");
                        return;
                }

                if (buf_append(&exchange->in, str_n(bytes, (size_t)n)) < 0) {
                        exchange_fail(exchange, "the answer is too long");
                        return;
                }

                if (n > 0 && (exchange->state == EXCHANGE_SOCKET || is_stream(exchange)))
                        timer_start(&exchange->limit, exchange->limit_ns);

                use_bytes(exchange, n == 0);
        }
}

static bool write_more(struct exchange *exchange) {
        while (exchange->sent < exchange->out.n) {
                ssize_t n = stream_write(exchange->stream, str_skip(buf_str(&exchange->out), exchange->sent));

                if (n == -EAGAIN)
                        return true;

                if (n < 0) {
                        exchange_fail(exchange, "the connection broke");
                        return false;
                }

                exchange->sent += (size_t)n;
        }

        if (exchange->out.p)
                secret_wipe(exchange->out.p, exchange->out.cap);

        buf_clear(&exchange->out);
        exchange->sent = 0;

        return true;
}

static void on_ready(struct stream *stream, void *owner) {
        struct exchange *exchange = owner;

        if (exchange->secure && !exchange->shaken) {
                int r = tls_handshake(stream);
                if (r == -EAGAIN)
                        return;

                if (r < 0) {
                        exchange_fail(exchange, tls_failure(stream));
                        return;
                }

                exchange->shaken = true;
        }

        if (!write_more(exchange))
                return;

        if (exchange->flags & COURIER_BYTES) {
                bytes_go_on(exchange);
                return;
        }

        read_more(exchange);
        if (exchange->state != EXCHANGE_OVER) /* what a message called for */
                (void)write_more(exchange);
}

static void on_dialled(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct exchange *exchange = owner;

        (void)addr;
        exchange->dial = NULL;

        if (error < 0) {
                exchange_fail(exchange, "it cannot be reached");
                return;
        }

        if (exchange->secure) {
                const struct tls_connect how = { .target = &exchange->verified };

                error = tls_connect(exchange->courier->tls, stream, &how, &stream);
                if (error < 0) {
                        exchange_fail(exchange, "there is no TLS");
                        return;
                }
        }

        exchange->stream = stream;
        exchange->state = EXCHANGE_HEAD;
        stream_set_owner(stream, on_ready, exchange);
        on_ready(stream, exchange);
}

static void exchange_dial(struct exchange *exchange, const struct addr *addrs, size_t n) {
        if (dial_start(exchange->courier->loop, addrs, n, exchange->target.port, CONNECT_NS, on_dialled, exchange,
                       &exchange->dial) < 0)
                exchange_fail(exchange, "it cannot be reached");
}

static void on_resolved(struct resolve_call *call, const struct resolve_answer *answer) {
        struct exchange *exchange = link_owner(call, struct exchange, resolving);

        if (answer->error)
                exchange_fail(exchange, "the name has no address");
        else
                exchange_dial(exchange, answer->addrs, answer->n);
}

/*
 * The request.
 */
static int write_bytes(struct exchange *exchange, const struct courier_message *message, struct err *err) {
        int r;

        if (!exchange->secure)
                return err_set(err, EINVAL, "bytes go over TLS only");

        if (message->parts[1].n) {
                r = authority_parse(message->parts[1], exchange->target.port, &exchange->verified, err);
                if (r < 0)
                        return r;
        }

        r = buf_append(&exchange->out, message->parts[3]);
        if (r < 0)
                return err_set(err, -r, "too many bytes");

        return 0;
}

static int write_request(struct exchange *exchange, const struct courier_message *message, struct err *err) {
        char host[AUTHORITY_TEXT_MAX], key[WEBSOCKET_KEY_MAX];
        unsigned char random[16];
        int r;

        authority_text(&exchange->target, host);
        r = courier_fill(exchange->courier, message->parts[1], &exchange->target, &exchange->out, err);
        if (r < 0)
                return r;

        r = buf_printf(&exchange->out, " HTTP/1.1\r\nHost: %s\r\nUser-Agent: bailey\r\n", host);
        if (r == 0 && (exchange->flags & COURIER_WEBSOCKET)) {
                random_bytes(random, sizeof random);
                websocket_key(random, key);
                websocket_proof(key, exchange->proof);
                r = buf_printf(&exchange->out,
                               "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Key: %s\r\n",
                               key);
        } else if (r == 0) {
                r = buf_add(&exchange->out, "Connection: close\r\n");
        }

        if (r == 0 && !str_starts(message->parts[1], STR("GET ")))
                r = buf_printf(&exchange->out, "Content-Length: %zu\r\n", message->parts[3].n);
        if (r == 0)
                r = courier_fill(exchange->courier, message->parts[2], &exchange->target, &exchange->out, err);
        if (r < 0)
                return r;

        r = buf_add(&exchange->out, "\r\n");
        if (r == 0)
                r = buf_append(&exchange->out, message->parts[3]);

        if (r < 0)
                return err_set(err, -r, "the request is too long");

        return 0;
}

static int read_url(struct exchange *exchange, struct str url, struct err *err) {
        exchange->secure = str_starts(url, STR("https://"));
        if (exchange->secure)
                return authority_parse(str_skip(url, 8), 443, &exchange->target, err);
        if (str_starts(url, STR("http://")))
                return authority_parse(str_skip(url, 7), 80, &exchange->target, err);

        return err_set(err, EINVAL, "no URL");
}

static void exchange_begin(struct exchange *exchange) {
        const struct host *host = &exchange->target.host;

        if (host->kind == HOST_ADDR) {
                exchange_dial(exchange, &host->addr, 1);
                return;
        }

        exchange->resolving.done = on_resolved;
        if (resolve_start(exchange->courier->resolver, host, &exchange->resolving) < 0)
                exchange_fail(exchange, "the name cannot be resolved");
}

void exchange_start(struct courier *courier, const struct courier_message *message) {
        struct exchange *exchange = courier->n_exchanges < COURIER_EXCHANGES_MAX ? calloc(1, sizeof *exchange) : NULL;
        struct err err = { 0 };
        int r;

        if (!exchange) {
                courier_tell(courier, &(struct courier_message){ .kind = COURIER_FAILED,
                                                                 .id = message->id,
                                                                 .parts = { STR("too many requests at once") } });
                return;
        }

        *exchange = (struct exchange){ .courier = courier,
                                       .id = message->id,
                                       .flags = message->flags,
                                       .limit_ns = message->limit_ms * NS_PER_MS,
                                       .out = BUF(COURIER_PART_MAX + COURIER_HEAD_MAX),
                                       .in = BUF(COURIER_PART_MAX + COURIER_HEAD_MAX),
                                       .body = BUF(COURIER_PART_MAX),
                                       .fragments = BUF(COURIER_PART_MAX) };
        task_init(&exchange->freeing, exchange_free);
        link_init(&exchange->resolving.link);
        timer_init(&exchange->limit, courier->loop, on_limit);
        link_append(&courier->exchanges, &exchange->link);
        courier->n_exchanges++;

        r = read_url(exchange, message->parts[0], &err);
        exchange->verified = exchange->target;
        if (r == 0 && (exchange->flags & COURIER_BYTES))
                r = write_bytes(exchange, message, &err);
        else if (r == 0)
                r = write_request(exchange, message, &err);

        if (r < 0) {
                exchange_fail(exchange, err_text(&err));
                return;
        }

        timer_start(&exchange->limit, exchange->limit_ns);
        exchange_begin(exchange);
}

void exchange_send(struct exchange *exchange, struct str text) {
        if (exchange->state != EXCHANGE_SOCKET)
                return;
        socket_write(exchange, WEBSOCKET_TEXT, text);
        if (exchange->state == EXCHANGE_SOCKET)
                (void)write_more(exchange);
}
