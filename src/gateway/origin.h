/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* TLS to an origin, on a connection that the gate has opened: verified, within the time that connecting may take. */
#include "gateway/worker.h"
#include "net/tls.h"

struct origin_call {
        /* set by the caller */
        struct worker *worker;
        void (*done)(struct origin_call *c);

        /* the result */
        struct stream *stream; /* the caller's; NULL: it failed */
        enum reason reason;    /* why: REASON_CERTIFICATE, REASON_UPSTREAM, REASON_TIMEOUT or REASON_LIMIT */
        int error;
        const char *why; /* for people */

        struct stream *under_way;
        struct timer limit;
        struct task later;
};

/* Takes the connection. `protocols`: offered (ALPN), in wire form. done is called once, never from inside. */
void origin_secure(struct origin_call *call, struct stream *connection, const struct authority *target,
                   struct str protocols);
/* Harmless when nothing is under way. */
void origin_cancel(struct origin_call *call);
