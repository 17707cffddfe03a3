/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is probed here: `bailey-seatbelt probe` does that, and contrib/macos/run tries what it can do. */
#include "base/err.h"
#include "cli/macos_differences.h"
#include "cli/verb.h"

static const struct option rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
};
static const struct option_table table = { "Output", rows, 1 };

/* Nobody has seen a sandbox of this program hold: the answer is no, whatever the machine has. */
static int doctor_run(const struct call *call, struct err *err) {
        if (macos_differences_print(option_get_flag(&call->options, &rows[0]), err) != EXIT_OK)
                return EXIT_SYSTEM;
        return EXIT_UNAVAILABLE;
}

const struct verb verb_doctor = {
        .name = "doctor",
        .group = GROUP_HELP,
        .synopsis = "[--json]",
        .help = "say what Bailey does on a Mac, and what not",
        .about = "Generated, cross-built and checked on Linux, never yet run on a Mac.",
        .tables = { &table },
        .max_words = 0,
        .run = doctor_run,
};
