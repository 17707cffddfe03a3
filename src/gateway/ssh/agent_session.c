/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ssh/agent_session.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "bridge/agent_keys.h"
#include "bridge/agent_message.h"
#include "gateway/programs.h"
#include "gateway/ssh/signing.h"
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

static void agent_session_run(struct agent_session *session);

static void agent_session_destroy(struct task *task) {
        struct agent_session *session = link_owner(task, struct agent_session, destroy);

        agent_keys_done(&session->keys);
        buf_done(&session->in);
        buf_done(&session->out);
        buf_done(&session->back);
        buf_done(&session->request);
        free(session);
}

static void agent_session_end(struct agent_session *session) {
        struct loop *loop = session->worker->loop;

        if (session->gone)
                return;

        session->gone = true;
        link_remove(&session->link);
        timer_stop(&session->limit);

        if (session->state == AGENT_HELD)
                ask_leave(&session->hold, false);

        program_close(&session->call);
        stream_close(session->agent);
        client_done(&session->client);
        loop_defer(loop, &session->destroy);
}

/* --- answers and records --- */

static void session_record(struct agent_session *session, bool allowed, enum reason reason) {
        struct event ev = { .kind = EVENT_REQUEST,
                            .connection = session->client.number,
                            .rule = RULE_NONE,
                            .generation = session->worker->policy->generation,
                            .via = VIA_AGENT,
                            .scheme = SCHEME_SSH,
                            .reason = (uint16_t)reason,
                            .allowed = allowed,
                            .domain = str_of(session->host),
                            .method = STR("sign"),
                            .path = str_of(session->fingerprint),
                            .detail = str_of(session->what) };

        report_event(&session->worker->report, &ev);
}

