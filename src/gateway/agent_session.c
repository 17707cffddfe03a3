/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/agent_session.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "bridge/agent_keys.h"
#include "bridge/agent_message.h"
#include "gateway/programs.h"
#include "gateway/signing.h"
#include "net/tls_hostkey.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One request at a time: the next is looked at when the answer to this one has left. */
enum agent_state {
        AGENT_OPENING, /* the supervisor connects to the user's agent */
        AGENT_IDLE,    /* a request is awaited */
        AGENT_HELD,    /* a person is asked */
        AGENT_WAITING, /* the user's agent is asked */
        AGENT_CLOSED,  /* there is no agent: everything fails */
};

enum { BINDS_MAX = 16, SESSION_MAX = 128, TABLE_MAX = 1 << 20, PIECE = 16384, NUMBER_N = 4 };

struct bound {
        struct str session; /* in bytes */
        char bytes[SESSION_MAX];
        const struct agent_key *host;
        unsigned char key[DIGEST_BYTES];
};

struct agent_session {
        struct link link;
        struct client client;
        struct worker *worker;
        uint8_t state;
        bool gone;
        uint8_t asked; /* the type that the user's agent was asked for */
        struct buf in, out, back, request;
        struct stream *agent;
        struct program_call call;
        struct agent_keys keys;
        struct bound bounds[BINDS_MAX];
        size_t n_bounds;
        struct gate_call hold;
        struct timer limit;
        struct task destroy;
        char what[200]; /* of the signature that is under way, for the record */
        char host[264];
        char fingerprint[AGENT_FINGERPRINT_MAX];
};

static void agent_session_run(struct agent_session *s);

static void agent_session_destroy(struct task *t) {
        struct agent_session *s = link_owner(t, struct agent_session, destroy);

        agent_keys_done(&s->keys);
        buf_done(&s->in);
        buf_done(&s->out);
        buf_done(&s->back);
        buf_done(&s->request);
        free(s);
}

static void agent_session_end(struct agent_session *s) {
        struct loop *loop = s->worker->loop;

        if (s->gone)
                return;
        s->gone = true;
        link_remove(&s->link);
        timer_stop(&s->limit);
        if (s->state == AGENT_HELD)
                ask_leave(&s->hold, false);
        program_close(&s->call);
        stream_close(s->agent);
        client_done(&s->client);
        loop_defer(loop, &s->destroy);
}

/* --- answers and records --- */

static void session_record(struct agent_session *s, bool allowed, enum reason reason) {
        struct event ev = { .kind = EVENT_REQUEST,
                            .connection = s->client.number,
                            .rule = RULE_NONE,
                            .generation = s->worker->policy->generation,
                            .via = VIA_AGENT,
                            .scheme = SCHEME_SSH,
                            .reason = (uint16_t)reason,
                            .allowed = allowed,
                            .domain = str_of(s->host),
                            .method = STR("sign"),
                            .path = str_of(s->fingerprint),
                            .detail = str_of(s->what) };

        report_event(&s->worker->report, &ev);
}

