/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes over TLS to somebody who says nothing (syslog, RFC 5425): written, then the end of the stream, then the other
 * side's end is waited for. They are there when nothing of them is under way and the other side has ended the
 * connection in order, with TLS's own word or without it; one that has said nothing for END_NS has them in its system
 * at least. An alert that comes behind the handshake (TLS 1.3 refuses clients so) and a reset mean that they were not
 * taken.
 */
#include "gateway/courier_internal.h"

#include <errno.h>
#include <sys/ioctl.h>

#define END_NS (5 * NS_PER_SECOND)
enum { HEARD_MAX = 65536 };

static bool bytes_are_there(const struct exchange *exchange) {
        int unsent = 0;

        return ioctl(exchange->stream->fd, TIOCOUTQ, &unsent) == 0 && unsent == 0;
}

static void bytes_over(struct exchange *exchange, const char *failure) {
        if (failure || !bytes_are_there(exchange)) {
                exchange_fail(exchange, failure ? failure : "the connection ended before everything was there");
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
