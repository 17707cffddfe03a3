/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cli/verb.h"
#include "cli/verb_sandboxes.h"

#include <stdio.h>

static const struct option rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON array" },
};
static const struct option_table table = { "Options", rows, 1 };

static int ps_run(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        int r = sandboxes_ps(option_get_flag(&call->options, &rows[0]), &out, err);
        if (r < 0)
                return exit_of_order(r);

        return sandboxes_print(&out);
}

const struct verb verb_ps = {
        .name = "ps",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS]",
        .help = "list the sandboxes that are running",
        .about = "One line for each sandbox of this user. WAITING counts questions that wait for an answer: \"bailey "
                 "pending\" shows them. A sandbox whose supervisor does not reply is shown as silent.",
        .tables = { &table },
        .run = ps_run,
};

static int run_pending(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        int r =
            sandboxes_pending(call->argc ? call->argv[0] : NULL, option_get_flag(&call->options, &rows[0]), &out, err);
        if (r < 0)
                return exit_of_order(r);

        return sandboxes_print(&out);
}

const struct verb verb_pending = {
        .name = "pending",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] [SANDBOX]",
        .help = "list the questions that wait for an answer",
        .about = "Each line says which sandbox wants to connect to what, and the command that allows it. A sandbox is "
                 "named by its id or the beginning of it, a guest also by its name. Without an answer in time "
                 "(--ask-timeout) it is refused.",
        .tables = { &table },
        .max_words = 1,
        .run = run_pending,
};
