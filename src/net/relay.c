/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include "net/splice.h"

#include <errno.h>

enum { TURN_SHARE = 1 << 20 }; /* bytes one direction may move before others get their turn */

static void end(struct relay *r, enum relay_end how, int error) {
        if (r->over)
                return;
        relay_stop(r, how != RELAY_CLOSED);
        r->done(r, how, error);
}

/* What one step did: moved bytes, cannot go on now, the relay is no more; or met an error (a negative errno). */
enum { BLOCKED = 0, MOVED = 1, GONE = 2 };

/* How many bytes may go this way before somebody wants to look. */
static size_t allowance(const struct relay *r, int from, size_t wanted) {
        return from == RELAY_CLIENT && r->inspect && r->pass_left < wanted ? (size_t)r->pass_left : wanted;
}

static int count(struct relay *r, int from, size_t n) {
        r->flow[from].bytes += n;
        if (from == RELAY_CLIENT && r->inspect)
                r->pass_left -= n;
        if (from == RELAY_CLIENT && r->account && !r->account(r, n))
                return -EDQUOT;
        return MOVED;
}

/* Writes what is left of an earlier read. */
static int drain_chunk(struct relay *r, int from) {
        struct relay_flow *f = &r->flow[from];
        struct pool_chunk *c = f->rest;
        ssize_t put = stream_write(r->side[!from], str_n(c->bytes + c->at, allowance(r, from, c->n - c->at)));
        if (put < 0)
                return put == -EAGAIN ? BLOCKED : (int)put;
        c->at += (size_t)put;
        if (c->at == c->n) {
                f->rest = NULL;
                pool_chunk_put(r->pool, c);
        }
        return count(r, from, (size_t)put);
}

static int copy_step(struct relay *r, int from) {
        struct relay_flow *f = &r->flow[from];
        /* What cannot be written must fit a chunk. */
        ssize_t got = stream_read(r->side[from], r->pool->scratch, allowance(r, from, POOL_CHUNK_BYTES));
        if (got < 0)
                return got == -EAGAIN ? BLOCKED : (int)got;
        if (got == 0) {
                f->ended = true;
                return BLOCKED;
        }
        ssize_t put = stream_write(r->side[!from], str_n(r->pool->scratch, (size_t)got));
        if (put < 0 && put != -EAGAIN)
                return (int)put;
        if (put < 0)
                put = 0;
        if (put < got) {
                struct pool_chunk *c = pool_chunk_get(r->pool);
                if (!c)
                        return -ENOMEM;
                c->n = (size_t)(got - put);
                memcpy(c->bytes, r->pool->scratch + put, c->n);
                f->rest = c;
        }
        return put > 0 ? count(r, from, (size_t)put) : BLOCKED;
}

static int show(struct relay *r) {
        struct relay_flow *f = &r->flow[RELAY_CLIENT];
        switch (r->inspect(r, str_n(f->rest->bytes, f->rest->n), f->ended)) {
        case RELAY_HOLD:
                return f->ended ? -EPROTO : MOVED;
        case RELAY_PASS:
                if (r->pass_left == RELAY_PASS_ALL)
                        r->inspect = NULL;
                return MOVED;
        case RELAY_TAKE:
                return GONE;
        case RELAY_STOP:
                break;
        }
        return -EDQUOT;
}

/* Collects the client's bytes until the inspector has seen enough. */
static int hold_step(struct relay *r) {
        struct relay_flow *f = &r->flow[RELAY_CLIENT];
        if (!f->rest && !(f->rest = pool_chunk_get(r->pool)))
                return -ENOMEM;
        struct pool_chunk *c = f->rest;
        if (c->at > 0) { /* what came behind the bytes that were let through was not shown yet */
                c->n -= c->at;
                memmove(c->bytes, c->bytes + c->at, c->n);
                c->at = 0;
                return show(r);
        }
        if (c->n == sizeof c->bytes || (f->ended && c->n > 0))
                return -EPROTO;
        ssize_t got = stream_read(r->side[RELAY_CLIENT], c->bytes + c->n, sizeof c->bytes - c->n);
        if (got > 0 || (got == 0 && c->n > 0)) {
                c->n += (size_t)got;
                f->ended = got == 0;
                return show(r);
        }
        if (c->n == 0) { /* nothing is held: neither is the chunk */
                pool_chunk_put(r->pool, c);
                f->rest = NULL;
        }
        f->ended = got == 0;
        return got == 0 || got == -EAGAIN ? BLOCKED : (int)got;
}

static int drain_pipe(struct relay *r, int from) {
        ssize_t put = splice_out(r->flow[from].pipe, r->side[!from]);
        if (put < 0)
                return put == -EAGAIN ? BLOCKED : (int)put;
        return count(r, from, (size_t)put);
}

static int splice_step(struct relay *r, int from) {
        struct relay_flow *f = &r->flow[from];
        struct stream *source = r->side[from];
        if (!source->readable)
                return BLOCKED;
        if (!f->pipe && !(f->pipe = pool_pipe_get(r->pool)))
                return copy_step(r, from);
        ssize_t got = splice_in(source, f->pipe, allowance(r, from, f->pipe->room));
        if (got < 0)
                return got == -EAGAIN ? BLOCKED : (int)got;
        if (got == 0) {
                f->ended = true;
                return BLOCKED;
        }
        return drain_pipe(r, from);
}

