/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token endpoint in an HTTP/1 session (what is done to the bodies: renew.c). Hosts that have one are spoken to in
 * HTTP/1.1 (intercept.c).
 *
 *   the request's body is kept whole, judged, and leaves with the refresh token of this moment, after the vault has
 *   said that nobody else renews it now
 *   the answer is held back, head and body, until it is whole; its tokens go to the vault, which has them written
 *   before it says so; then the answer leaves with stand-ins
 *
 * The client may go away meanwhile: nothing is written to it, so nobody notices before the tokens are kept. When the
 * vault dies in between, the next one is told.
 */
#include "gateway/creds/renew.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"
#include "gateway/http/http_swap.h"

#include <errno.h>
#include <stdlib.h>

enum { KEEP_TRIES = 100 };
#define KEEP_AGAIN_NS (100 * NS_PER_MS)

struct http_renew {
        struct http_session *session;
        uint32_t leader;
        bool fresh; /* a new sign-in, no refresh */
        bool began; /* the vault waits for how it ends */
        bool holds; /* the answer's body is collected */
        int failed; /* of the question to begin */
        unsigned tries;
        void (*done)(struct swap *s);
        struct vault_call begin, keep;
        struct timer again;
        struct buf answer, lines; /* hold secrets */
        uint64_t expires_in;
};

static struct vault_client *vault_of(const struct http_renew *renew) {
        return renew->session->client.worker->vault;
}

static const struct credential_mapping *leader_of(const struct http_renew *renew) {
        return credentials_get(renew->session->client.worker->gateway->credentials, renew->leader);
}

bool http_renew_is_on(const struct http_session *session) {
        return session->exchange.swap && session->exchange.swap->renew && session->exchange.swap->renew->holds;
}

int http_renew_new(struct http_session *session, const struct inject_plan *plan, struct str method, struct str target) {
        const struct credentials *table = session->client.worker->gateway->credentials;
        const struct credential_mapping *leader = renew_leader(table, &plan->set, method, target);
        if (!leader)
                return 0;

        struct http_renew *renew = session->exchange.swap->renew = alloc_zeroed(sizeof *renew);
        if (!renew)
                return -ENOMEM;

        renew->session = session;
        renew->leader = leader->index;
        renew->answer = BUF(RENEW_ANSWER_MAX);
        renew->lines = BUF(VAULT_ANSWER_MAX);
        link_init(&renew->begin.link);
        link_init(&renew->keep.link);

        return 1;
}

void http_renew_free(struct http_session *session) {
        struct http_renew *renew = session->exchange.swap ? take_ptr(&session->exchange.swap->renew) : NULL;
        if (!renew)
                return;

        vault_call_cancel(&renew->begin);
        vault_call_cancel(&renew->keep);
        if (renew->again.fn)
                timer_stop(&renew->again);
        if (renew->began && vault_of(renew))
                vault_tell_leave(vault_of(renew), renew->leader);

        secret_buf_done(&renew->answer);
        secret_buf_done(&renew->lines);
        free(renew);
}

/* the request */

static void on_begun(struct vault_call *call, int error) {
        struct http_renew *renew = link_owner(call, struct http_renew, begin);

        renew->failed = error;
        renew->began = error == 0;
        renew->done(&renew->session->exchange.swap->swap);
}

int http_renew_prepare(struct http_session *session, const struct request_view *view, struct inject_plan *plan,
                       void (*done)(struct swap *session)) {
        struct http_renew *renew = session->exchange.swap->renew;
        const struct credentials *table = session->client.worker->gateway->credentials;
        const struct renew_request request = { .body = buf_str(&session->exchange.swap->body), .view = view };
        const struct credential_mapping *leader = leader_of(renew);
        enum inject_result result = renew_judge(table, &leader, &request, plan, &renew->fresh);

        renew->leader = leader->index;
        if (result == INJECT_REFUSE)
                return -EACCES;
        if (renew->failed < 0)
                return renew->failed;
        if (renew->began || result == INJECT_PASS)
                return 0; /* nothing of ours in it: there is nothing that two could use up */

        renew->done = done;
        renew->begin.done = on_begun;
        int r = vault_ask_renew(vault_of(renew), renew->leader, &session->call.target, &renew->begin);
        if (r < 0)
                return r;

        return -EINPROGRESS;
}

