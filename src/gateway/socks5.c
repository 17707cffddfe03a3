/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/socks5.h"

#include "base/alloc.h"
#include "gateway/http/http_session.h"
#include "gateway/intercept.h"
#include "gateway/tunnel.h"
#include "gateway/wire/socks5_wire.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/*
 * Greeting, request, the gate, reply, tunnel. The session exists only until the tunnel: then it is freed and the
 * client's stream goes on, with whatever the client sent ahead given back to it. A client that is too slow, sends too
 * much before it is served, or goes away is closed. Replies are tiny, so a client that does not take them is closed
 * too.
 */
enum state { SOCKS5_GREETING, SOCKS5_REQUEST, SOCKS5_OPENING, SOCKS5_STATES };

enum { AHEAD_MAX = 16384 }; /* of the client's own bytes, before the tunnel stands */

struct session {
        struct client client;
        uint8_t state;
        struct buf in;
        struct timer limit;
        struct task destroy;
        struct gate_call call;
};

static void destroy(struct task *t) {
        struct session *s = link_owner(t, struct session, destroy);
        buf_done(&s->in);
        free(s);
}

/* The session is over; the client is closed here unless it was handed on. */
static void end(struct session *s) {
        struct loop *l = s->call.worker->loop;
        timer_stop(&s->limit);
        gate_cancel(&s->call);
        client_done(&s->client);
        loop_defer(l, &s->destroy);
}

static int put(struct session *s, struct str bytes) {
        ssize_t n = stream_write(s->client.stream, bytes);
        return n == (ssize_t)bytes.n ? 0 : -EPIPE;
}

static int reply(struct session *s, enum socks5_reply code) {
        char bytes[32];
        struct buf out = { .p = bytes, .cap = sizeof bytes, .max = sizeof bytes };
        int r = socks5_put_reply(&out, code, NULL, 0); /* our address says nothing to a client in another namespace */
        return r < 0 ? r : put(s, buf_str(&out));
}

static enum socks5_reply reply_for(const struct gate_call *c) {
        if (gate_was_refused(&c->verdict))
                return c->verdict.reason == REASON_LIMIT || c->verdict.reason == REASON_AUDIT ||
                               c->verdict.reason == REASON_VAULT
                           ? SOCKS5_FAILURE
                           : SOCKS5_DENIED;
        switch (c->error) {
        case -ENETUNREACH:
                return SOCKS5_NET_UNREACHABLE;
        case -EHOSTUNREACH:
                return SOCKS5_HOST_UNREACHABLE;
        case -ECONNREFUSED:
                return SOCKS5_REFUSED;
        case -ETIMEDOUT:
                return c->verdict.reason == REASON_TIMEOUT ? SOCKS5_TTL_EXPIRED : SOCKS5_FAILURE;
        default:
                return SOCKS5_FAILURE;
        }
}

/* What was said is still on its way: the end of the stream follows it, and only then the close. */
static void refuse(struct session *s, enum socks5_reply code) {
        if (reply(s, code) == 0)
                stream_finish(s->client.stream);
        end(s);
}

static void on_opened(struct gate_call *c) {
        struct session *s = link_owner(c, struct session, call);
        if (!gate_is_through(c)) {
                enum socks5_reply code = reply_for(c);
                tunnel_report_refused(&s->client, c, (uint16_t)code);
                refuse(s, code);
                return;
        }
        if (reply(s, SOCKS5_SUCCEEDED) < 0 || stream_unread(s->client.stream, buf_str(&s->in)) < 0) {
                stream_close(c->upstream);
                c->upstream = NULL;
                end(s);
                return;
        }
        if (c->intercept)
                intercept_start(&s->client, c, NULL);
        else
                tunnel_start(&s->client, c);
        s->client.worker = NULL; /* it is the tunnel's now */
        end(s);
}

/* Refused before the gate saw a target. */
static void record(struct session *s, enum socks5_reply code, const char *why) {
        struct event ev = {
                .kind = EVENT_TUNNEL_OPEN,
                .connection = s->client.number,
                .rule = RULE_NONE,
                .generation = s->client.worker->policy->generation,
                .via = VIA_SOCKS5,
                .scheme = SCHEME_TCP,
                .reason = code == SOCKS5_DENIED ? REASON_BAD_NAME : REASON_PROTOCOL,
                .status = (uint16_t)code,
                .detail = str_of(why),
        };
        report_event(&s->client.worker->report, &ev);
}

static void refuse_request(struct session *s, enum socks5_reply code, const struct err *why) {
        record(s, code, err_text(why));
        refuse(s, code);
}

/* These bytes are not SOCKS5. */
static void end_malformed(struct session *s) {
        record(s, SOCKS5_FAILURE, "malformed SOCKS5");
        end(s);
}

