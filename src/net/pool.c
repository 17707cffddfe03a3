/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* More than these resting is memory and descriptors held for a burst that is over. */
enum { KEEP_CHUNKS = 16, KEEP_PIPES = 16 };

int pool_init(struct pool *p) {
        *p = (struct pool){ .scratch = malloc(POOL_SCRATCH_BYTES) };
        return p->scratch ? 0 : -ENOMEM;
}

static void close_pipe(struct pool_pipe *pipe) {
        close(pipe->in);
        close(pipe->out);
        free(pipe);
}

void pool_done(struct pool *p) {
        for (struct pool_chunk *c = p->chunks, *next; c; c = next) {
                next = c->next;
                free(c);
        }
        for (struct pool_pipe *pipe = p->pipes, *next; pipe; pipe = next) {
                next = pipe->next;
                close_pipe(pipe);
        }
        free(p->scratch);
        *p = (struct pool){ 0 };
}

struct pool_chunk *pool_chunk_get(struct pool *p) {
        struct pool_chunk *c = p->chunks;
        if (c) {
                p->chunks = c->next;
                p->n_chunks--;
        } else {
                c = malloc(sizeof *c);
                if (!c)
                        return NULL;
        }
        c->next = NULL;
        c->at = c->n = 0;
        return c;
}

void pool_chunk_put(struct pool *p, struct pool_chunk *c) {
        if (!c)
                return;
        if (p->n_chunks >= KEEP_CHUNKS) {
                free(c);
                return;
        }
        c->next = p->chunks;
        p->chunks = c;
        p->n_chunks++;
}

struct pool_pipe *pool_pipe_get(struct pool *p) {
        struct pool_pipe *pipe = p->pipes;
        if (pipe) {
                p->pipes = pipe->next;
                p->n_pipes--;
                pipe->next = NULL;
                return pipe;
        }
        int ends[2];
        if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
                return NULL;
        pipe = malloc(sizeof *pipe);
        if (!pipe) {
                close(ends[0]);
                close(ends[1]);
                return NULL;
        }
        int room = fcntl(ends[1], F_SETPIPE_SZ, POOL_PIPE_BYTES);
        if (room < 0)
                room = fcntl(ends[1], F_GETPIPE_SZ);
        *pipe = (struct pool_pipe){ .in = ends[1], .out = ends[0], .room = room > 0 ? (size_t)room : 4096 };
        return pipe;
}

void pool_pipe_put(struct pool *p, struct pool_pipe *pipe) {
        if (!pipe)
                return;
        if (pipe->n > 0 || p->n_pipes >= KEEP_PIPES) {
                close_pipe(pipe);
                return;
        }
        pipe->next = p->pipes;
        p->pipes = pipe;
        p->n_pipes++;
}
