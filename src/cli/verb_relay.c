/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/socks_relay.h"

#include "cli/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROW_VIA, RELAY_ROWS };
static const struct option rows[] = {
        [ROW_VIA] = { .flag = "via",
                      .type = OPTION_STRING,
                      .metavar = "ADDR:PORT",
                      .help = "the gateway's SOCKS5 port; default: ALL_PROXY" },
};
static const struct option_table table = { "Options", rows, RELAY_ROWS };

static const char *relay_proxy(const struct call *call) {
        const char *via = option_get(&call->options, &rows[ROW_VIA]);
        if (!via)
                via = getenv("ALL_PROXY");
        if (via && *via)
                return via;

        return getenv("all_proxy");
}

static int run_relay(const struct call *call, struct err *err) {
        const struct relay_settings settings = { relay_proxy(call), call->argv[0], call->argv[1], STDIN_FILENO,
                                                 STDOUT_FILENO };
        if (!settings.via || !*settings.via) {
                err_set(err, EINVAL, "no gateway: give --via ADDR:PORT, or set ALL_PROXY");
                return EXIT_USAGE;
        }
        if (relay_run(&settings, err) < 0)
                return exit_of_error(err);

        return EXIT_OK;
}

const struct verb verb_relay = {
        .name = "relay",
        .group = GROUP_EGRESS,
        .synopsis = "[--via ADDR:PORT] HOST PORT",
        .help = "connect standard input and output to a host through the gateway",
        .about = "For ssh: ProxyCommand=\"bailey relay %h %p\". Exit codes: 0 the connection ended, 1 the host cannot "
                 "be reached, "
                 "4 there is no gateway, 5 policy refuses the host.",
        .tables = { &table },
        .min_words = 2,
        .max_words = 2,
        .run = run_relay,
};
