/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Two streams joined: bytes both ways with backpressure, each direction ended on its own (half-close), a reset passed on
 * as a reset, an idle limit, byte counts. A direction starts with plain copies through the pool's scratch area and turns
 * to splice(2) once it has moved enough to earn the pipe. At rest a relay holds no buffer and no pipe.
 */
#include "net/pool.h"
#include "net/stream.h"

enum relay_end {
        RELAY_CLOSED,  /* both sides ended cleanly */
        RELAY_RESET,   /* one side failed; error says how */
        RELAY_IDLE,    /* nothing moved for too long */
        RELAY_REFUSED, /* the account function said stop */
};

enum { RELAY_CLIENT, RELAY_SERVER }; /* the two sides */

struct relay_flow { /* bytes from one side to the other */
        struct pool_chunk *rest; /* read, not yet written */
        struct pool_pipe *pipe;  /* holds bytes between two splices */
        uint64_t bytes;          /* written to the far side */
        bool ended;              /* the source's end was read */
        bool finished;           /* and passed on */
};

struct relay {
        struct pool *pool;
        struct stream *side[2];
        struct relay_flow flow[2]; /* [RELAY_CLIENT]: from the client to the server */
        struct timer idle;
        uint64_t idle_ns;
        struct task again; /* after a turn's share was used up */
        /* Called for bytes that went from client to server; false ends the relay. NULL: not asked. */
        bool (*account)(struct relay *r, size_t n);
        void (*done)(struct relay *r, enum relay_end how, int error);
        bool over;
};

/* Takes over both streams; they are closed when done() is called. idle_ns 0: no limit. done() is never called from
 * inside relay_start(), and the relay may be freed by it. The caller set nothing else than account and done. */
void relay_start(struct relay *r, struct pool *pool, struct stream *client, struct stream *server, uint64_t idle_ns);
/* Closes both sides now (abort: as resets) without calling done(). */
void relay_stop(struct relay *r, bool abort);