static int session_answer(struct agent_session *session, uint8_t type, struct str body) {
        const size_t n = body.n + 1;
        const char head[AGENT_HEAD] = { (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n, (char)type };
        int r = buf_append(&session->out, str_n(head, sizeof head));

        if (r < 0)
                return r;

        return buf_append(&session->out, body);
}

static int session_fail(struct agent_session *session) {
        session->state = session->agent ? AGENT_IDLE : AGENT_CLOSED;
        return session_answer(session, AGENT_FAILURE, STR(""));
}

static int session_refuse(struct agent_session *session, const char *what) {
        if (what)
                (void)snprintf(session->what, sizeof session->what, "%s", what);
        session_record(session, false, REASON_SIGNING);
        return session_fail(session);
}

/* --- requests --- */

/* What was asked for, as it came, to the user's agent. */
static int session_ask_agent(struct agent_session *session, uint8_t type, struct str message) {
        ssize_t n = stream_write(session->agent, message);

        if (n < (ssize_t)message.n) /* an agent reads its requests; one that does not is no agent */
                return -EPIPE;
        session->asked = type;
        session->state = AGENT_WAITING;
        return 1;
}

static int take_bind(struct agent_session *session, struct str body) {
        struct agent_bind bind;
        struct bound *to = &session->bounds[session->n_bounds];

        (void)snprintf(session->host, sizeof session->host, "%s", "");
        session->fingerprint[0] = '\0';
        if (!agent_bind_parse(body, &bind))
                return session_refuse(session, "an extension that is not passed on");

        agent_fingerprint(bind.host_key, session->fingerprint);
        if (bind.forwarding)
                return session_refuse(session, "a session with a forwarded agent");
        if (session->n_bounds == BINDS_MAX || bind.session.n > SESSION_MAX)
                return session_refuse(session, "too many sessions on one connection");
        if (!hostkey_verifies(bind.host_key, bind.session, bind.signature))
                return session_refuse(session, "a session that the host did not sign");

        to->host = agent_keys_find(&session->keys, bind.host_key, true);
        if (!to->host)
                return session_refuse(session,
                                      "a session with a host that ssh.hosts does not name, or whose key is not known");

        memcpy(to->bytes, bind.session.p, bind.session.n);
        to->session = str_n(to->bytes, bind.session.n);
        digest_sha256(bind.host_key, to->key);
        session->n_bounds++;

        return session_answer(session, AGENT_SUCCESS, STR(""));
}

static const struct bound *find_bound(const struct agent_session *agent_session, struct str session) {
        for (size_t i = 0; i < agent_session->n_bounds; i++)
                if (str_eq(agent_session->bounds[i].session, session))
                        return &agent_session->bounds[i];
        return NULL;
}

/* NULL: it may be signed. */
static const char *login_problem(struct agent_session *session, const struct agent_sign *sign,
                                 const struct agent_data *data) {
        const struct bound *bound = find_bound(session, data->session);
        unsigned char digest[DIGEST_BYTES];

        if (!bound)
                return "a login to a host that is not known: ssh has not bound the session to its key";

        (void)snprintf(session->host, sizeof session->host, "%s", bound->host->name);
        if (!str_eq(data->key, sign->key))
                return "a login with another key than the one that signs";

        if (data->host_key.n > 0) {
                digest_sha256(data->host_key, digest);
                if (memcmp(digest, bound->key, sizeof digest) != 0)
                        return "a login that names another host than its session";
        }

        return NULL;
}

static int session_sign(struct agent_session *session) {
        struct agent_message message = { 0 };

        if (agent_message_read(buf_str(&session->request), &message) <= 0)
                return -EBADMSG;
        return session_ask_agent(session, AGENT_SIGN_REQUEST, buf_str(&session->request));
}

static void on_answered(struct gate_call *call, enum decision decision, int error) {
        struct agent_session *session = link_owner(call, struct agent_session, hold);
        int r;

        (void)error;
        session->state = AGENT_IDLE;

        if (decision == DECISION_ALLOW) {
                r = session_sign(session);
        } else {
                session_record(session, false, REASON_ASK);
                r = session_fail(session);
        }

        if (r < 0)
                agent_session_end(session);
        else
                agent_session_run(session);
}

static int session_hold(struct agent_session *session) {
        char text[GATE_QUESTION_MAX];

        (void)snprintf(text, sizeof text, "signature (%.100s) by the ssh key %s", session->what, session->fingerprint);
        if (signing_ask(session->worker, &session->hold, text, VIA_AGENT, on_answered) < 0)
                return session_refuse(session, NULL);
        session->state = AGENT_HELD;
        return 0;
}

static int take_sign(struct agent_session *session, const struct agent_message *message) {
        struct agent_sign sign;
        struct agent_data data;
        const char *problem = NULL;

        session->host[0] = session->fingerprint[0] = '\0';
        if (!agent_sign_parse(message->body, &sign))
                return session_refuse(session, "a request that is not understood");

        agent_fingerprint(sign.key, session->fingerprint);
        if (!agent_keys_find(&session->keys, sign.key, false))
                return session_refuse(session, AGENT_NO_KEY);

        agent_data_parse(sign.data, &data);

        if (data.kind == AGENT_DATA_LOGIN) {
                problem = login_problem(session, &sign, &data);
                (void)snprintf(session->what, sizeof session->what, AGENT_LOGIN "%.*s",
                               STR_FMT(str_first(data.user, 64)));
        } else if (data.kind == AGENT_DATA_SSHSIG) {
                if (!session->keys.sign || !str_is(data.name, "git"))
                        problem = session->keys.sign ? "a signature in another namespace than git's" : AGENT_NO_SIGNING;
                (void)snprintf(session->what, sizeof session->what, AGENT_GIT);
        } else {
                problem = "neither a login nor a signature of git's";
        }

        if (problem)
                return session_refuse(session, problem);

        buf_clear(&session->request);
        int r = buf_append(&session->request, str_first(buf_str(&session->in), message->bytes));
        if (r < 0)
                return r;
        if (data.kind == AGENT_DATA_SSHSIG && session->worker->gateway->start.ask_signing)
                return session_hold(session);

        return session_sign(session);
}

static int take_request(struct agent_session *session, const struct agent_message *message) {
        switch (message->type) {
        case AGENT_REQUEST_IDENTITIES:
                if (message->body.n > 0)
                        return session_fail(session);
                return session_ask_agent(session, AGENT_REQUEST_IDENTITIES,
                                         str_first(buf_str(&session->in), message->bytes));
        case AGENT_SIGN_REQUEST:
                return take_sign(session, message);
        case AGENT_EXTENSION:
                return take_bind(session, message->body);
        default:
                session->host[0] = session->fingerprint[0] = '\0';
                (void)snprintf(session->what, sizeof session->what,
                               "request %u, which a sandbox may not make of an agent", message->type);

                return session_refuse(session, NULL);
        }
}

/* --- answers of the user's agent --- */

static int filter_identities(struct agent_session *session, struct str body) {
        cleanup(buf_done) struct buf kept = BUF(AGENT_MESSAGE_MAX);
        struct agent_identity identity;
        uint32_t n, shown = 0;
        int r = buf_append(&kept, str_n("\0\0\0\0", NUMBER_N));

        if (!agent_take_number(&body, &n))
                return session_fail(session);

        for (uint32_t i = 0; r == 0 && i < n; i++) {
                struct str before = body;

                if (!agent_take_identity(&body, &identity))
                        return session_fail(session);
                if (!agent_keys_find(&session->keys, identity.key, false))
                        continue;

                shown++;
                r = buf_append(&kept, str_first(before, before.n - body.n));
        }

        if (r < 0)
                return r;

        for (int i = 0; i < NUMBER_N; i++)
                kept.p[i] = (char)(shown >> (24 - 8 * i));

        session->state = AGENT_IDLE;
        return session_answer(session, AGENT_IDENTITIES_ANSWER, buf_str(&kept));
}

static int take_answer(struct agent_session *session, const struct agent_message *message) {
        if (session->asked == AGENT_REQUEST_IDENTITIES && message->type == AGENT_IDENTITIES_ANSWER)
                return filter_identities(session, message->body);
        if (session->asked == AGENT_REQUEST_IDENTITIES)
                return session_fail(session);

        if (message->type != AGENT_SIGN_RESPONSE) {
                session_record(session, false, REASON_UPSTREAM);
                return session_fail(session);
        }

        session_record(session, true, REASON_ALLOWED);
        session->state = AGENT_IDLE;

        return session_answer(session, AGENT_SIGN_RESPONSE, message->body);
}

/* --- turns --- */

static int agent_session_fill(struct stream *stream, struct buf *into) {
        size_t room = into->max - into->n, wanted = min_of(room, PIECE);
        ssize_t n;
        int r;

        if (room == 0)
                return -EMSGSIZE;

        r = buf_reserve(into, wanted);
        if (r < 0)
                return r;

        n = stream_read(stream, into->p + into->n, wanted);
        if (n == -EAGAIN)
                return 0;
        if (n <= 0)
                return -EPIPE;

        into->n += (size_t)n;
        return 1;
}

static int agent_session_flush(struct agent_session *session) {
        while (session->out.n > 0) {
                ssize_t n = stream_write(session->client.stream, buf_str(&session->out));
                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return (int)n;

                buf_consume(&session->out, (size_t)n);
        }

        return 1;
}

static int serve_client(struct agent_session *session) {
        struct agent_message message;
        int r = agent_message_read(buf_str(&session->in), &message);

        if (r == 0) {
                r = agent_session_fill(session->client.stream, &session->in);
                return r;
        }

        if (r < 0)
                return r;

        if (session->state == AGENT_CLOSED)
                r = session_fail(session);
        else
                r = take_request(session, &message);
        buf_consume(&session->in, message.bytes);
        if (r < 0)
                return r;

        return 1;
}

static int serve_agent(struct agent_session *session) {
        struct agent_message message;
        int r = agent_message_read(buf_str(&session->back), &message);

        if (r == 0) {
                r = agent_session_fill(session->agent, &session->back);
                return r;
        }

        if (r < 0)
                return r;

        r = take_answer(session, &message);
        buf_consume(&session->back, message.bytes);
        if (r < 0)
                return r;

        return 1;
}

static void agent_session_run(struct agent_session *session) {
        int moved = 1;

        while (moved > 0 && !session->gone) {
                moved = agent_session_flush(session);
                if (moved <= 0)
                        break;
                if (session->state == AGENT_IDLE || session->state == AGENT_CLOSED)
                        moved = serve_client(session);
                else if (session->state == AGENT_WAITING)
                        moved = serve_agent(session);
                else
                        moved = stream_peer_left(session->client.stream) ? -EPIPE : 0;
        }

        if (session->gone)
                return;

        if (moved < 0)
                agent_session_end(session);
        else if (session->state != AGENT_HELD)
                timer_start(&session->limit, session->worker->limits.tunnel_idle_ns);
}

static void on_stream(struct stream *stream, void *owner) {
        (void)stream;
        agent_session_run(owner);
}

static void on_limit(struct timer *timer) {
        agent_session_end(link_owner(timer, struct agent_session, limit));
}

/* --- the beginning --- */

static int read_keys(struct agent_session *session, int fd) {
        cleanup(buf_done) struct buf text = BUF(TABLE_MAX);
        int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, &text);

        if (r < 0)
                return r;
        agent_keys_done(&session->keys);
        return agent_keys_read(buf_str(&text), &session->keys);
}

