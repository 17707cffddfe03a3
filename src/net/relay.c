/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include "net/splice.h"

#include <errno.h>

enum { TURN_SHARE = 1 << 20 }; /* bytes one direction may move before others get their turn */

static void finish_relay(struct relay *relay, enum relay_end how, int error) {
        if (relay->over)
                return;
        relay_stop(relay, how != RELAY_CLOSED);
        relay->done(relay, how, error);
}

/* The result of one step: moved bytes, cannot go on now, the relay is gone; or a negative errno. */
enum { BLOCKED = 0, MOVED = 1, GONE = 2 };

/* How many bytes may go this way before somebody wants to look. */
static size_t relay_allowance(const struct relay *relay, int from, size_t wanted) {
        return from == RELAY_CLIENT && relay->inspect && relay->pass_left < wanted ? (size_t)relay->pass_left : wanted;
}

static int relay_count(struct relay *relay, int from, size_t n) {
        relay->flow[from].bytes += n;
        if (from == RELAY_CLIENT && relay->inspect)
                relay->pass_left -= n;
        if (from == RELAY_CLIENT && relay->account && !relay->account(relay, n))
                return -EDQUOT;
        return MOVED;
}

/* Writes what is left of an earlier read. */
static int drain_chunk(struct relay *relay, int from) {
        struct relay_flow *flow = &relay->flow[from];
        struct pool_chunk *chunk = flow->rest;
        ssize_t put = stream_write(relay->side[!from],
                                   str_n(chunk->bytes + chunk->at, relay_allowance(relay, from, chunk->n - chunk->at)));
        if (put < 0)
                return put == -EAGAIN ? BLOCKED : (int)put;

        chunk->at += (size_t)put;
        if (chunk->at == chunk->n) {
                flow->rest = NULL;
                pool_chunk_put(relay->pool, chunk);
        }

        return relay_count(relay, from, (size_t)put);
}

static int copy_step(struct relay *relay, int from) {
        struct relay_flow *flow = &relay->flow[from];

        /* What cannot be written must fit a chunk. */
        ssize_t got =
            stream_read(relay->side[from], relay->pool->scratch, relay_allowance(relay, from, POOL_CHUNK_BYTES));
        if (got < 0)
                return got == -EAGAIN ? BLOCKED : (int)got;

        if (got == 0) {
                flow->ended = true;
                return BLOCKED;
        }

        ssize_t put = stream_write(relay->side[!from], str_n(relay->pool->scratch, (size_t)got));
        if (put < 0 && put != -EAGAIN)
                return (int)put;
        if (put < 0)
                put = 0;

        if (put < got) {
                struct pool_chunk *chunk = pool_chunk_get(relay->pool);
                if (!chunk)
                        return -ENOMEM;

                chunk->n = (size_t)(got - put);
                memcpy(chunk->bytes, relay->pool->scratch + put, chunk->n);
                flow->rest = chunk;
        }

        if (put > 0)
                return relay_count(relay, from, (size_t)put);

        return BLOCKED;
}

static int relay_show(struct relay *relay) {
        struct relay_flow *flow = &relay->flow[RELAY_CLIENT];
        switch (relay->inspect(relay, str_n(flow->rest->bytes, flow->rest->n), flow->ended)) {
        case RELAY_HOLD:
                return flow->ended ? -EPROTO : MOVED;
        case RELAY_PASS:
                if (relay->pass_left == RELAY_PASS_ALL)
                        relay->inspect = NULL;
                return MOVED;
        case RELAY_TAKE:
                return GONE;
        case RELAY_STOP:
                break;
        }

        return -EDQUOT;
}

