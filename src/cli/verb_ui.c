/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/ui.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "cli/verb.h"
#include "ui/qr.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_PORT, ROW_READ_ONLY, ROW_OPEN, ROW_SERVICE, ROW_END, ROW_PAIR, ROW_PAIR_ADDRESS, ROW_PAIR_FOR, UI_ROWS };
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
        [ROW_SERVICE] = { .flag = "service",
                          .type = OPTION_FLAG,
                          .help = "serve in the background: print the link and return; --end ends it" },
        [ROW_END] = { .flag = "end", .type = OPTION_FLAG, .help = "end the dashboard that is running" },
        [ROW_PAIR] = { .flag = "pair",
                       .type = OPTION_FLAG,
                       .help = "show a QR code that lets one phone on this network read and answer" },
        [ROW_PAIR_ADDRESS] = { .flag = "pair-address",
                               .type = OPTION_STRING,
                               .metavar = "ADDRESS",
                               .help = "the address of this computer that the phone can reach; by default the one "
                                       "that leads outside" },
        [ROW_PAIR_FOR] = { .flag = "pair-for",
                           .type = OPTION_DURATION,
                           .metavar = "DURATION",
                           .min = (int64_t)NS_PER_SECOND,
                           .max = UI_PAIR_SECONDS_MAX * (int64_t)NS_PER_SECOND,
                           .fallback = "1h",
                           .help = "how long the phone stays paired" },
};
static_assert(sizeof rows / sizeof *rows == UI_ROWS, "one row each");
static const struct option_table table = { "Options", rows, UI_ROWS };

/* Where there is a desktop, its browser. The link is printed in any case. */
static void open_browser(const char *link) {
        const char *const argv[] = { "xdg-open", link, NULL };
        char program[PATH_MAX];
        struct err ignored = { 0 };
        pid_t pid;

        if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
                return;

        if (!spawn_find(argv[0], environ, program))
                return; /* the person has the link */

        const struct spawn spawn = { .program = program,
                                     .argv = (char *const *)argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_NULL };
        (void)spawn_start(&spawn, &pid, &ignored);
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

/*
 * A phone.
 */
static void print_code(const char *link) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct qr qr;

        if (isatty(STDOUT_FILENO) && qr_make(str_of(link), &qr) == 0 && qr_draw(&qr, true, &out) == 0)
                fwrite(out.p, 1, out.n, stdout);
        printf("%s\n", link);
        fflush(stdout);
}

/* As browsers show it. */
static void print_fingerprint(const char *link) {
        const char *digest = strrchr(link, '.');
        char padded[] = "............................................", bytes[48];
        size_t n = 0;

        if (!digest || strlen(digest + 1) != sizeof padded - 2)
                return;

        for (size_t i = 0; i + 2 < sizeof padded; i++) {
                char c = digest[i + 1];

                padded[i] = c;

                if (c == '-')
                        padded[i] = '+';
                else if (c == '_')
                        padded[i] = '/';
        }

        padded[sizeof padded - 2] = '=';
        if (!base64_decode(str_n(padded, sizeof padded - 1), bytes, &n))
                return;

        fprintf(stderr, "bailey: SHA-256 of the certificate, which the browser's warning shows:\nbailey:  ");
        for (size_t i = 0; i < n; i++)
                fprintf(stderr, "%s%02X", i ? ":" : " ", (unsigned char)bytes[i]);

        fprintf(stderr, "\n");
}

static void on_pair_event(void *arg, enum pair_event event, const char *text) {
        (void)arg;

        if (event == PAIR_LINK) {
                print_code(text);
                fprintf(stderr,
                        "bailey: scan it with the phone within two minutes; it is for one device and lets it read and "
                        "answer questions\n");
                print_fingerprint(text);
        } else if (event == PAIR_PAIRED) {
                fprintf(stderr, "bailey: paired with %s; Ctrl-C ends it\n", text);
        } else {
                fprintf(stderr, "bailey: the pairing has ended: %s\n", text);
        }
}