/* Chromium and others take ALL_PROXY for an HTTP proxy whatever its scheme says. No greeting begins with a letter, and
 * every request of HTTP does: such a client is served as on the other port. */
static bool speaks_http(const struct session *s) {
        return s->in.n > 0 && s->in.p[0] >= 'A' && s->in.p[0] <= 'Z';
}

static void hand_to_http(struct session *s) {
        if (stream_unread(s->client.stream, buf_str(&s->in)) == 0) {
                (void)http_session_start(&s->client); /* takes it, whatever it says */
                s->client.worker = NULL;
        }
        end(s);
}

static bool greet(struct session *s) {
        size_t used;
        bool plain;
        if (speaks_http(s)) {
                hand_to_http(s);
                return false;
        }
        switch (socks5_greeting(buf_str(&s->in), &used, &plain)) {
        case SOCKS5_MORE:
                return false;
        case SOCKS5_OK:
                break;
        default:
                end_malformed(s);
                return false;
        }
        if (!plain) {
                record(s, SOCKS5_FAILURE, "the client offers no method without authentication");
                put(s, STR("\5\xff"));
                stream_finish(s->client.stream);
                end(s);
                return false;
        }
        buf_consume(&s->in, used);
        if (put(s, STR("\5\0")) < 0) {
                end(s);
                return false;
        }
        s->state = SOCKS5_REQUEST;
        return true;
}

static bool request(struct session *s) {
        size_t used;
        enum socks5_reply code;
        struct err why = { 0 };
        switch (socks5_request(buf_str(&s->in), &used, &s->call.target, &code, &why)) {
        case SOCKS5_MORE:
                return false;
        case SOCKS5_OK:
                break;
        case SOCKS5_SAY:
                refuse_request(s, code, &why);
                return false;
        default:
                end_malformed(s);
                return false;
        }
        buf_consume(&s->in, used);
        if (!gate_unmask(s->client.worker, &s->call.target)) {
                err_set(&why, ENOENT, "the address stands for no name any more");
                refuse_request(s, SOCKS5_DENIED, &why);
                return false;
        }
        timer_stop(&s->limit);
        s->state = SOCKS5_OPENING;
        s->call.via = VIA_SOCKS5;
        s->call.done = on_opened;
        gate_open(&s->call);
        return true;
}

/* Reads what there is. While the gate works this only tells whether the client is still there. */
static int read_more(struct session *s) {
        size_t wanted = s->state == SOCKS5_OPENING ? 4096 : SOCKS5_MESSAGE_MAX;
        if (buf_reserve(&s->in, wanted) < 0)
                return s->state == SOCKS5_OPENING ? -EAGAIN
                                                  : -EMSGSIZE; /* enough ahead: the rest stays in the socket */
        ssize_t got = stream_read(s->client.stream, s->in.p + s->in.n, wanted);
        if (got <= 0)
                return got == 0 ? -EPIPE : (int)got;
        s->in.n += (size_t)got;
        return 0;
}

/* The client left. One whose request was under way is on record. */
static void leave(struct session *s) {
        if (s->state == SOCKS5_OPENING)
                tunnel_report_refused(&s->client, &s->call, 0);
        end(s);
}

static void on_ready(struct stream *stream, void *owner) {
        struct session *s = owner;
        for (;;) {
                if (s->state == SOCKS5_OPENING && gate_is_held(&s->call) && stream_peer_left(stream)) {
                        leave(s);
                        return;
                }
                bool on = s->state == SOCKS5_GREETING ? greet(s) : s->state == SOCKS5_REQUEST && request(s);
                if (!s->client.worker)
                        return;
                if (on)
                        continue;
                int r = read_more(s);
                if (r == -EPIPE && s->state == SOCKS5_OPENING && s->in.n > 0)
                        return; /* half-closed after sending all: the tunnel will find the end again */
                if (r < 0) {
                        if (r != -EAGAIN)
                                leave(s);
                        return;
                }
        }
}

static void on_limit(struct timer *t) {
        end(link_owner(t, struct session, limit));
}

int socks5_start(const struct client *c) {
        struct session *s = alloc_zeroed(sizeof *s);
        if (!s)
                return client_has_no_room(c);
        struct worker *w = c->worker;
        s->client = *c;
        s->call.worker = w;
        s->in = BUF(AHEAD_MAX);
        timer_init(&s->limit, w->loop, on_limit);
        task_init(&s->destroy, destroy);
        timer_start(&s->limit, w->limits.header_ns);
        stream_set_owner(c->stream, on_ready, s);
        on_ready(c->stream, s);
        return 0;
}
