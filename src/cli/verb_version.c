/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/version.h"

#include "base/cleanup.h"
#include "base/emit.h"
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
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "name", "bailey");
        emit_put_text(&j, "version", bailey_version());
        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

const struct verb verb_version = {
        .name = "version",
        .group = GROUP_HELP,
        .synopsis = "[--json]",
        .help = "show the version",
        .tables = { &table },
        .run = version_run,
};
