/* SPDX-License-Identifier: Apache-2.0 */
/* bailey profile ls, show, check: what agents need, as data. */
#include "verbs/profiles.h"

#include "base/cleanup.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"

#include <errno.h>

enum { OUTPUT_MAX = 16 << 20 };

static const struct option json_row[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print JSON" },
};
static const struct option_table json_table = { "Output", json_row, 1 };

static bool wants_json(const struct call *call) {
        return option_get_flag(&call->options, &json_row[0]);
}

static int status_of(int r) {
        if (r == -ENOENT)
                return EXIT_UNAVAILABLE;
        if (r == -ENOMEM || r == -EMSGSIZE)
                return EXIT_SYSTEM;

        return EXIT_CONFIG;
}

static int run_ls(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int r = profiles_list(wants_json(call), &out, err);

        if (r < 0)
                return status_of(r);

        return inspect_write(&out, err);
}

static int run_show(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int r = profiles_show(call->argv[0], wants_json(call), &out, err);

        if (r < 0)
                return status_of(r);

        return inspect_write(&out, err);
}

static int run_check(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        int r = profiles_check(call->argv[0], wants_json(call), &out, err);
        int written = out.n ? inspect_write(&out, err) : EXIT_OK;

        if (r < 0)
                return status_of(r);
        return written;
}

static const struct verb verb_ls = {
        .name = "ls",
        .synopsis = "[--json]",
        .help = "list the profiles, with their programs and where they come from",
        .tables = { &json_table },
        .run = run_ls,
};

static const struct verb verb_show = {
        .name = "show",
        .synopsis = "[--json] NAME",
        .help = "print one",
        .about = "Prints the profile as it would be used, with its place above it.",
        .tables = { &json_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_show,
};

static const struct verb verb_check = {
        .name = "check",
        .synopsis = "[--json] NAME|FILE",
        .help = "say whether a profile is valid",
        .about =
            "The first mistake is shown as file:line:column with what is wrong and what may have been meant.\n\nExit "
            "code 0: valid; 3: not valid; 4: there is no such profile.",
        .tables = { &json_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_check,
};

static const struct verb *const subs[] = { &verb_ls, &verb_show, &verb_check, NULL };

const struct verb verb_profile = {
        .name = "profile",
        .group = GROUP_POLICY,
        .synopsis = "ls|show|check ...",
        .help = "what agents need, as data: list, print and check profiles",
        .about =
            "A profile says what one agent needs: hosts, credentials, variables, files of its home. \"bailey run -- "
            "claude\" uses the profile claude by itself; --profile NAME names one or several, --profile none "
            "switches that off. A file of that name in ~/.config/bailey/profiles or /etc/bailey/profiles counts "
            "instead of the one that is built in.",
        .subs = subs,
};
