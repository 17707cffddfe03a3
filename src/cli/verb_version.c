/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/version.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "cli/verb.h"

#include <stdio.h>

static const struct option rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
};
static const struct option_table table = { "Options", rows, 1 };

static int version_run(const struct call *call, struct err *err) {
        if (!option_get_flag(&call->options, &rows[0])) {
                printf("bailey %s\n", bailey_version());
                return EXIT_OK;
        }

        cleanup(buf_done) struct buf out = BUF(1024);
        if (buf_add(&out, "{\"name\":\"bailey\",\"version\":") < 0 || escape_json(&out, str_of(bailey_version())) < 0 ||
            buf_add(&out, "}") < 0) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        printf("%s\n", buf_text(&out));
        return EXIT_OK;
}

const struct verb verb_version = {
        .name = "version",
        .group = GROUP_HELP,
        .synopsis = "[--json]",
        .help = "show the version",
        .tables = { &table },
        .run = version_run,
};