static int step(struct relay *r, int from) {
        struct relay_flow *f = &r->flow[from];
        bool held = f->rest || (f->pipe && f->pipe->n > 0);
        if (from == RELAY_CLIENT && r->inspect && r->pass_left == 0)
                return f->ended && !held ? BLOCKED : hold_step(r);
        if (f->rest)
                return drain_chunk(r, from);
        if (f->pipe && f->pipe->n > 0)
                return drain_pipe(r, from);
        if (f->ended)
                return BLOCKED;
        bool splices = f->bytes >= SPLICE_AFTER && splice_is_possible(r->side[from], r->side[!from]);
        return splices ? splice_step(r, from) : copy_step(r, from);
}

static bool has_rest(const struct relay_flow *f) {
        return f->rest || (f->pipe && f->pipe->n > 0);
}

/* Moves what can be moved one way. MOVED, BLOCKED, GONE, or the error that ended it. */
static int flow(struct relay *r, int from) {
        struct relay_flow *f = &r->flow[from];
        uint64_t before = f->bytes;
        int s = MOVED;
        while (s == MOVED && f->bytes - before < TURN_SHARE)
                s = step(r, from);
        if (s < 0)
                return s;
        if (s == GONE)
                return GONE;
        if (s == MOVED)
                loop_soon(r->side[from]->loop, &r->again);
        if (f->pipe && f->pipe->n == 0) {
                pool_pipe_put(r->pool, f->pipe);
                f->pipe = NULL;
        }
        if (f->ended && !f->finished && !has_rest(f)) {
                /* When the other direction is over too, closing will say it, with one system call less. */
                int finished = r->flow[!from].finished ? 0 : stream_finish(r->side[!from]);
                if (finished < 0 && finished != -EAGAIN)
                        return finished;
                f->finished = finished == 0;
        }
        return f->bytes != before ? MOVED : BLOCKED;
}

static void pump(struct relay *r) {
        bool moved = false;
        for (int from = 0; from < 2; from++) {
                int got = flow(r, from);
                if (got == GONE)
                        return;
                if (got < 0) {
                        end(r, got == -EDQUOT ? RELAY_REFUSED : RELAY_RESET, got);
                        return;
                }
                moved |= got == MOVED;
        }
        if (r->flow[0].finished && r->flow[1].finished)
                end(r, RELAY_CLOSED, 0);
        else if (moved && r->idle_ns)
                timer_start(&r->idle, r->idle_ns);
}

static void on_ready(struct stream *s, void *owner) {
        (void)s;
        pump(owner);
}

static void on_again(struct task *t) {
        pump(link_owner(t, struct relay, again));
}

static void on_idle(struct timer *t) {
        end(link_owner(t, struct relay, idle), RELAY_IDLE, -ETIMEDOUT);
}

void relay_start(struct relay *r, struct pool *pool, struct stream *client, struct stream *server, uint64_t idle_ns) {
        r->pool = pool;
        r->side[RELAY_CLIENT] = client;
        r->side[RELAY_SERVER] = server;
        r->idle_ns = idle_ns;
        r->over = false;
        timer_init(&r->idle, client->loop, on_idle);
        task_init(&r->again, on_again);
        stream_set_owner(client, on_ready, r);
        stream_set_owner(server, on_ready, r);
        if (idle_ns)
                timer_start(&r->idle, idle_ns);
        loop_defer(client->loop, &r->again); /* first try in this turn, but not under the caller's feet */
}

void relay_look_again(struct relay *r) {
        struct relay_flow *f = &r->flow[RELAY_CLIENT];

        if (r->over || !r->inspect || r->pass_left > 0 || !f->rest || f->rest->at > 0)
                return;

        int shown = show(r);
        if (shown == GONE)
                return;
        if (shown < 0)
                end(r, shown == -EDQUOT ? RELAY_REFUSED : RELAY_RESET, shown);
        else
                pump(r);
}

int relay_release(struct relay *r, struct stream **ret_client, struct stream **ret_server) {
        struct pool_chunk *c = r->flow[RELAY_CLIENT].rest;
        if (c && stream_unread(r->side[RELAY_CLIENT], str_n(c->bytes + c->at, c->n - c->at)) < 0)
                return -ENOMEM;
        *ret_client = r->side[RELAY_CLIENT];
        *ret_server = r->side[RELAY_SERVER];
        for (int i = 0; i < 2; i++) {
                stream_set_owner(r->side[i], NULL, NULL);
                pool_chunk_put(r->pool, r->flow[i].rest);
                pool_pipe_put(r->pool, r->flow[i].pipe);
        }
        r->over = true;
        timer_stop(&r->idle);
        task_cancel(&r->again);
        return 0;
}

void relay_stop(struct relay *r, bool abort) {
        if (r->over)
                return;
        r->over = true;
        timer_stop(&r->idle);
        task_cancel(&r->again);
        for (int i = 0; i < 2; i++) {
                pool_chunk_put(r->pool, r->flow[i].rest);
                pool_pipe_put(r->pool, r->flow[i].pipe);
                r->flow[i].rest = NULL;
                r->flow[i].pipe = NULL;
                abort ? stream_abort(r->side[i]) : stream_close(r->side[i]);
                r->side[i] = NULL;
        }
}
