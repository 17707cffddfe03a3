/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/socks5.h"

#include "base/alloc.h"
#include "base/secrets/secret.h"
#include "gateway/http/http_session.h"
#include "gateway/intercept.h"
#include "gateway/wire/proxy_auth.h"
#include "gateway/wire/socks5_wire.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/*
 * Greeting, the secret of the run where clients must bring it, request, the gate, reply, tunnel. The session exists
 * only until the tunnel: then it is freed and the client's stream goes on, with whatever the client sent ahead given
 * back to it. A client that is too slow, sends too much before it is served, or goes away is closed. Replies are tiny,
 * so a client that does not take them is closed too.
 */
enum state { SOCKS5_GREETING, SOCKS5_SECRET, SOCKS5_REQUEST, SOCKS5_OPENING, SOCKS5_STATES };

enum { AHEAD_MAX = 16384 }; /* of the client's own bytes, before the tunnel stands */

struct session {
        struct client client;
        uint8_t state;
        struct buf in;
        struct timer limit;
        struct task destroy;
        struct gate_call call;
};

static void socks5_destroy(struct task *task) {
        struct session *session = link_owner(task, struct session, destroy);
        buf_done(&session->in);
        free(session);
}

/* The session is over; the client is closed here unless it was handed on. */
static void socks5_end(struct session *session) {
        struct loop *loop = session->call.worker->loop;
        timer_stop(&session->limit);
        gate_cancel(&session->call);
        client_done(&session->client);
        loop_defer(loop, &session->destroy);
}

static int socks5_put(struct session *session, struct str bytes) {
        ssize_t n = stream_write(session->client.stream, bytes);
        if (n != (ssize_t)bytes.n)
                return -EPIPE;

        return 0;
}

static int send_reply(struct session *session, enum socks5_reply code) {
        char bytes[32];
        struct buf out = { .p = bytes, .cap = sizeof bytes, .max = sizeof bytes };
        int r = socks5_put_reply(&out, code, NULL, 0); /* our address says nothing to a client in another namespace */
        if (r < 0)
                return r;

        return socks5_put(session, buf_str(&out));
}

static enum socks5_reply reply_for(const struct gate_call *call) {
        if (gate_was_refused(&call->verdict))
                return call->verdict.reason == REASON_LIMIT || call->verdict.reason == REASON_AUDIT ||
                               call->verdict.reason == REASON_VAULT
                           ? SOCKS5_FAILURE
                           : SOCKS5_DENIED;

        switch (call->error) {
        case -ENETUNREACH:
                return SOCKS5_NET_UNREACHABLE;
        case -EHOSTUNREACH:
                return SOCKS5_HOST_UNREACHABLE;
        case -ECONNREFUSED:
                return SOCKS5_REFUSED;
        case -ETIMEDOUT:
                return call->verdict.reason == REASON_TIMEOUT ? SOCKS5_TTL_EXPIRED : SOCKS5_FAILURE;
        default:
                return SOCKS5_FAILURE;
        }
}

/* What was said is still on its way: the end of the stream follows it, and only then the close. */
static void socks5_refuse(struct session *session, enum socks5_reply code) {
        if (send_reply(session, code) == 0)
                stream_finish(session->client.stream);
        socks5_end(session);
}

static void on_opened(struct gate_call *c) {
        struct session *session = link_owner(c, struct session, call);

        if (!gate_is_through(c)) {
                enum socks5_reply code = reply_for(c);

                gate_report_refused(&session->client, c, (uint16_t)code);
                socks5_refuse(session, code);
                return;
        }

        if (send_reply(session, SOCKS5_SUCCEEDED) < 0 ||
            stream_unread(session->client.stream, buf_str(&session->in)) < 0) {
                stream_close(c->upstream);
                c->upstream = NULL;
                socks5_end(session);
                return;
        }

        intercept_join(&session->client, c);

        session->client.worker = NULL; /* it is the tunnel's now */
        socks5_end(session);
}

