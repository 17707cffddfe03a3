/* SPDX-License-Identifier: Apache-2.0 */
/* macOS has no splice(2): there is no pipe to be had, and whoever wants one copies instead. */
#include "net/splice.h"

#include <errno.h>

int pool_pipe_open(struct pool_pipe *ret) {
        (void)ret;
        return -ENOTSUP;
}

ssize_t splice_in(struct stream *from, struct pool_pipe *pipe, size_t max) {
        (void)from;
        (void)pipe;
        (void)max;
        return -ENOTSUP;
}

ssize_t splice_out(struct pool_pipe *pipe, struct stream *to) {
        (void)pipe;
        (void)to;
        return -ENOTSUP;
}