/* Collects the client's bytes until the inspector has seen enough. */
static int hold_step(struct relay *relay) {
        struct relay_flow *flow = &relay->flow[RELAY_CLIENT];
        if (!flow->rest && !(flow->rest = pool_chunk_get(relay->pool)))
                return -ENOMEM;

        struct pool_chunk *chunk = flow->rest;
        if (chunk->at > 0) { /* what came behind the bytes that were let through was not shown yet */
                chunk->n -= chunk->at;
                memmove(chunk->bytes, chunk->bytes + chunk->at, chunk->n);
                chunk->at = 0;
                return relay_show(relay);
        }

        if (chunk->n == sizeof chunk->bytes || (flow->ended && chunk->n > 0))
                return -EPROTO;

        ssize_t got = stream_read(relay->side[RELAY_CLIENT], chunk->bytes + chunk->n, sizeof chunk->bytes - chunk->n);
        if (got > 0 || (got == 0 && chunk->n > 0)) {
                chunk->n += (size_t)got;
                flow->ended = got == 0;
                return relay_show(relay);
        }

        if (chunk->n == 0) { /* nothing is held: neither is the chunk */
                pool_chunk_put(relay->pool, chunk);
                flow->rest = NULL;
        }

        flow->ended = got == 0;
        return got == 0 || got == -EAGAIN ? BLOCKED : (int)got;
}

static int drain_pipe(struct relay *relay, int from) {
        ssize_t put = splice_out(relay->flow[from].pipe, relay->side[!from]);
        if (put < 0)
                return put == -EAGAIN ? BLOCKED : (int)put;
        return relay_count(relay, from, (size_t)put);
}

static int splice_step(struct relay *relay, int from) {
        struct relay_flow *flow = &relay->flow[from];
        struct stream *source = relay->side[from];
        if (!source->readable)
                return BLOCKED;
        if (!flow->pipe && !(flow->pipe = pool_pipe_get(relay->pool)))
                return copy_step(relay, from);

        ssize_t got = splice_in(source, flow->pipe, relay_allowance(relay, from, flow->pipe->room));
        if (got < 0)
                return got == -EAGAIN ? BLOCKED : (int)got;

        if (got == 0) {
                flow->ended = true;
                return BLOCKED;
        }

        return drain_pipe(relay, from);
}

static int relay_step(struct relay *relay, int from) {
        struct relay_flow *flow = &relay->flow[from];
        bool held = flow->rest || (flow->pipe && flow->pipe->n > 0);

        if (from == RELAY_CLIENT && relay->inspect && relay->pass_left == 0) {
                if (flow->ended && !held)
                        return BLOCKED;
                return hold_step(relay);
        }
        if (flow->rest)
                return drain_chunk(relay, from);
        if (flow->pipe && flow->pipe->n > 0)
                return drain_pipe(relay, from);
        if (flow->ended)
                return BLOCKED;

        bool splices = flow->bytes >= SPLICE_AFTER && splice_is_possible(relay->side[from], relay->side[!from]);
        if (splices)
                return splice_step(relay, from);

        return copy_step(relay, from);
}

static bool has_rest(const struct relay_flow *flow) {
        return flow->rest || (flow->pipe && flow->pipe->n > 0);
}

/* Moves what can be moved one way. MOVED, BLOCKED, GONE, or the error that ended it. */
static int move_flow(struct relay *relay, int from) {
        struct relay_flow *relay_flow = &relay->flow[from];
        uint64_t before = relay_flow->bytes;
        int s = MOVED;
        while (s == MOVED && relay_flow->bytes - before < TURN_SHARE)
                s = relay_step(relay, from);

        if (s < 0)
                return s;
        if (s == GONE)
                return GONE;
        if (s == MOVED)
                loop_soon(relay->side[from]->loop, &relay->again);

        if (relay_flow->pipe && relay_flow->pipe->n == 0) {
                pool_pipe_put(relay->pool, relay_flow->pipe);
                relay_flow->pipe = NULL;
        }

        if (relay_flow->ended && !relay_flow->finished && !has_rest(relay_flow)) {
                /* When the other direction is over too, closing will say it, with one system call less. */
                int finished = relay->flow[!from].finished ? 0 : stream_finish(relay->side[!from]);
                if (finished < 0 && finished != -EAGAIN)
                        return finished;
                relay_flow->finished = finished == 0;
        }

        return relay_flow->bytes != before ? MOVED : BLOCKED;
}