/* Refused before the gate saw a target. */
static void record_as(struct session *session, enum reason reason, enum socks5_reply code, const char *why) {
        struct event ev = {
                .kind = EVENT_TUNNEL_OPEN,
                .connection = session->client.number,
                .rule = RULE_NONE,
                .generation = session->client.worker->policy->generation,
                .via = VIA_SOCKS5,
                .scheme = SCHEME_TCP,
                .reason = (uint16_t)reason,
                .status = (uint16_t)code,
                .detail = str_of(why),
        };
        report_event(&session->client.worker->report, &ev);
}

static void socks5_record(struct session *session, enum socks5_reply code, const char *why) {
        record_as(session, code == SOCKS5_DENIED ? REASON_BAD_NAME : REASON_PROTOCOL, code, why);
}

static void refuse_request(struct session *session, enum socks5_reply code, const struct err *why) {
        socks5_record(session, code, err_text(why));
        socks5_refuse(session, code);
}

/* These bytes are not SOCKS5. */
static void end_malformed(struct session *session) {
        socks5_record(session, SOCKS5_FAILURE, "malformed SOCKS5");
        socks5_end(session);
}

/* Chromium and others take ALL_PROXY for an HTTP proxy whatever its scheme says. No greeting begins with a letter, and
 * every request of HTTP does: such a client is served as on the other port. */
static bool speaks_http(const struct session *session) {
        return session->in.n > 0 && session->in.p[0] >= 'A' && session->in.p[0] <= 'Z';
}

static void hand_to_http(struct session *session) {
        if (stream_unread(session->client.stream, buf_str(&session->in)) == 0) {
                (void)http_session_start(&session->client, intercept_join); /* takes it, whatever it says */
                session->client.worker = NULL;
        }
        socks5_end(session);
}

/* The last word to a client that is refused without a reply code. */
static void socks5_dismiss(struct session *session, struct str word) {
        (void)socks5_put(session, word);
        stream_finish(session->client.stream);
        socks5_end(session);
}

static bool wants_secret(const struct session *session) {
        return session->client.worker->gateway->client_secret != NULL;
}

/* The method to go on with. False: the client offers none, and is gone. */
static bool choose_method(struct session *session, const struct socks5_methods *offered) {
        bool secret = wants_secret(session);

        if (secret ? offered->password : offered->none) {
                session->state = secret ? SOCKS5_SECRET : SOCKS5_REQUEST;
                if (socks5_put(session, secret ? STR("\5\2") : STR("\5\0")) == 0)
                        return true;
                socks5_end(session);
                return false;
        }

        if (secret)
                record_as(session, REASON_CLIENT, SOCKS5_NO_METHOD, "the client offers no secret of the run");
        else
                socks5_record(session, SOCKS5_FAILURE, "the client offers no method without authentication");
        socks5_dismiss(session, STR("\5\xff"));
        return false;
}

static bool socks5_greet(struct session *session) {
        struct socks5_methods offered;
        size_t used;

        if (speaks_http(session)) {
                hand_to_http(session);
                return false;
        }

        switch (socks5_greeting(buf_str(&session->in), &used, &offered)) {
        case SOCKS5_MORE:
                return false;
        case SOCKS5_OK:
                break;
        default:
                end_malformed(session);
                return false;
        }

        buf_consume(&session->in, used);
        return choose_method(session, &offered);
}

static bool take_secret(struct session *session) {
        const struct secret *wanted = session->client.worker->gateway->client_secret;
        struct str user, password;
        size_t used;

        switch (socks5_password(buf_str(&session->in), &used, &user, &password)) {
        case SOCKS5_MORE:
                return false;
        case SOCKS5_OK:
                break;
        default:
                end_malformed(session);
                return false;
        }

        bool fits = proxy_auth_fits(secret_value(wanted), user, password);
        const char answer[] = { SOCKS5_PASSWORD_VERSION, fits ? SOCKS5_PASSWORD_GOOD : SOCKS5_PASSWORD_WRONG };

        secret_wipe(session->in.p, used);
        buf_consume(&session->in, used);
        if (!fits) {
                record_as(session, REASON_CLIENT, SOCKS5_DENIED, "the client brings a wrong secret of the run");
                socks5_dismiss(session, str_n(answer, sizeof answer));
                return false;
        }
        if (socks5_put(session, str_n(answer, sizeof answer)) < 0) {
                socks5_end(session);
                return false;
        }

        session->state = SOCKS5_REQUEST;
        return true;
}

