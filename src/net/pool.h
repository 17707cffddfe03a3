/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What connections of one loop borrow while bytes are on their way and give back when they rest: chunks of memory,
 * pipes for splice(2), and one scratch area that is free between any two callbacks. An idle connection holds none of
 * them.
 */
#include <stdbool.h>
#include <stddef.h>

#define POOL_CHUNK_BYTES 65536
#define POOL_SCRATCH_BYTES 131072
#define POOL_PIPE_BYTES 262144

struct pool_chunk {
        struct pool_chunk *next;
        size_t at, n; /* the part in use */
        char bytes[POOL_CHUNK_BYTES];
};

struct pool_pipe {
        struct pool_pipe *next;
        int in, out; /* write end, read end */
        size_t n;    /* bytes inside */
        size_t room; /* its capacity */
};

struct pool {
        struct pool_chunk *chunks;
        struct pool_pipe *pipes;
        size_t n_chunks, n_pipes; /* resting here */
        char *scratch;            /* POOL_SCRATCH_BYTES */
};

int pool_init(struct pool *pool);
void pool_done(struct pool *pool);
/* NULL when out of memory. */
struct pool_chunk *pool_chunk_get(struct pool *pool);
void pool_chunk_put(struct pool *pool, struct pool_chunk *chunk);
/* In splice.c: a new one, or a negative errno. */
int pool_pipe_open(struct pool_pipe *ret);
/* NULL when the kernel has no more pipes or descriptors: the caller copies instead. */
struct pool_pipe *pool_pipe_get(struct pool *pool);
/* A pipe with bytes inside is closed, an empty one is kept for the next. */
void pool_pipe_put(struct pool *pool, struct pool_pipe *pipe);
