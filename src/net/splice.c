/* SPDX-License-Identifier: Apache-2.0 */
#include "net/splice.h"

#include "base/bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int pool_pipe_open(struct pool_pipe *ret) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
                return -errno;

        int room = fcntl(ends[1], F_SETPIPE_SZ, POOL_PIPE_BYTES);
        if (room < 0)
                room = fcntl(ends[1], F_GETPIPE_SZ);

        *ret = (struct pool_pipe){ .in = ends[1], .out = ends[0], .room = room > 0 ? (size_t)room : 4096 };
        return 0;
}

static ssize_t splice_move(int from, int to, size_t n) {
        ssize_t moved;
        do
                moved = splice(from, NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        while (moved < 0 && errno == EINTR);
        if (moved < 0)
                return -errno;

        return moved;
}

ssize_t splice_in(struct stream *from, struct pool_pipe *pipe, size_t max) {
        if (!from->readable)
                return -EAGAIN;

        ssize_t got = splice_move(from->fd, pipe->in, min_of(max, pipe->room));
        if (got == -EAGAIN)
                from->readable = false; /* the pipe was empty, so it was the socket */
        if (got > 0)
                pipe->n = (size_t)got;

        return got;
}

ssize_t splice_out(struct pool_pipe *pipe, struct stream *to) {
        if (!to->writable)
                return -EAGAIN;

        ssize_t put = splice_move(pipe->out, to->fd, pipe->n);
        if (put == -EAGAIN)
                to->writable = false;
        if (put > 0)
                pipe->n -= (size_t)put;

        return put;
}
