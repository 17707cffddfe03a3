/* SPDX-License-Identifier: Apache-2.0 */
/* bailey init: a first policy for this project. */
#include "verbs/starter.h"

#include "base/cleanup.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INIT_YES, INIT_PRINT, INIT_FORCE, INIT_OPTIONS };
static const struct option rows[] = {
        [INIT_YES] = { .flag = "yes", .letter = 'y', .type = OPTION_FLAG, .help = "write it without asking" },
        [INIT_PRINT] = { .flag = "print", .type = OPTION_FLAG, .help = "print it and write nothing" },
        [INIT_FORCE] = { .flag = "force", .type = OPTION_FLAG, .help = "replace a .bailey.yaml that is there" },
};
static const struct option_table table = { "Options", rows, INIT_OPTIONS };

static bool person_agrees(const char *path) {
        char line[16];

        printf("\nWrite this to %s and trust it? [y/N] ", path);
        fflush(stdout);
        return fgets(line, sizeof line, stdin) && (strcmp(line, "y\n") == 0 || strcmp(line, "yes\n") == 0);
}

static int init_run(const struct call *call, struct err *err) {
        cleanup(starter_done) struct starter starter = { 0 };
        bool print_only = option_get_flag(&call->options, &rows[INIT_PRINT]);
        bool yes = option_get_flag(&call->options, &rows[INIT_YES]);
        int r;

        if (starter_propose(call->argc > 0 ? call->argv[0] : NULL, &starter, err) < 0)
                return EXIT_CONFIG;

        if (starter.exists && !print_only && !option_get_flag(&call->options, &rows[INIT_FORCE])) {
                err_set(err, EEXIST, "there is a %s already; --force replaces it, --print shows what would be in it",
                        starter.path);
                return EXIT_CONFIG;
        }

        if (!yes && !print_only && !isatty(STDIN_FILENO)) {
                err_set(err, EINVAL, "nobody can be asked here; --yes writes the policy, --print only shows it");
                return EXIT_USAGE;
        }

        fwrite(starter.text.p, 1, starter.text.n, stdout);
        if (print_only)
                return EXIT_OK;

        if (!yes && !person_agrees(starter.path)) {
                puts("Nothing was written.");
                return EXIT_NO;
        }

        r = starter_write(&starter, option_get_flag(&call->options, &rows[INIT_FORCE]), err);
        if (r == -EEXIST)
                return EXIT_CONFIG;
        if (r < 0)
                return EXIT_SYSTEM;

        printf("%sWritten to %s. Try: bailey run -- COMMAND\n", yes ? "\n" : "", starter.path);
        return EXIT_OK;
}

const struct verb verb_init = {
        .name = "init",
        .group = GROUP_POLICY,
        .synopsis = "[OPTIONS] [DIR]",
        .help = "make a first policy for this project",
        .about = "Looks at what the project in DIR (or here) is made of (package.json, pyproject.toml, Cargo.toml, "
                 "go.mod, Dockerfile and others), at its "
                 "git remotes, and at the agents and tokens of this machine, and proposes a .bailey.yaml in which "
                 "every line says why it "
                 "is there. After a yes it is written and trusted, as it is now. Nothing of the project is run, and a "
                 "file that cannot be "
                 "understood is an error.\n\n"
                 "Exit code 0: written, or printed; 1: the answer was no; 2: nobody can be asked; 3: a file of the "
                 "project cannot be "
                 "understood, or there is a policy already.",
        .tables = { &table },
        .max_words = 1,
        .run = init_run,
};
