/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ssh/signing.h"

#include <errno.h>
#include <stdio.h>

int signing_ask(struct worker *worker, struct gate_call *call, const char *text, uint8_t via,
                ask_answered_fn *answered) {
        int r;

        *call = (struct gate_call){ .worker = worker, .target.port = 22, .via = via };
        r = host_parse(STR(HOST_SANDBOX), &call->target.host, NULL);
        if (r < 0)
                return r;

        (void)snprintf(call->question, sizeof call->question, "%s", text);
        link_init(&call->asking);
        timer_init(&call->ask_limit, worker->loop, NULL);

        if (!worker->gateway->start.can_ask)
                return -EACCES;

        return ask_hold(call, call->question, answered);
}
