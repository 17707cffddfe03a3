/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/origin.h"

#include "base/cleanup.h"

#include <errno.h>

static void tell(struct origin_call *c) {
        timer_stop(&c->limit);
        task_cancel(&c->later);
        c->done(c);
}

static void on_later(struct task *t) {
        tell(link_owner(t, struct origin_call, later));
}

static void fail(struct origin_call *c, int error, const char *why) {
        c->error = error;
        c->why = why;
        c->reason = error == -EKEYREJECTED ? REASON_CERTIFICATE
                    : error == -ETIMEDOUT  ? REASON_TIMEOUT
                    : error == -ENOMEM     ? REASON_LIMIT
                                           : REASON_UPSTREAM;
        stream_close(take_ptr(&c->under_way));
}

/* True when it is decided, one way or the other. */
static bool step(struct origin_call *c) {
        int r = tls_handshake(c->under_way);
        if (r == -EAGAIN)
                return false;
        if (r < 0) {
                fail(c, r, tls_failure(c->under_way));
                return true;
        }
        c->stream = take_ptr(&c->under_way);
        stream_set_owner(c->stream, NULL, NULL);
        return true;
}

static void on_ready(struct stream *s, void *owner) {
        (void)s;
        struct origin_call *c = owner;
        if (step(c))
                tell(c);
}

static void on_limit(struct timer *t) {
        struct origin_call *c = link_owner(t, struct origin_call, limit);
        fail(c, -ETIMEDOUT, "It did not finish the TLS handshake in time.");
        tell(c);
}

void origin_secure(struct origin_call *c, struct stream *connection, const struct authority *target,
                   struct str protocols) {
        struct worker *w = c->worker;
        struct tls_connect how = { .target = target, .protocols = protocols };
        c->stream = c->under_way = NULL;
        c->reason = REASON_NONE;
        c->error = 0;
        c->why = NULL;
        timer_init(&c->limit, w->loop, on_limit);
        task_init(&c->later, on_later);
        int r = tls_connect(w->tls, connection, &how, &c->under_way);
        if (r < 0) {
                fail(c, r, NULL);
                loop_defer(w->loop, &c->later);
                return;
        }
        stream_set_owner(c->under_way, on_ready, c);
        if (step(c))
                loop_defer(w->loop, &c->later);
        else
                timer_start(&c->limit, w->limits.connect_ns);
}

void origin_cancel(struct origin_call *c) {
        if (!c->limit.loop)
                return;
        timer_stop(&c->limit);
        task_cancel(&c->later);
        stream_close(take_ptr(&c->under_way));
        stream_close(take_ptr(&c->stream));
}
