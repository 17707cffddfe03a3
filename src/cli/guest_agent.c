/* SPDX-License-Identifier: Apache-2.0 */
/* The agent inside a guest: started by its supervisor, never by a person. */
#include "cli/verb.h"
#include "guest/agent.h"

#include <errno.h>

static int agent_run(const struct call *call, struct err *err) {
        uint64_t idle = 0;

        if (!str_to_u64(str_of(call->argv[0]), UINT32_MAX, &idle)) {
                err_set(err, EINVAL, "the word is a number of seconds");
                return EXIT_USAGE;
        }
        return agent_main(idle);
}

const struct verb verb_guest_agent = {
        .name = "guest-agent",
        .group = GROUP_RUN,
        .flags = VERB_HIDDEN,
        .synopsis = "SECONDS",
        .help = "start commands inside a guest",
        .min_words = 1,
        .max_words = 1,
        .run = agent_run,
};
