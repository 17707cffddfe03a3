/* SPDX-License-Identifier: Apache-2.0 */
/* TLS is opened only where there is a vault (gate_wants_interception()), and macOS has none yet: a host whose requests
 * must be seen is refused inside TLS. So nothing comes here but tunnels. */
#include "gateway/intercept.h"

#include "gateway/tunnel.h"

#include <errno.h>

bool intercept_expects_tls(const struct worker *worker, const struct authority *target) {
        (void)worker;
        return target->port == 443;
}

int intercept_start(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold) {
        struct client ended = *client;

        (void)hold;
        gate_cancel(call);
        stream_close(call->upstream);
        call->upstream = NULL;
        client_done(&ended);
        return -ENOTSUP;
}

void intercept_join(const struct client *client, struct gate_call *call) {
        if (call->intercept)
                intercept_start(client, call, NULL);
        else
                tunnel_start(client, call);
}