static void on_agent_fd(struct program_call *call, enum ipc_program_fd which, int fd) {
        struct agent_session *session = link_owner(call, struct agent_session, call);
        cleanup(close_fd) int own = fd;
        int r;

        if (which == IPC_PROGRAM_FD_TABLE) {
                r = read_keys(session, own);
        } else if (which == IPC_PROGRAM_FD_STDIO && !session->agent) {
                r = fd_set_nonblocking(own, true);
                if (r == 0)
                        r = stream_socket_new(session->worker->loop, take_fd(&own), &session->agent);
                if (r == 0) {
                        stream_set_owner(session->agent, on_stream, session);
                        session->state = AGENT_IDLE;
                }
        } else {
                r = -EBADMSG;
        }

        if (r < 0)
                agent_session_end(session);
        else
                agent_session_run(session);
}

static void on_agent_status(struct program_call *call, int status, const char *why) {
        struct agent_session *session = link_owner(call, struct agent_session, call);

        (void)status;
        link_remove(&call->link);
        call->id = 0;
        (void)snprintf(session->what, sizeof session->what, "%s", why);
        session_record(session, false, REASON_UPSTREAM);
        session->state = AGENT_CLOSED;
        agent_session_run(session);
}

int agent_session_start(const struct client *client) {
        struct ipc_message message = { .kind = IPC_TOOL, .number = IPC_TOOL_AGENT };
        struct agent_session *session = alloc_zeroed(sizeof *session);

        if (!session)
                return client_has_no_room(client);

        session->client = *client;
        session->worker = client->worker;
        session->in = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        session->back = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        session->out = BUF(2 * (AGENT_MESSAGE_MAX + AGENT_HEAD));
        session->request = BUF(AGENT_MESSAGE_MAX + AGENT_HEAD);
        session->call.worker = client->worker;
        session->call.on_fd = on_agent_fd;
        session->call.on_status = on_agent_status;
        link_init(&session->call.link);
        task_init(&session->destroy, agent_session_destroy);
        timer_init(&session->limit, client->worker->loop, on_limit);
        timer_start(&session->limit, client->worker->limits.tunnel_idle_ns);
        link_append(&client->worker->agent_sessions, &session->link);
        stream_set_owner(session->client.stream, on_stream, session);

        if (program_open(&session->call, &message) < 0)
                agent_session_end(session);

        return 0;
}

void agent_sessions_end(struct worker *worker) {
        while (!link_is_empty(&worker->agent_sessions))
                agent_session_end(link_owner(worker->agent_sessions.next, struct agent_session, link));
}
