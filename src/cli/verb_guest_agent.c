/* SPDX-License-Identifier: Apache-2.0 */
/* The agent inside a guest: started by its supervisor, never by a person. */
#include "cli/verb.h"
#include "guest/agent/agent.h"

#include <errno.h>

static int agent_run(const struct call *call, struct err *err) {
        uint64_t idle = 0, largest = 0;

        if (!str_to_u64(str_of(call->argv[0]), UINT32_MAX, &idle) ||
            !str_to_u64(str_of(call->argv[1]), UINT64_MAX, &largest)) {
                err_set(err, EINVAL, "the words are a number of seconds and one of bytes");
                return EXIT_USAGE;
        }
        return agent_main(idle, largest);
}

const struct verb verb_guest_agent = {
        .name = "guest-agent",
        .group = GROUP_RUN,
        .flags = VERB_HIDDEN,
        .synopsis = "SECONDS BYTES",
        .help = "start commands inside a guest",
        .min_words = 2,
        .max_words = 2,
        .run = agent_run,
};