static int ui_verb_pair(const struct ui_settings *settings, struct err *err) {
        int r;

        r = ui_check_pair(settings->pair, err);
        if (r < 0)
                return EXIT_USAGE;

        r = ui_ask_pair(settings->pair, err);
        if (r == -ENOENT) {
                err_clear(err);
                r = ui_run(settings, err);
        }

        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

/*
 * In the background.
 */
static int service_spawn(const struct ui_settings *settings, int output, struct err *err) {
        char self[PATH_MAX], port[24];
        char *argv[6] = { (char *)"bailey", (char *)"ui", (char *)"--no-open" };
        size_t n_argv = 3;
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        pid_t pid;

        if (n <= 0)
                return err_errno(err, "cannot find out where this program is (/proc/self/exe)");

        self[n] = '\0';

        snprintf(port, sizeof port, "--port=%u", settings->port);
        if (settings->port)
                argv[n_argv++] = port;
        if (settings->read_only)
                argv[n_argv++] = (char *)"--read-only";

        const struct spawn spawn = { .program = self,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = output,
                                     .errors = SPAWN_NULL,
                                     .flags = SPAWN_OWN_SESSION };
        return spawn_start(&spawn, &pid, err);
}

/* The link comes when it listens; the end of the pipe instead of it means that it does not. */
static int service_start(const struct ui_settings *settings, struct err *err) {
        int ends[2], r;
        char link[256];
        size_t n = 0;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int from = ends[0], to = ends[1];
        r = service_spawn(settings, to, err);
        if (r < 0)
                return r;

        close_fd(&to);

        while (n < sizeof link - 1) {
                ssize_t got = read(from, link + n, sizeof link - 1 - n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return err_set(err, EPROTO, "the dashboard did not start; without --service it says why");

                n += (size_t)got;
                if (link[n - 1] == '\n')
                        break;
        }

        link[n - 1] = '\0';
        settings->on_ready(settings->arg, link);

        return 0;
}

static int ui_verb_end(struct err *err) {
        int r = ui_ask_end(err);

        if (r == -ENOENT) {
                err_clear(err);
                fprintf(stderr, "bailey: no dashboard is running\n");
                return EXIT_NO;
        }

        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

static int ui_verb_run(const struct call *call, struct err *err) {
        bool open_it = option_get_flag(&call->options, &rows[ROW_OPEN]);
        bool pair_it = option_get_flag(&call->options, &rows[ROW_PAIR]);
        const struct ui_pair pair = { .address = option_get(&call->options, &rows[ROW_PAIR_ADDRESS]),
                                      .seconds = option_get_number(&call->options, &rows[ROW_PAIR_FOR]) / NS_PER_SECOND,
                                      .on_event = on_pair_event };
        const struct ui_settings settings = { .port = (uint16_t)option_get_number(&call->options, &rows[ROW_PORT]),
                                              .read_only = option_get_flag(&call->options, &rows[ROW_READ_ONLY]),
                                              .pair = pair_it ? &pair : NULL,
                                              .on_ready = on_ready,
                                              .arg = &open_it };
        cleanup(free_ptr) char *link = NULL;
        int r;

        bool service = option_get_flag(&call->options, &rows[ROW_SERVICE]);

        if (option_get_flag(&call->options, &rows[ROW_END]))
                return ui_verb_end(err);

        if (pair_it && service) {
                err_set(err, EINVAL, "--pair shows a code and stays; --service does not: start it, then run --pair");
                return EXIT_USAGE;
        }

        if (pair_it)
                return ui_verb_pair(&settings, err);

        r = ui_ask_link(&link, err);
        if (r == 0) {
                on_ready(&open_it, link);
                return EXIT_OK;
        }

        err_clear(err);
        if (service)
                r = service_start(&settings, err);
        else
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
            "A phone on the same network is let in by --pair, off by default: a QR code with a link for one device, "
            "over "
            "TLS, until Ctrl-C, the button in the page or the end of --pair-for. It reads and answers questions and "
            "can "
            "do nothing else.\n"
            "With --service it goes on in the background when the terminal is closed, until --end.\n"
            "From another machine: ssh -L PORT:127.0.0.1:PORT HOST, with the same --port on both sides.",
        .tables = { &table },
        .max_words = 0,
        .run = ui_verb_run,
};
