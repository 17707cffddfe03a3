/* SPDX-License-Identifier: Apache-2.0 */
/* A request to a guest's agent: what is parsed is written as the very same bytes. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "guest/agent/agent_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(agent_request_done) struct agent_request request = { 0 };
        cleanup(buf_done) struct buf again = BUF(AGENT_REQUEST_MAX);

        if (agent_request_parse(str_n(data, size), &request) < 0)
                return 0;
        FUZZ_CHECK(request.argv.p[request.argv.n] == NULL);
        FUZZ_CHECK(agent_request_write(&request, &again) == 0);
        FUZZ_CHECK(str_eq(buf_str(&again), str_n(data, size)));
        return 0;
}
