/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* More than these resting is memory and descriptors held for a burst that is over. */
enum { KEEP_CHUNKS = 16, KEEP_PIPES = 16 };

int pool_init(struct pool *pool) {
        *pool = (struct pool){ .scratch = malloc(POOL_SCRATCH_BYTES) };
        if (!pool->scratch)
                return -ENOMEM;

        return 0;
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

        pipe = malloc(sizeof *pipe);
        if (pipe && pool_pipe_open(pipe) < 0) {
                free(pipe);
                return NULL;
        }

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
