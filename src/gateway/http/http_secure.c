/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP inside TLS that was opened. The session itself is the same as without: it reads requests from one stream and
 * sends them on another, and both happen to be TLS. What is different is here: the connection to the origin that was
 * made ahead of the first request, TLS on those that follow, and that an origin without a good certificate gets none.
 */
#include "gateway/http/http_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

struct stream *http_secure_take(struct http_session *session) {
        struct stream *ready = take_ptr(&session->secure->ready);
        if (!ready)
                return NULL;

        session->call.addr = session->secure->addr;
        const struct snapshot *policy = worker_snapshot(session->client.worker);
        char byte;
        bool good = !ready->closed && stream_read(ready, &byte, 1) == -EAGAIN; /* nobody asked it for anything yet */
        if (good && session->call.addr.family != ADDR_NONE)
                good =
                    verdict_address(policy, &session->call.target.host, &session->call.addr, session->call.target.port)
                        .decision != DECISION_DENY;

        if (good)
                return ready;

        stream_close(ready);
        return NULL;
}

void http_secure_open(struct http_session *session, void (*done)(struct origin_call *call)) {
        struct http_secure *secure = session->secure;
        secure->securing = true;
        secure->origin.worker = session->client.worker;
        secure->origin.done = done;
        origin_secure(&secure->origin, take_ptr(&session->call.upstream), &session->call.target, STR("\10http/1.1"));
}

void http_secure_done(struct http_session *session) {
        struct http_secure *k = session->secure;
        if (k->securing)
                origin_cancel(&k->origin);
        stream_close(take_ptr(&k->ready));
}

int http_secure_become_api(struct http_session *session) {
        struct http_secure *secure = calloc(1, sizeof *secure);

        if (!secure)
                return -ENOMEM;

        secure->session = session;
        secure->used = true; /* nothing is connected to before a request comes */
        session->secure = secure;
        session->api = true;
        session->client.via = VIA_API;

        return 0;
}
