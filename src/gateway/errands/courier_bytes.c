/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes over TLS to somebody who says nothing (syslog, RFC 5425): written, then the end of the stream, then the other
 * side's end is waited for. They are delivered when none is in flight and the peer has closed the connection, with
 * close_notify or without; if the peer is silent for END_NS, at least its kernel has them. An alert after the handshake
 * (TLS 1.3 refuses clients so) or a reset means that they were not accepted.
 */
#include "gateway/errands/courier_internal.h"

#include <errno.h>
#include <sys/ioctl.h>

#define END_NS (5 * NS_PER_SECOND)
enum { HEARD_MAX = 65536 };

/* None waits here for room, none in the kernel for an acknowledgement. */
static bool bytes_are_there(const struct exchange *exchange) {
        int unsent = 0;

        return exchange->stream->writable && ioctl(exchange->stream->fd, TIOCOUTQ, &unsent) == 0 && unsent == 0;
}

static void bytes_over(struct exchange *exchange, const char *failure) {
        if (failure || !bytes_are_there(exchange)) {
                exchange_fail(exchange, text_or(failure, "the connection ended before everything was there"));
                return;
        }
        exchange->status = 200;
        exchange_reply(exchange);
}

void bytes_limit(struct exchange *exchange) {
        bytes_over(exchange, exchange->ending ? NULL : "it takes nothing");
}

void bytes_go_on(struct exchange *exchange) {
        char ignored[4096];

        if (exchange->out.n) /* not everything is written yet */
                return;

        if (!exchange->ending) {
                int r = stream_finish(exchange->stream);
                if (r == -EAGAIN)
                        return;

                if (r < 0) {
                        exchange_fail(exchange, "the connection broke");
                        return;
                }

                exchange->ending = true;
                timer_start(&exchange->limit, END_NS);
        }

        for (;;) {
                ssize_t n = stream_read(exchange->stream, ignored, sizeof ignored);

                if (n == -EAGAIN)
                        return;

                if (n > 0 && (exchange->heard += (size_t)n) > HEARD_MAX) {
                        exchange_fail(exchange, "it sends, and is no syslog server");
                        return;
                }

                if (n > 0)
                        continue;

                bytes_over(exchange, n == 0 || tls_was_cut(exchange->stream) ? NULL : tls_failure(exchange->stream));
                return;
        }
}
