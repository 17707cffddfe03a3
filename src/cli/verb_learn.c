/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "cli/verb.h"
#include "cli/verb_run.h"
#include "run/learn.h"
#include "run/run.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <unistd.h>

enum { LEARN_OUTPUT, LEARN_REPLACE, LEARN_CA_BUNDLE, LEARN_HOSTS, LEARN_OPTIONS };
static const struct option rows[] = {
        [LEARN_OUTPUT] = { .flag = "output",
                           .letter = 'o',
                           .type = OPTION_PATH,
                           .metavar = "FILE",
                           .fallback = "bailey-learned.yaml",
                           .help = "write the policy here" },
        [LEARN_REPLACE] = { .flag = "replace", .type = OPTION_FLAG, .help = "write over a file that is there" },
        [LEARN_CA_BUNDLE] = { .flag = "ca-bundle",
                              .type = OPTION_PATH,
                              .metavar = "FILE",
                              .help = "trust these roots too, besides the system's, here and inside" },
        [LEARN_HOSTS] = { .flag = "hosts",
                          .type = OPTION_PATH,
                          .metavar = "FILE",
                          .help = "names that the gateway knows without asking, as in /etc/hosts" },
};
static const struct option_table table = { "Learning", rows, LEARN_OPTIONS };

static int command_text(char *const *argv, struct buf *out) {
        int r = 0;
        for (; *argv && r == 0; argv++) {
                if (out->n)
                        r = buf_add_char(out, ' ');
                else
                        r = 0;
                if (r == 0)
                        r = escape_shell(out, str_of(*argv));
        }
        return r;
}

static int learn_save(const struct learn *learned, char *const *argv, const char *path, struct err *err) {
        cleanup(buf_done) struct buf command = BUF(1 << 20), text = BUF(4 << 20);
        if (command_text(argv, &command) < 0 || learn_write(learned, buf_text(&command), &text) < 0)
                return err_set(err, ENOMEM, "what was learned does not fit into a file");
        return path_replace_file(path, buf_str(&text), 0600, err);
}

static int learn_run(const struct call *call, struct err *err) {
        const char *path = option_get(&call->options, &rows[LEARN_OUTPUT]);
        if (access(path, F_OK) == 0 && !option_get_flag(&call->options, &rows[LEARN_REPLACE])) {
                err_set(err, EEXIST, "%s is there already: use --replace, or --output with another name", path);
                return EXIT_USAGE;
        }

        struct learn learned = { 0 };
        struct run_request request = {
                .options = &call->options,
                .argv = call->argv,
                .hosts_file = option_get(&call->options, &rows[LEARN_HOSTS]),
                .ca_bundle = option_get(&call->options, &rows[LEARN_CA_BUNDLE]),
                .quiet = true,
                .learn = &learned,
        };
        int status = 0;
        enum run_end end = run_command(&request, &status, err);
        int code = run_exit_code(end, status);

        if (end == RUN_ENDED || end == RUN_TIMED_OUT) {
                if (learn_save(&learned, call->argv, path, err) < 0)
                        code = EXIT_SYSTEM;
                else
                        log_notice("what it needed is in %s: read it, then use it with --policy %s", path, path);
        }

        learn_done(&learned);
        return code;
}

const struct verb verb_learn = {
        .name = "learn",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "run a program observed, then write the smallest policy for it",
        .about = "The program runs in the sandbox with the network open (private addresses stay refused) and every "
                 "host noted. "
                 "Files stay as the policy has them; what it refuses is noted. The policy that is written allows "
                 "exactly those "
                 "hosts and directories. What needs a person's judgement (places that hold secrets, private addresses, "
                 "hosts "
                 "where anybody can store data, pushes, fields of GraphQL, keys and signatures) is written as a "
                 "comment that grants nothing.\n"
                 "The exit status is the program's.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = learn_run,
};
