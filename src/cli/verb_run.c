/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_run.h"

#include "base/cleanup.h"
#include "cli/frame.h"
#include "container/container.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { RUN_HOSTS, RUN_CA_BUNDLE, RUN_QUIET, RUN_CONTAINER, RUN_CONTAINER_ARG, RUN_DIE, RUN_OPTIONS };
static const char *const engines[] = { "docker", "podman", NULL };
static const struct option rows[] = {
        [RUN_HOSTS] = { .flag = "hosts",
                        .type = OPTION_PATH,
                        .metavar = "FILE",
                        .help = "names that the gateway knows without asking, as in /etc/hosts" },
        [RUN_CA_BUNDLE] = { .flag = "ca-bundle",
                            .type = OPTION_PATH,
                            .metavar = "FILE",
                            .help = "trust these roots too, besides the system's, here and inside" },
        [RUN_QUIET] = { .flag = "quiet",
                        .letter = 'q',
                        .type = OPTION_FLAG,
                        .help = "no summary of refusals at the end" },
        [RUN_CONTAINER] = { .flag = "container",
                            .type = OPTION_CHOICE,
                            .metavar = "ENGINE",
                            .choices = engines,
                            .help = "run a container instead: IMAGE [--] [COMMAND...], its files and network by the "
                                    "policy" },
        [RUN_CONTAINER_ARG] = { .flag = "container-arg",
                                .type = OPTION_LIST,
                                .metavar = "ARG",
                                .help = "hand an argument on to the engine, such as --volume=/a:/b" },
        [RUN_DIE] = { .flag = "die-with-parent",
                      .type = OPTION_FLAG,
                      .help = "end when the program that started this one has ended, also by a crash" },
};
static const struct option_table table = { "This run", rows, RUN_OPTIONS };

int run_exit_code(enum run_end end, int status) {
        switch (end) {
        case RUN_ENDED:
                return status;
        case RUN_BAD_POLICY:
                return EXIT_CONFIG;
        case RUN_REFUSED:
                return EXIT_REFUSED;
        case RUN_UNAVAILABLE:
                return EXIT_UNAVAILABLE;
        case RUN_TIMED_OUT:
        case RUN_CANCELLED:
                return EXIT_TIMEOUT;
        default:
                return EXIT_SYSTEM;
        }
}

static int run_container(const struct call *call, const struct run_request *request, const char *engine,
                         struct err *err) {
        const struct option_value *value;
        size_t n = 0;
        cleanup(free_ptr) char **arguments = calloc(call->options.values.n + 1, sizeof *arguments);
        if (!arguments) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        for (size_t i = 0; (value = option_next(&call->options, &rows[RUN_CONTAINER_ARG], &i));)
                arguments[n++] = value->text;

        const struct container_request container_request = { .run = request, .engine = engine, .arguments = arguments };
        int status = 0;
        enum run_end end = container_run(&container_request, &status, err);

        return run_exit_code(end, status);
}

static int run_run(const struct call *call, struct err *err) {
        struct run_request request = {
                .options = &call->options,
                .argv = call->argv,
                .hosts_file = option_get(&call->options, &rows[RUN_HOSTS]),
                .ca_bundle = option_get(&call->options, &rows[RUN_CA_BUNDLE]),
                .quiet = option_get_flag(&call->options, &rows[RUN_QUIET]),
        };
        int status = 0;
        const char *engine = option_get(&call->options, &rows[RUN_CONTAINER]);
        int last = engine ? SIGTERM : SIGKILL; /* a container is the engine's, and has to be ended */
        if (option_get_flag(&call->options, &rows[RUN_DIE]) && frame_die_with_parent(last, err) < 0)
                return EXIT_SYSTEM;
        if (engine)
                return run_container(call, &request, engine, err);

        enum run_end end = run_command(&request, &status, err);
        return run_exit_code(end, status);
}

const struct verb verb_run = {
        .name = "run",
        .group = GROUP_RUN,
        .flags = VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
        .help = "run a program in the sandbox",
        .about =
            "The program sees the file system read-only, without the places where secrets live, and writes only to "
            "the workspace, to a private /tmp and to what --write names. Its network is its own: every connection "
            "and every DNS query ends at the gateway, which lets pass what the policy allows and records all of it.\n"
            "The exit status is the program's.\n"
            "With --container the words are an image and a command, and docker or podman makes the sandbox. Its files "
            "are "
            "the image's, and of this host's what the policy grants, the workspace first, with what it closes closed. "
            "Its "
            "network is the policy's: the container is made without one; what it connects to ends at the gateway, "
            "whatever "
            "its programs do. It holds stand-ins for credentials and trusts the gateway's CA. Its home is the image's "
            "and ends "
            "with it; --home NAME lays the sandbox's own there, at /run/home. What cannot be held in a "
            "container is refused: globs in denies, --overlay, --trace-denials, --publish.",
        .tables = { &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process,
                    &policy_table_limits, &table },
        .min_words = 1,
        .max_words = -1,
        .run = run_run,
};