int http_renew_body(struct http_session *session, const struct inject_plan *plan, struct buf *out) {
        struct str values[INJECT_SWAPS_MAX] = { 0 }, body = buf_str(&session->exchange.swap->body);
        size_t room = body.n + 64;

        for (size_t i = 0; i < plan->n_swaps; i++) {
                if (plan->swaps[i].header != INJECT_IN_BODY)
                        continue;

                const struct vault_value *value =
                    vault_value(vault_of(session->exchange.swap->renew), plan->swaps[i].mapping, &session->call.target);
                if (!value)
                        return -EPIPE;

                values[i] = value->bytes;
                room += 6 * value->bytes.n;
        }

        *out = BUF(room + 1);
        int r = buf_reserve(out, room); /* so that it never moves */

        if (r < 0)
                return r;

        return renew_body(plan, body, values, out);
}

/* the answer */

bool http_renew_takes(struct http_session *session, unsigned status, enum http1_body body) {
        struct http_renew *renew = session->exchange.swap->renew;

        if (!renew || status < 200 || status > 299 || body == BODY_NONE)
                return false;
        renew->holds = true;
        session->exchange.down.held = true;
        return true;
}

int http_renew_push(struct http_session *session, struct str span) {
        struct http_renew *renew = session->exchange.swap->renew;

        if (buf_append(&renew->answer, span) < 0) {
                session->call.why = "The token endpoint's answer is too large to be one.";
                return -EBADMSG;
        }
        return 0;
}

/* All is where it belongs, or the answer had nothing: the client gets it. */
static int answer_leaves(struct http_renew *renew) {
        struct http_session *session = renew->session;
        struct buf out = BUF(2 * RENEW_ANSWER_MAX);
        int r = renew_write(session->client.worker->gateway->credentials, leader_of(renew), buf_str(&renew->answer),
                            buf_str(&renew->lines), &out);

        if (r == 0 && renew_holds(buf_str(&renew->lines), buf_str(&session->exchange.down.head)))
                r = -EPERM; /* in a header */

        if (r == -EPERM)
                session->call.why =
                    "The token endpoint's answer has something else in it that looks like a secret; the "
                    "tokens were kept outside, and the answer is held back.";

        renew->holds = false;
        session->exchange.down.held = false;

        if (r == 0)
                r = session->exchange.swap->chunks_down
                        ? http_flow_queue_chunk(&session->exchange.down, buf_str(&out), STR(""))
                        : http_flow_queue(&session->exchange.down, buf_str(&out));

        if (r == 0 && session->exchange.swap->chunks_down)
                r = http_flow_queue(&session->exchange.down, STR("0\r\n\r\n"));

        secret_buf_done(&out);
        http_renew_free(session);

        if (r < 0)
                return -EBADMSG;

        return 0;
}

static void answer_fails(struct http_renew *renew, int error) {
        struct http_session *session = renew->session;

        renew->holds = false;
        session->exchange.down.held = false;
        if (!session->call.why)
                session->call.why = "The vault could not keep the new tokens, so they are not handed on.";

        http_renew_free(session);
        session->resume(session, error);
}

static void ask_keep(struct http_renew *renew);

static void on_again(struct timer *timer) {
        struct http_renew *renew = link_owner(timer, struct http_renew, again);

        if (renew->tries++ < KEEP_TRIES)
                ask_keep(renew);
        else
                answer_fails(renew, -EBADMSG);
}

static void keep_later(struct http_renew *renew) {
        timer_init(&renew->again, renew->session->client.worker->loop, on_again);
        timer_start(&renew->again, KEEP_AGAIN_NS);
}

static void on_kept(struct vault_call *call, int error) {
        struct http_renew *renew = link_owner(call, struct http_renew, keep);
        struct http_session *session = renew->session;

        if (error == -EPIPE || error == -ETIMEDOUT) {
                keep_later(renew);
                return;
        }

        renew->began = false;

        if (error < 0) {
                answer_fails(renew, -EBADMSG);
                return;
        }

        session->resume(session, answer_leaves(renew));
}

static void ask_keep(struct http_renew *renew) {
        renew->keep.done = on_kept;
        int r = vault_ask_keep(vault_of(renew), renew->leader, &renew->session->call.target, buf_str(&renew->lines),
                               renew->expires_in, renew->fresh, &renew->keep);
        if (r < 0)
                keep_later(renew); /* never at once: whoever called goes on with the session */
}

int http_renew_end(struct http_session *session) {
        struct http_renew *renew = session->exchange.swap->renew;
        int r = renew_read(session->client.worker->gateway->credentials, leader_of(renew), buf_str(&renew->answer),
                           &renew->lines, &renew->expires_in);

        if (r == -ENOENT)
                return answer_leaves(renew);

        if (r < 0) {
                session->call.why =
                    "The token endpoint's answer cannot be read, so nobody can say where its secrets are.";
                renew->holds = false;
                session->exchange.down.held = false;
                return -EBADMSG;
        }

        ask_keep(renew);
        return 0;
}
