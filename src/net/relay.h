/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Two streams joined: bytes both ways with backpressure, each direction ended on its own (half-close), a reset passed
 * on as a reset, an idle limit, byte counts. The client's bytes can be looked at before they leave. A direction starts
 * with plain copies through the pool's scratch area and turns to splice(2) once it has moved enough to earn the pipe.
 * At rest a relay holds no buffer and no pipe.
 */
#include "net/pool.h"
#include "net/stream.h"

enum relay_end {
        RELAY_CLOSED,  /* both sides ended cleanly */
        RELAY_RESET,   /* one side failed; error says how */
        RELAY_IDLE,    /* nothing moved for too long */
        RELAY_REFUSED, /* the account function said stop */
};

#define RELAY_PASS_ALL UINT64_MAX

enum { RELAY_CLIENT, RELAY_SERVER }; /* the two sides */

enum relay_look {
        RELAY_HOLD, /* not enough seen: keep the bytes, ask again with more */
        RELAY_PASS, /* let pass_left bytes through (set before), then ask again with what follows */
        RELAY_STOP, /* end the relay; not one of them has left */
        RELAY_TAKE, /* the callee has taken the streams with relay_release() and perhaps freed the relay */
};

struct relay_flow {              /* bytes from one side to the other */
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
        /* Shown the client's bytes before any is sent on, all that are held each time; `ended`: no more will come. At
         * most POOL_CHUNK_BYTES are held, then it ends. NULL: not asked. */
        enum relay_look (*inspect)(struct relay *r, struct str bytes, bool ended);
        uint64_t pass_left; /* bytes that may go before inspect() is asked again; RELAY_PASS_ALL: never again */
        /* Called for bytes that went from client to server; false ends the relay. NULL: not asked. */
        bool (*account)(struct relay *r, size_t n);
        void (*done)(struct relay *r, enum relay_end how, int error);
        bool over;
};

/* Takes over both streams; they are closed when done() is called. idle_ns 0: no limit. done() is never called from
 * inside relay_start(), and the relay may be freed by it. The caller has zeroed it and set inspect, account and done.
 */
void relay_start(struct relay *relay, struct pool *pool, struct stream *client, struct stream *server,
                 uint64_t idle_ns);
/* Gives the streams back, with what was read of the client and not sent on pushed back into it. Only from inside
 * inspect(). 0, or -ENOMEM: then nothing has changed. */
int relay_release(struct relay *relay, struct stream **ret_client, struct stream **ret_server);
/* Shows inspect() again what it holds, though nothing came: it may have changed its mind. The relay may be gone after.
 */
void relay_look_again(struct relay *relay);
/* Closes both sides now (abort: as resets) without calling done(). */
void relay_stop(struct relay *relay, bool abort);