static int session_answer(struct agent_session *s, uint8_t type, struct str body) {
        const size_t n = body.n + 1;
        const char head[AGENT_HEAD] = { (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n, (char)type };
        int r = buf_append(&s->out, str_n(head, sizeof head));

        return r < 0 ? r : buf_append(&s->out, body);
}

static int session_fail(struct agent_session *s) {
        s->state = s->agent ? AGENT_IDLE : AGENT_CLOSED;
        return session_answer(s, AGENT_FAILURE, STR(""));
}

static int session_refuse(struct agent_session *s, const char *what) {
        if (what)
                (void)snprintf(s->what, sizeof s->what, "%s", what);
        session_record(s, false, REASON_SIGNING);
        return session_fail(s);
}

/* --- requests --- */

/* What was asked for, as it came, to the user's agent. */
static int session_ask_agent(struct agent_session *s, uint8_t type, struct str message) {
        ssize_t n = stream_write(s->agent, message);

        if (n < (ssize_t)message.n) /* an agent reads its requests; one that does not is no agent */
                return -EPIPE;
        s->asked = type;
        s->state = AGENT_WAITING;
        return 1;
}

static int take_bind(struct agent_session *s, struct str body) {
        struct agent_bind bind;
        struct bound *to = &s->bounds[s->n_bounds];

        (void)snprintf(s->host, sizeof s->host, "%s", "");
        s->fingerprint[0] = '\0';
        if (!agent_bind_parse(body, &bind))
                return session_refuse(s, "an extension that is not passed on");
        agent_fingerprint(bind.host_key, s->fingerprint);
        if (bind.forwarding)
                return session_refuse(s, "a session with a forwarded agent");
        if (s->n_bounds == BINDS_MAX || bind.session.n > SESSION_MAX)
                return session_refuse(s, "too many sessions on one connection");
        if (!hostkey_verifies(bind.host_key, bind.session, bind.signature))
                return session_refuse(s, "a session that the host did not sign");

        to->host = agent_keys_find(&s->keys, bind.host_key, true);
        if (!to->host)
                return session_refuse(s,
                                      "a session with a host that ssh.hosts does not name, or whose key is not known");
        memcpy(to->bytes, bind.session.p, bind.session.n);
        to->session = str_n(to->bytes, bind.session.n);
        digest_sha256(bind.host_key, to->key);
        s->n_bounds++;
        return session_answer(s, AGENT_SUCCESS, STR(""));
}

static const struct bound *find_bound(const struct agent_session *s, struct str session) {
        for (size_t i = 0; i < s->n_bounds; i++)
                if (str_eq(s->bounds[i].session, session))
                        return &s->bounds[i];
        return NULL;
}

/* NULL: it may be signed. */
static const char *login_problem(struct agent_session *s, const struct agent_sign *sign,
                                 const struct agent_data *data) {
        const struct bound *bound = find_bound(s, data->session);
        unsigned char digest[DIGEST_BYTES];

        if (!bound)
                return "a login to a host that is not known: ssh has not bound the session to its key";
        (void)snprintf(s->host, sizeof s->host, "%s", bound->host->name);
        if (!str_eq(data->key, sign->key))
                return "a login with another key than the one that signs";
        if (data->host_key.n > 0) {
                digest_sha256(data->host_key, digest);
                if (memcmp(digest, bound->key, sizeof digest) != 0)
                        return "a login that names another host than its session";
        }
        return NULL;
}

static int session_sign(struct agent_session *s) {
        struct agent_message m = { 0 };

        if (agent_message_read(buf_str(&s->request), &m) <= 0)
                return -EBADMSG;
        return session_ask_agent(s, AGENT_SIGN_REQUEST, buf_str(&s->request));
}

static void on_answered(struct gate_call *c, enum decision decision, int error) {
        struct agent_session *s = link_owner(c, struct agent_session, hold);
        int r;

        (void)error;
        s->state = AGENT_IDLE;
        if (decision == DECISION_ALLOW) {
                r = session_sign(s);
        } else {
                session_record(s, false, REASON_ASK);
                r = session_fail(s);
        }
        if (r < 0)
                agent_session_end(s);
        else
                agent_session_run(s);
}

static int session_hold(struct agent_session *s) {
        char text[GATE_QUESTION_MAX];

        (void)snprintf(text, sizeof text, "signature (%.100s) by the ssh key %s", s->what, s->fingerprint);
        if (signing_ask(s->worker, &s->hold, text, VIA_AGENT, on_answered) < 0)
                return session_refuse(s, NULL);
        s->state = AGENT_HELD;
        return 0;
}

static int take_sign(struct agent_session *s, const struct agent_message *m) {
        struct agent_sign sign;
        struct agent_data data;
        const char *problem = NULL;

        s->host[0] = s->fingerprint[0] = '\0';
        if (!agent_sign_parse(m->body, &sign))
                return session_refuse(s, "a request that is not understood");
        agent_fingerprint(sign.key, s->fingerprint);
        if (!agent_keys_find(&s->keys, sign.key, false))
                return session_refuse(s, "a key that ssh.keys does not name");

        agent_data_parse(sign.data, &data);
        if (data.kind == AGENT_DATA_LOGIN) {
                problem = login_problem(s, &sign, &data);
                (void)snprintf(s->what, sizeof s->what, "a login as %.*s", STR_FMT(str_first(data.user, 64)));
        } else if (data.kind == AGENT_DATA_SSHSIG) {
                if (!s->keys.sign || !str_is(data.name, "git"))
                        problem = s->keys.sign ? "a signature in another namespace than git's"
                                               : "a signature, and signing.ssh does not allow any";
                (void)snprintf(s->what, sizeof s->what, "a commit or tag of git's");
        } else {
                problem = "neither a login nor a signature of git's";
        }
        if (problem)
                return session_refuse(s, problem);

        buf_clear(&s->request);
        int r = buf_append(&s->request, str_first(buf_str(&s->in), m->bytes));
        if (r < 0)
                return r;
        if (data.kind == AGENT_DATA_SSHSIG && s->worker->gateway->start.ask_signing)
                return session_hold(s);
        return session_sign(s);
}

static int take_request(struct agent_session *s, const struct agent_message *m) {
        switch (m->type) {
        case AGENT_REQUEST_IDENTITIES:
                if (m->body.n > 0)
                        return session_fail(s);
                return session_ask_agent(s, AGENT_REQUEST_IDENTITIES, str_first(buf_str(&s->in), m->bytes));
        case AGENT_SIGN_REQUEST:
                return take_sign(s, m);
        case AGENT_EXTENSION:
                return take_bind(s, m->body);
        default:
                s->host[0] = s->fingerprint[0] = '\0';
                (void)snprintf(s->what, sizeof s->what, "request %u, which a sandbox may not make of an agent",
                               m->type);
                return session_refuse(s, NULL);
        }
}

/* --- answers of the user's agent --- */

static int filter_identities(struct agent_session *s, struct str body) {
        cleanup(buf_done) struct buf kept = BUF(AGENT_MESSAGE_MAX);
        struct agent_identity identity;
        uint32_t n, shown = 0;
        int r = buf_append(&kept, str_n("\0\0\0\0", NUMBER_N));

        if (!agent_take_number(&body, &n))
                return session_fail(s);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
                struct str before = body;
                if (!agent_take_identity(&body, &identity))
                        return session_fail(s);
                if (!agent_keys_find(&s->keys, identity.key, false))
                        continue;
                shown++;
                r = buf_append(&kept, str_first(before, before.n - body.n));
        }
        if (r < 0)
                return r;
        for (int i = 0; i < NUMBER_N; i++)
                kept.p[i] = (char)(shown >> (24 - 8 * i));
        s->state = AGENT_IDLE;
        return session_answer(s, AGENT_IDENTITIES_ANSWER, buf_str(&kept));
}

