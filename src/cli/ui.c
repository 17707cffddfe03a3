/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/ui.h"

#include "base/cleanup.h"
#include "cli/verb.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_PORT, ROW_READ_ONLY, ROW_OPEN, UI_ROWS };
static const struct option rows[] = {
        [ROW_PORT] = { .flag = "port",
                       .type = OPTION_INTEGER,
                       .metavar = "PORT",
                       .min = 1,
                       .max = 65535,
                       .help = "listen on this port of 127.0.0.1; by default any that is free" },
        [ROW_READ_ONLY] = { .flag = "read-only",
                            .type = OPTION_FLAG,
                            .help = "show, but take no answers and no orders" },
        [ROW_OPEN] = { .flag = "open",
                       .type = OPTION_FLAG,
                       .fallback = "true",
                       .help = "do not start a browser; only print the link" },
};
static_assert(sizeof rows / sizeof *rows == UI_ROWS, "one row each");
static const struct option_table table = { "Options", rows, UI_ROWS };

/* Where there is a desktop, its browser. The link is printed in any case. */
static void open_browser(const char *link) {
        const char *const argv[] = { "xdg-open", link, NULL };
        posix_spawn_file_actions_t actions;
        pid_t pid;

        if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
                return;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        (void)posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv,
                           environ); /* without one the person has the link */
        posix_spawn_file_actions_destroy(&actions);
}

static void on_ready(void *arg, const char *link) {
        bool open_it = *(const bool *)arg;

        printf("%s\n", link);
        fflush(stdout);
        fprintf(stderr,
                "bailey: the link is for one browser and for one minute; \"bailey ui\" in another terminal gives "
                "a new one\n");
        if (open_it)
                open_browser(link);
}

static int ui_verb_run(const struct call *call, struct err *err) {
        bool open_it = option_get_flag(&call->options, &rows[ROW_OPEN]);
        const struct ui_settings settings = { .port = (uint16_t)option_get_number(&call->options, &rows[ROW_PORT]),
                                              .read_only = option_get_flag(&call->options, &rows[ROW_READ_ONLY]),
                                              .on_ready = on_ready,
                                              .arg = &open_it };
        cleanup(free_ptr) char *link = NULL;
        int r;

        r = ui_ask_link(&link, err);
        if (r == 0) {
                on_ready(&open_it, link);
                return EXIT_OK;
        }
        err_clear(err);
        r = ui_run(&settings, err);
        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

const struct verb verb_ui = {
        .name = "ui",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS]",
        .help = "open the dashboard in a browser",
        .about =
            "Shows what runs, what waits for an answer, what was reached and refused and which rule decided, with the "
            "buttons to change it. It serves on 127.0.0.1 until it is interrupted, and prints a link that is good for "
            "one "
            "browser and one minute; run again, it prints a new one. It can do nothing that the other verbs cannot, "
            "and "
            "what it does is on record.\n"
            "From another machine: ssh -L PORT:127.0.0.1:PORT HOST, with the same --port on both sides.",
        .tables = { &table },
        .max_words = 0,
        .run = ui_verb_run,
};
