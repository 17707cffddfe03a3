/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"
#include "cli/verb_sandboxes.h"

#include <errno.h>
#include <stdio.h>

enum { EVENTS_FOLLOW, EVENTS_JSON, EVENTS_ROWS };
static const struct option rows[] = {
        [EVENTS_FOLLOW] = { .flag = "follow", .letter = 'f', .type = OPTION_FLAG, .help = "go on as they come" },
        [EVENTS_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object a line" },
};
static const struct option_table table = { "Options", rows, EVENTS_ROWS };

static int on_line(void *arg, struct str line) {
        (void)arg;
        if (fwrite(line.p, 1, line.n, stdout) == line.n && fflush(stdout) == 0)
                return 0;

        return -EPIPE;
}

static int events_run(const struct call *call, struct err *err) {
        const struct events_request request = {
                .prefix = call->argc ? call->argv[0] : NULL,
                .follow = option_get_flag(&call->options, &rows[EVENTS_FOLLOW]),
                .json = option_get_flag(&call->options, &rows[EVENTS_JSON]),
                .on_line = on_line,
        };
        int r = sandboxes_events(&request, err);

        if (r == 0 || (r == -EPIPE && !err->code))
                return EXIT_OK;

        return exit_of_order(r);
}

const struct verb verb_events = {
        .name = "events",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] [SANDBOX]",
        .help = "show what running sandboxes do",
        .about =
            "Without -f: what is on record so far, of one sandbox or of all that run. With -f: attempts, "
            "questions, answers, changes of rules and alarms as they come, until the sandbox ends, and questions that "
            "wait already; without a name, also of sandboxes that are started later, from the moment when they are "
            "found. A guest can be given by its name. \"bailey log\" shows the records of runs that have ended.",
        .tables = { &table },
        .max_words = 1,
        .run = events_run,
};