static int take_answer(struct agent_session *s, const struct agent_message *m) {
        if (s->asked == AGENT_REQUEST_IDENTITIES)
                return m->type == AGENT_IDENTITIES_ANSWER ? filter_identities(s, m->body) : session_fail(s);
        if (m->type != AGENT_SIGN_RESPONSE) {
                session_record(s, false, REASON_UPSTREAM);
                return session_fail(s);
        }
        session_record(s, true, REASON_ALLOWED);
        s->state = AGENT_IDLE;
        return session_answer(s, AGENT_SIGN_RESPONSE, m->body);
}

/* --- turns --- */

static int fill(struct stream *stream, struct buf *into) {
        ssize_t n;
        int r = into->n < into->max ? buf_reserve(into, into->max - into->n < PIECE ? into->max - into->n : PIECE)
                                    : -EMSGSIZE;

        if (r < 0)
                return r;
        n = stream_read(stream, into->p + into->n, into->max - into->n < PIECE ? into->max - into->n : PIECE);
        if (n == -EAGAIN)
                return 0;
        if (n <= 0)
                return -EPIPE;
        into->n += (size_t)n;
        return 1;
}

static int flush(struct agent_session *s) {
        while (s->out.n > 0) {
                ssize_t n = stream_write(s->client.stream, buf_str(&s->out));
                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return (int)n;
                buf_consume(&s->out, (size_t)n);
        }
        return 1;
}

static int serve_client(struct agent_session *s) {
        struct agent_message m;
        int r = agent_message_read(buf_str(&s->in), &m);

        if (r == 0) {
                r = fill(s->client.stream, &s->in);
                return r;
        }
        if (r < 0)
                return r;
        r = s->state == AGENT_CLOSED ? session_fail(s) : take_request(s, &m);
        buf_consume(&s->in, m.bytes);
        return r < 0 ? r : 1;
}

