/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bytes from one socket to another through a pipe of the pool, without a copy into this process. Only for plain streams
 * with nothing pushed back: for all others the caller copies.
 */
#include "net/pool.h"
#include "net/stream.h"

/* Making or fetching a pipe costs more than copying this little. */
#define SPLICE_AFTER 65536

static inline bool splice_is_possible(const struct stream *from, const struct stream *to) {
        return from->plain && to->plain && !stream_has_pushback(from);
}

/* Into the empty pipe, at most `max` bytes. Bytes, 0 at the end of the stream, -EAGAIN, or another negative errno. */
ssize_t splice_in(struct stream *from, struct pool_pipe *pipe, size_t max);
/* Out of a pipe that holds some. Bytes, -EAGAIN, or another negative errno. */
ssize_t splice_out(struct pool_pipe *pipe, struct stream *to);
