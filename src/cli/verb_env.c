/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/environment.h"

#include "base/cleanup.h"
#include "cli/frame.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_HTTP, ROW_SOCKS, ROW_ID, ROW_CONTAINER, ROW_JSON, ENV_ROWS };
static const struct option rows[] = {
        [ROW_HTTP] = { .flag = "http",
                       .type = OPTION_STRING,
                       .metavar = "ADDR:PORT",
                       .help = "the gateway's HTTP port" },
        [ROW_SOCKS] = { .flag = "socks",
                        .type = OPTION_STRING,
                        .metavar = "ADDR:PORT",
                        .help = "the gateway's SOCKS5 port" },
        [ROW_ID] = { .flag = "id",
                     .type = OPTION_STRING,
                     .metavar = "ID",
                     .fallback = "none",
                     .help = "the name that BAILEY_SANDBOX gives" },
        [ROW_CONTAINER] = { .flag = "container",
                            .type = OPTION_FLAG,
                            .help = "for a container: only loopback is direct" },
        [ROW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print a JSON array, with what stays and why" },
};
static_assert(sizeof rows / sizeof *rows == ENV_ROWS, "one row each");
static const struct option_table table = { "Environment", rows, ENV_ROWS };

static int env_run(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        const struct option_values *values = &call->options;
        const struct environment_request request = { .options = values,
                                                     .host = environ,
                                                     .http = option_get(values, &rows[ROW_HTTP]),
                                                     .socks = option_get(values, &rows[ROW_SOCKS]),
                                                     .sandbox_id = option_get(values, &rows[ROW_ID]),
                                                     .container = option_get_flag(values, &rows[ROW_CONTAINER]),
                                                     .json = option_get_flag(values, &rows[ROW_JSON]) };
        if (environment_show(&request, &out, err) < 0)
                return exit_of_error(err);

        fwrite(text_or(out.p, ""), 1, out.n, stdout);
        return EXIT_OK;
}

const struct verb verb_env = {
        .name = "env",
        .group = GROUP_EGRESS,
        .synopsis = "[OPTIONS]",
        .help = "print the environment that a sandbox gets",
        .about = "What Bailey sets, and what of this environment it takes away (credentials, agent sockets, loader "
                 "variables), as lines for a shell: eval \"$(bailey env --http 127.0.0.1:3128)\" points a shell at a "
                 "gateway.",
        .tables = { &table, &policy_table_general, &policy_table_process },
        .max_words = 0,
        .run = env_run,
};