static int serve_agent(struct agent_session *s) {
        struct agent_message m;
        int r = agent_message_read(buf_str(&s->back), &m);

        if (r == 0) {
                r = fill(s->agent, &s->back);
                return r;
        }
        if (r < 0)
                return r;
        r = take_answer(s, &m);
        buf_consume(&s->back, m.bytes);
        return r < 0 ? r : 1;
}

static void agent_session_run(struct agent_session *s) {
        int moved = 1;

        while (moved > 0 && !s->gone) {
                moved = flush(s);
                if (moved <= 0)
                        break;
                if (s->state == AGENT_IDLE || s->state == AGENT_CLOSED)
                        moved = serve_client(s);
                else if (s->state == AGENT_WAITING)
                        moved = serve_agent(s);
                else
                        moved = stream_peer_left(s->client.stream) ? -EPIPE : 0;
        }
        if (s->gone)
                return;
        if (moved < 0)
                agent_session_end(s);
        else if (s->state != AGENT_HELD)
                timer_start(&s->limit, s->worker->limits.tunnel_idle_ns);
}

static void on_stream(struct stream *stream, void *owner) {
        (void)stream;
        agent_session_run(owner);
}

static void on_limit(struct timer *t) {
        agent_session_end(link_owner(t, struct agent_session, limit));
}

/* --- the beginning --- */

static int read_keys(struct agent_session *s, int fd) {
        cleanup(buf_done) struct buf text = BUF(TABLE_MAX);
        int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, &text);

        if (r < 0)
                return r;
        agent_keys_done(&s->keys);
        return agent_keys_read(buf_str(&text), &s->keys);
}

static void on_agent_fd(struct program_call *call, enum ipc_program_fd which, int fd) {
        struct agent_session *s = link_owner(call, struct agent_session, call);
        cleanup(close_fd) int own = fd;
        int r;

        if (which == IPC_PROGRAM_FD_TABLE) {
                r = read_keys(s, own);
        } else if (which == IPC_PROGRAM_FD_STDIO && !s->agent) {
                r = fd_set_nonblocking(own, true);
                if (r == 0)
                        r = stream_socket_new(s->worker->loop, take_fd(&own), &s->agent);
                if (r == 0) {
                        stream_set_owner(s->agent, on_stream, s);
                        s->state = AGENT_IDLE;
                }
        } else {
                r = -EBADMSG;
        }
        if (r < 0)
                agent_session_end(s);
        else
                agent_session_run(s);
}

static void on_agent_status(struct program_call *call, int status, const char *why) {
        struct agent_session *s = link_owner(call, struct agent_session, call);

        (void)status;
        link_remove(&call->link);
        call->id = 0;
        (void)snprintf(s->what, sizeof s->what, "%s", why);
        session_record(s, false, REASON_UPSTREAM);
        s->state = AGENT_CLOSED;
        agent_session_run(s);
}

int agent_session_start(const struct client *c) {
        struct ipc_message m = { .kind = IPC_TOOL, .number = IPC_TOOL_AGENT };
        struct agent_session *s = alloc_zeroed(sizeof *s);

        if (!s)
                return client_has_no_room(c);
        s->client = *c;
        s->worker = c->worker;
        s->in = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        s->back = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        s->out = BUF(2 * (AGENT_MESSAGE_MAX + AGENT_HEAD));
        s->request = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        s->call.worker = c->worker;
        s->call.on_fd = on_agent_fd;
        s->call.on_status = on_agent_status;
        link_init(&s->call.link);
        task_init(&s->destroy, agent_session_destroy);
        timer_init(&s->limit, c->worker->loop, on_limit);
        timer_start(&s->limit, c->worker->limits.tunnel_idle_ns);
        link_append(&c->worker->agent_sessions, &s->link);
        stream_set_owner(s->client.stream, on_stream, s);
        if (program_open(&s->call, &m) < 0)
                agent_session_end(s);
        return 0;
}

void agent_sessions_end(struct worker *w) {
        while (!link_is_empty(&w->agent_sessions))
                agent_session_end(link_owner(w->agent_sessions.next, struct agent_session, link));
}
