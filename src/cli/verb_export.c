/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"

#include "cli/verb.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { ROW_TO, ROW_CA, ROW_SERVER_NAME, ROW_TOKEN, ROW_ONCE, ROW_FROM_NOW, EXPORT_ROWS };
static const struct option rows[] = {
        [ROW_TO] = { .flag = "to",
                     .type = OPTION_STRING,
                     .metavar = "URL",
                     .help = "syslog+tls://HOST:PORT, syslog+tcp://HOST:PORT, syslog+udp://HOST:PORT, "
                             "syslog+unix:///dev/log, otlp+http://HOST:PORT "
                             "or otlp+https://HOST:PORT" },
        [ROW_CA] = { .flag = "ca",
                     .type = OPTION_STRING,
                     .metavar = "FILE",
                     .help = "syslog+tls and otlp+https: certificates (PEM) to trust beside the system's" },
        [ROW_SERVER_NAME] = { .flag = "server-name",
                              .type = OPTION_STRING,
                              .metavar = "NAME",
                              .help = "syslog+tls: the name that the server's certificate must have (default HOST)" },
        [ROW_TOKEN] = { .flag = "token",
                        .type = OPTION_STRING,
                        .metavar = "SOURCE",
                        .help = "otlp: where a bearer token is: env:NAME, file:PATH, exec:COMMAND, keyring:NAME, ..." },
        [ROW_ONCE] = { .flag = "once", .type = OPTION_FLAG, .help = "end when everything that is there is delivered" },
        [ROW_FROM_NOW] = { .flag = "from-now",
                           .type = OPTION_FLAG,
                           .help = "at the first start, leave out what is in the logs already" },
};
static_assert(sizeof rows / sizeof *rows == EXPORT_ROWS, "one row each");
static const struct option_table table = { "Options", rows, EXPORT_ROWS };

static int export_verb_run(const struct call *call, struct err *err) {
        const struct export_settings settings = { .to = option_get(&call->options, &rows[ROW_TO]),
                                                  .ca = option_get(&call->options, &rows[ROW_CA]),
                                                  .server_name = option_get(&call->options, &rows[ROW_SERVER_NAME]),
                                                  .token = option_get(&call->options, &rows[ROW_TOKEN]),
                                                  .once = option_get_flag(&call->options, &rows[ROW_ONCE]),
                                                  .from_now = option_get_flag(&call->options, &rows[ROW_FROM_NOW]) };
        struct export_result result = { 0 };
        int r;

        if (!settings.to) {
                err_set(err, EINVAL, "say where to: --to URL");
                return EXIT_USAGE;
        }

        r = export_run(&settings, &result, err);
        if (r < 0)
                return r == -EINVAL ? EXIT_USAGE : EXIT_SYSTEM;

        fprintf(stderr, "bailey: export: %ju records delivered, %ju sent again, %ju not taken\n",
                (uintmax_t)result.delivered, (uintmax_t)result.repeated, (uintmax_t)result.rejected);
        return EXIT_OK;
}

const struct verb verb_export = {
        .name = "export",
        .group = GROUP_WATCH,
        .synopsis = "--to URL [OPTIONS]",
        .help = "send the audit's records to syslog or OpenTelemetry",
        .about =
            "Sends the records of all runs, those that are there and those that come, to a syslog server (RFC 5424) or "
            "a "
            "collector (OTLP/HTTP, JSON), until it is interrupted. The logs are the spool: what is not delivered waits "
            "there, and the next start goes on behind the last record that was. No sandbox waits for it.",
        .tables = { &table },
        .max_words = 0,
        .run = export_verb_run,
};
