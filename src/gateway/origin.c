/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/origin.h"

#include "base/cleanup.h"

#include <errno.h>

static void origin_tell(struct origin_call *call) {
        timer_stop(&call->limit);
        task_cancel(&call->later);
        call->done(call);
}

static void on_later(struct task *task) {
        origin_tell(link_owner(task, struct origin_call, later));
}

static enum reason reason_of_error(int error) {
        switch (error) {
        case -EKEYREJECTED:
                return REASON_CERTIFICATE;
        case -ETIMEDOUT:
                return REASON_TIMEOUT;
        case -ENOMEM:
                return REASON_LIMIT;
        default:
                return REASON_UPSTREAM;
        }
}

static void origin_fail(struct origin_call *call, int error, const char *why) {
        call->error = error;
        call->why = why;
        call->reason = reason_of_error(error);
        stream_close(take_ptr(&call->under_way));
}

/* True when it is decided, one way or the other. */
static bool origin_step(struct origin_call *call) {
        int r = tls_handshake(call->under_way);
        if (r == -EAGAIN)
                return false;

        if (r < 0) {
                origin_fail(call, r, tls_failure(call->under_way));
                return true;
        }

        call->stream = take_ptr(&call->under_way);
        stream_set_owner(call->stream, NULL, NULL);

        return true;
}

static void on_ready(struct stream *stream, void *owner) {
        (void)stream;
        struct origin_call *call = owner;
        if (origin_step(call))
                origin_tell(call);
}

static void on_limit(struct timer *timer) {
        struct origin_call *call = link_owner(timer, struct origin_call, limit);
        origin_fail(call, -ETIMEDOUT, "It did not finish the TLS handshake in time.");
        origin_tell(call);
}

void origin_secure(struct origin_call *call, struct stream *connection, const struct authority *target,
                   struct str protocols) {
        struct worker *worker = call->worker;
        struct tls_connect how = { .target = target, .protocols = protocols };

        call->stream = call->under_way = NULL;
        call->reason = REASON_NONE;
        call->error = 0;
        call->why = NULL;
        timer_init(&call->limit, worker->loop, on_limit);
        task_init(&call->later, on_later);

        int r = tls_connect(worker->tls, connection, &how, &call->under_way);
        if (r < 0) {
                origin_fail(call, r, NULL);
                loop_defer(worker->loop, &call->later);
                return;
        }

        stream_set_owner(call->under_way, on_ready, call);

        if (origin_step(call))
                loop_defer(worker->loop, &call->later);
        else
                timer_start(&call->limit, worker->limits.connect_ns);
}

void origin_cancel(struct origin_call *call) {
        if (!call->limit.loop)
                return;
        timer_stop(&call->limit);
        task_cancel(&call->later);
        stream_close(take_ptr(&call->under_way));
        stream_close(take_ptr(&call->stream));
}
