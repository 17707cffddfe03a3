/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* More than these resting is memory and descriptors held for a burst that is over. */
enum { KEEP_CHUNKS = 16, KEEP_PIPES = 16 };

int pool_init(struct pool *pool) {
        *pool = (struct pool){ .scratch = malloc(POOL_SCRATCH_BYTES) };
        return pool->scratch ? 0 : -ENOMEM;
}

static void close_pipe(struct pool_pipe *pipe) {
        close(pipe->in);
        close(pipe->out);
        free(pipe);
}

void pool_done(struct pool *pool) {
        for (struct pool_chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
                next = chunk->next;
                free(chunk);
        }

        for (struct pool_pipe *pipe = pool->pipes, *next; pipe; pipe = next) {
                next = pipe->next;
                close_pipe(pipe);
        }

        free(pool->scratch);
        *pool = (struct pool){ 0 };
}

struct pool_chunk *pool_chunk_get(struct pool *pool) {
        struct pool_chunk *chunk = pool->chunks;
        if (chunk) {
                pool->chunks = chunk->next;
                pool->n_chunks--;
        } else {
                chunk = malloc(sizeof *chunk);
                if (!chunk)
                        return NULL;
        }

        chunk->next = NULL;
        chunk->at = chunk->n = 0;

        return chunk;
}

void pool_chunk_put(struct pool *pool, struct pool_chunk *chunk) {
        if (!chunk)
                return;

        if (pool->n_chunks >= KEEP_CHUNKS) {
                free(chunk);
                return;
        }

        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->n_chunks++;
}

struct pool_pipe *pool_pipe_get(struct pool *pool) {
        struct pool_pipe *pipe = pool->pipes;
        if (pipe) {
                pool->pipes = pipe->next;
                pool->n_pipes--;
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

void pool_pipe_put(struct pool *pool, struct pool_pipe *pipe) {
        if (!pipe)
                return;

        if (pipe->n > 0 || pool->n_pipes >= KEEP_PIPES) {
                close_pipe(pipe);
                return;
        }

        pipe->next = pool->pipes;
        pool->pipes = pipe;
        pool->n_pipes++;
}