static bool read_request(struct session *session) {
        size_t used;
        enum socks5_reply code;
        struct err why = { 0 };
        switch (socks5_request(buf_str(&session->in), &used, &session->call.target, &code, &why)) {
        case SOCKS5_MORE:
                return false;
        case SOCKS5_OK:
                break;
        case SOCKS5_SAY:
                refuse_request(session, code, &why);
                return false;
        default:
                end_malformed(session);

                return false;
        }

        buf_consume(&session->in, used);

        if (!gate_unmask(session->client.worker, &session->call.target)) {
                err_set(&why, ENOENT, "the address stands for no name any more");
                refuse_request(session, SOCKS5_DENIED, &why);
                return false;
        }

        timer_stop(&session->limit);
        session->state = SOCKS5_OPENING;
        session->call.via = VIA_SOCKS5;
        session->call.done = on_opened;
        gate_open(&session->call);

        return true;
}

/* One step with what has come. False: more is needed, or the session is over. */
static bool socks5_step(struct session *session) {
        switch (session->state) {
        case SOCKS5_GREETING:
                return socks5_greet(session);
        case SOCKS5_SECRET:
                return take_secret(session);
        case SOCKS5_REQUEST:
                return read_request(session);
        default:
                return false;
        }
}

/* Reads what there is. While the gate works this only tells whether the client is still there. */
static int read_more(struct session *session) {
        size_t wanted = session->state == SOCKS5_OPENING ? 4096 : SOCKS5_MESSAGE_MAX;
        if (buf_reserve(&session->in, wanted) < 0) {
                if (session->state == SOCKS5_OPENING)
                        return -EAGAIN;
                return -EMSGSIZE;
        } /* enough ahead: the rest stays in the socket */

        ssize_t got = stream_read(session->client.stream, session->in.p + session->in.n, wanted);
        if (got <= 0) {
                if (got == 0)
                        return -EPIPE;
                return (int)got;
        }

        session->in.n += (size_t)got;
        return 0;
}

/* The client left. One whose request was under way is on record. */
static void socks5_leave(struct session *session) {
        if (session->state == SOCKS5_OPENING)
                gate_report_refused(&session->client, &session->call, 0);
        socks5_end(session);
}

static void on_ready(struct stream *stream, void *owner) {
        struct session *session = owner;

        for (;;) {
                if (session->state == SOCKS5_OPENING && gate_is_held(&session->call) && stream_peer_left(stream)) {
                        socks5_leave(session);
                        return;
                }

                bool on = socks5_step(session);
                if (!session->client.worker)
                        return;
                if (on)
                        continue;

                int r = read_more(session);
                if (r == -EPIPE && session->state == SOCKS5_OPENING && session->in.n > 0)
                        return; /* half-closed after sending all: the tunnel will find the end again */

                if (r < 0) {
                        if (r != -EAGAIN)
                                socks5_leave(session);
                        return;
                }
        }
}

static void on_limit(struct timer *timer) {
        socks5_end(link_owner(timer, struct session, limit));
}

int socks5_start(const struct client *client) {
        struct session *session = alloc_zeroed(sizeof *session);
        if (!session)
                return client_has_no_room(client);

        struct worker *worker = client->worker;
        session->client = *client;
        session->call.worker = worker;
        session->in = BUF(AHEAD_MAX);
        timer_init(&session->limit, worker->loop, on_limit);
        task_init(&session->destroy, socks5_destroy);
        timer_start(&session->limit, worker->limits.header_ns);
        stream_set_owner(client->stream, on_ready, session);
        on_ready(client->stream, session);

        return 0;
}