static void relay_pump(struct relay *relay) {
        bool moved = false;

        for (int from = 0; from < 2; from++) {
                int got = move_flow(relay, from);
                if (got == GONE)
                        return;

                if (got < 0) {
                        finish_relay(relay, got == -EDQUOT ? RELAY_REFUSED : RELAY_RESET, got);
                        return;
                }

                moved |= got == MOVED;
        }

        if (relay->flow[0].finished && relay->flow[1].finished)
                finish_relay(relay, RELAY_CLOSED, 0);
        else if (moved && relay->idle_ns)
                timer_start(&relay->idle, relay->idle_ns);
}

static void on_ready(struct stream *stream, void *owner) {
        (void)stream;
        relay_pump(owner);
}

static void on_again(struct task *task) {
        relay_pump(link_owner(task, struct relay, again));
}

static void on_idle(struct timer *timer) {
        finish_relay(link_owner(timer, struct relay, idle), RELAY_IDLE, -ETIMEDOUT);
}

void relay_start(struct relay *relay, struct pool *pool, struct stream *client, struct stream *server,
                 uint64_t idle_ns) {
        relay->pool = pool;
        relay->side[RELAY_CLIENT] = client;
        relay->side[RELAY_SERVER] = server;
        relay->idle_ns = idle_ns;
        relay->over = false;
        timer_init(&relay->idle, client->loop, on_idle);
        task_init(&relay->again, on_again);
        stream_set_owner(client, on_ready, relay);
        stream_set_owner(server, on_ready, relay);

        if (idle_ns)
                timer_start(&relay->idle, idle_ns);

        loop_defer(client->loop, &relay->again); /* first try in this turn, but not under the caller's feet */
}

void relay_look_again(struct relay *relay) {
        struct relay_flow *flow = &relay->flow[RELAY_CLIENT];

        if (relay->over || !relay->inspect || relay->pass_left > 0 || !flow->rest || flow->rest->at > 0)
                return;

        int shown = relay_show(relay);
        if (shown == GONE)
                return;

        if (shown < 0)
                finish_relay(relay, shown == -EDQUOT ? RELAY_REFUSED : RELAY_RESET, shown);
        else
                relay_pump(relay);
}

int relay_release(struct relay *relay, struct stream **ret_client, struct stream **ret_server) {
        struct pool_chunk *chunk = relay->flow[RELAY_CLIENT].rest;
        if (chunk &&
            stream_unread(relay->side[RELAY_CLIENT], str_n(chunk->bytes + chunk->at, chunk->n - chunk->at)) < 0)
                return -ENOMEM;

        *ret_client = relay->side[RELAY_CLIENT];
        *ret_server = relay->side[RELAY_SERVER];

        for (int i = 0; i < 2; i++) {
                stream_set_owner(relay->side[i], NULL, NULL);
                pool_chunk_put(relay->pool, relay->flow[i].rest);
                pool_pipe_put(relay->pool, relay->flow[i].pipe);
        }

        relay->over = true;
        timer_stop(&relay->idle);
        task_cancel(&relay->again);

        return 0;
}

void relay_stop(struct relay *relay, bool abort) {
        if (relay->over)
                return;

        relay->over = true;
        timer_stop(&relay->idle);
        task_cancel(&relay->again);

        for (int i = 0; i < 2; i++) {
                pool_chunk_put(relay->pool, relay->flow[i].rest);
                pool_pipe_put(relay->pool, relay->flow[i].pipe);
                relay->flow[i].rest = NULL;
                relay->flow[i].pipe = NULL;
                abort ? stream_abort(relay->side[i]) : stream_close(relay->side[i]);
                relay->side[i] = NULL;
        }
}
