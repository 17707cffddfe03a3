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
#include "base/secret.h"
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

static struct vault_client *vault_of(const struct http_renew *n) {
        return n->session->client.worker->vault;
}

static const struct credential_mapping *leader_of(const struct http_renew *n) {
        return credentials_get(n->session->client.worker->gateway->credentials, n->leader);
}

bool http_renew_is_on(const struct http_session *s) {
        return s->swap && s->swap->renew && s->swap->renew->holds;
}

static void wipe_buf(struct buf *b) {
        if (b->p)
                secret_wipe(b->p, b->cap);
        buf_done(b);
}

int http_renew_new(struct http_session *s, const struct inject_plan *plan, struct str method, struct str target) {
        const struct credentials *table = s->client.worker->gateway->credentials;
        const struct credential_mapping *leader = renew_leader(table, &plan->set, method, target);
        if (!leader)
                return 0;

        struct http_renew *n = s->swap->renew = alloc_zeroed(sizeof *n);
        if (!n)
                return -ENOMEM;
        n->session = s;
        n->leader = leader->index;
        n->answer = BUF(RENEW_ANSWER_MAX);
        n->lines = BUF(VAULT_ANSWER_MAX);
        link_init(&n->begin.link);
        link_init(&n->keep.link);
        return 1;
}

void http_renew_free(struct http_session *s) {
        struct http_renew *n = s->swap ? take_ptr(&s->swap->renew) : NULL;
        if (!n)
                return;

        vault_call_cancel(&n->begin);
        vault_call_cancel(&n->keep);
        if (n->again.fn)
                timer_stop(&n->again);
        if (n->began && vault_of(n))
                vault_tell_leave(vault_of(n), n->leader);
        wipe_buf(&n->answer);
        wipe_buf(&n->lines);
        free(n);
}

/* the request */

static void on_begun(struct vault_call *call, int error) {
        struct http_renew *n = link_owner(call, struct http_renew, begin);

        n->failed = error;
        n->began = error == 0;
        n->done(&n->session->swap->swap);
}

int http_renew_prepare(struct http_session *s, struct inject_plan *plan, void (*done)(struct swap *s)) {
        struct http_renew *n = s->swap->renew;
        const struct credentials *table = s->client.worker->gateway->credentials;
        enum inject_result result = renew_judge(table, leader_of(n), buf_str(&s->swap->body), plan, &n->fresh);

        if (result == INJECT_REFUSE)
                return -EACCES;
        if (n->failed < 0)
                return n->failed;
        if (n->began || result == INJECT_PASS)
                return 0; /* nothing of ours in it: there is nothing that two could use up */
        n->done = done;
        n->begin.done = on_begun;
        int r = vault_ask_renew(vault_of(n), n->leader, &s->call.target, &n->begin);
        return r < 0 ? r : -EINPROGRESS;
}

int http_renew_body(struct http_session *s, const struct inject_plan *plan, struct buf *out) {
        struct str values[INJECT_SWAPS_MAX] = { 0 }, body = buf_str(&s->swap->body);
        size_t room = body.n + 64;

        for (size_t i = 0; i < plan->n_swaps; i++) {
                if (plan->swaps[i].header != INJECT_IN_BODY)
                        continue;
                const struct vault_value *v =
                    vault_value(vault_of(s->swap->renew), plan->swaps[i].mapping, &s->call.target);
                if (!v)
                        return -EPIPE;
                values[i] = v->bytes;
                room += 6 * v->bytes.n;
        }
        *out = BUF(room + 1);
        int r = buf_reserve(out, room); /* so that it never moves */
        return r < 0 ? r : renew_body(plan, body, values, out);
}

/* the answer */

bool http_renew_takes(struct http_session *s, unsigned status, enum http1_body body) {
        struct http_renew *n = s->swap->renew;

        if (!n || status < 200 || status > 299 || body == BODY_NONE)
                return false;
        n->holds = true;
        s->down.held = true;
        return true;
}

int http_renew_push(struct http_session *s, struct str span) {
        struct http_renew *n = s->swap->renew;

        if (buf_append(&n->answer, span) < 0) {
                s->call.why = "The token endpoint's answer is too large to be one.";
                return -EBADMSG;
        }
        return 0;
}

/* All is where it belongs, or the answer had nothing: the client gets it. */
static int answer_leaves(struct http_renew *n) {
        struct http_session *s = n->session;
        struct buf out = BUF(2 * RENEW_ANSWER_MAX);
        int r = renew_write(s->client.worker->gateway->credentials, leader_of(n), buf_str(&n->answer),
                            buf_str(&n->lines), &out);

        if (r == 0 && renew_holds(buf_str(&n->lines), buf_str(&s->down.head)))
                r = -EPERM; /* in a header */
        if (r == -EPERM)
                s->call.why = "The token endpoint's answer has something else in it that looks like a secret; the "
                              "tokens were kept outside, and the answer is held back.";
        n->holds = false;
        s->down.held = false;
        if (r == 0)
                r = s->swap->chunks_down ? http_swap_put_chunk(&s->down, buf_str(&out), STR(""))
                                         : http_swap_put(&s->down, buf_str(&out));
        if (r == 0 && s->swap->chunks_down)
                r = http_swap_put(&s->down, STR("0\r\n\r\n"));
        wipe_buf(&out);
        http_renew_free(s);
        return r < 0 ? -EBADMSG : 0;
}

static void answer_fails(struct http_renew *n, int error) {
        struct http_session *s = n->session;

        n->holds = false;
        s->down.held = false;
        if (!s->call.why)
                s->call.why = "The vault could not keep the new tokens, so they are not handed on.";
        http_renew_free(s);
        http_exchange_fail(s, error);
}

static void ask_keep(struct http_renew *n);

static void on_again(struct timer *timer) {
        struct http_renew *n = link_owner(timer, struct http_renew, again);

        if (n->tries++ < KEEP_TRIES)
                ask_keep(n);
        else
                answer_fails(n, -EBADMSG);
}

static void keep_later(struct http_renew *n) {
        timer_init(&n->again, n->session->client.worker->loop, on_again);
        timer_start(&n->again, KEEP_AGAIN_NS);
}

static void on_kept(struct vault_call *call, int error) {
        struct http_renew *n = link_owner(call, struct http_renew, keep);
        struct http_session *s = n->session;

        if (error == -EPIPE || error == -ETIMEDOUT) {
                keep_later(n);
                return;
        }
        n->began = false;
        if (error < 0) {
                answer_fails(n, -EBADMSG);
                return;
        }
        int r = answer_leaves(n);
        if (r < 0)
                http_exchange_fail(s, r);
        else
                http_session_run(s);
}

static void ask_keep(struct http_renew *n) {
        n->keep.done = on_kept;
        int r = vault_ask_keep(vault_of(n), n->leader, &n->session->call.target, buf_str(&n->lines), n->expires_in,
                               n->fresh, &n->keep);
        if (r < 0)
                keep_later(n); /* never at once: whoever called goes on with the session */
}

int http_renew_end(struct http_session *s) {
        struct http_renew *n = s->swap->renew;
        int r = renew_read(s->client.worker->gateway->credentials, leader_of(n), buf_str(&n->answer), &n->lines,
                           &n->expires_in);

        if (r == -ENOENT)
                return answer_leaves(n);
        if (r < 0) {
                s->call.why = "The token endpoint's answer cannot be read, so nobody can say where its secrets are.";
                n->holds = false;
                s->down.held = false;
                return -EBADMSG;
        }
        ask_keep(n);
        return 0;
}
