/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from main() to a verb: global options, the verb (and its sub-verb), its options and words by its tables, the
 * call, and the one place where a failure is reported. It trusts the command line (it is the user's), but not the
 * descriptors it was started with: 0, 1 and 2 exist before anything is opened.
 */
#include "cli/frame.h"

#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/err_hint.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/verb_help.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char *const log_levels[] = { "error", "warning", "notice", "info", "debug", NULL };
static const char *const log_formats[] = { "text", "json", NULL };
static const char *const colors[] = { "auto", "always", "never", NULL };

static const struct option global_rows[] = {
        [GLOBAL_HELP] = { .flag = "help", .letter = 'h', .type = OPTION_FLAG, .help = "show help and exit" },
        [GLOBAL_LOG_LEVEL] = { .flag = "log-level",
                               .env = "BAILEY_LOG_LEVEL",
                               .type = OPTION_CHOICE,
                               .metavar = "LEVEL",
                               .choices = log_levels,
                               .fallback = "notice",
                               .help = "how much to say on standard error" },
        [GLOBAL_LOG_FORMAT] = { .flag = "log-format",
                                .env = "BAILEY_LOG_FORMAT",
                                .type = OPTION_CHOICE,
                                .metavar = "FORMAT",
                                .choices = log_formats,
                                .fallback = "text",
                                .help = "text for people, or one JSON object a line" },
        [GLOBAL_COLOR] = { .flag = "color",
                           .env = "BAILEY_COLOR",
                           .type = OPTION_CHOICE,
                           .metavar = "WHEN",
                           .choices = colors,
                           .fallback = "auto",
                           .help = "colour the output" },
};
static_assert(sizeof global_rows / sizeof global_rows[0] == GLOBALS, "one row each");
const struct option_table global_options = { "Global options", global_rows, GLOBALS };

/* Only before a verb. */
static const struct option top_rows[] = {
        { .flag = "version", .letter = 'V', .type = OPTION_FLAG, .help = "show the version and exit" },
};
static const struct option_table top_options = { "Options", top_rows, 1 };

bool frame_color(const struct call *call, int fd) {
        const char *when = option_get(&call->options, global_option(GLOBAL_COLOR));
        if (when && strcmp(when, "auto") != 0)
                return strcmp(when, "always") == 0;
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        return (!no_color || !*no_color) && term && strcmp(term, "dumb") != 0 && isatty(fd);
}

/* A missing 0, 1 or 2 would be taken by the next file opened, and then written to. */
static int open_standard_fds(void) {
        for (int fd = 0; fd <= 2; fd++) {
                if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
                        continue;
                if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
                        return -1;
        }
        return 0;
}

static void apply_log_options(const struct option_values *options) {
        struct log_settings settings = {
                .level = LOG_NOTICE, .fd = STDERR_FILENO, .program = "bailey", .per_second = 200
        };
        const char *level = option_get(options, global_option(GLOBAL_LOG_LEVEL));
        const char *format = option_get(options, global_option(GLOBAL_LOG_FORMAT));

        if (level)
                (void)log_level_parse(level, &settings.level); /* the table holds the same names */

        settings.format = format && strcmp(format, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
        log_setup(&settings);
}

/* Says what went wrong, once, and gives the code its band. */
static int frame_report(const struct call *call, int status, const struct err *err) {
        if (err->code != 0) {
                if (call->verb)
                        log_error("%s: %s%s", verb_spelled(call->parent, call->verb).text, err_text(err),
                                  err_hint(err));
                else
                        log_error("%s%s", err_text(err), err_hint(err));
        }

        bool passes = call->verb && (call->verb->flags & VERB_PASSES_STATUS);
        if (passes && err->code != 0 && status >= EXIT_USAGE && status <= EXIT_SYSTEM)
                status += EXIT_PASSING;

        return status;
}

static int unknown_verb(const struct verb *parent, const char *name, struct err *err) {
        if (parent)
                err_set(err, EINVAL, "there is no verb %s%s (\"bailey help %s\" lists them)", show(str_of(name)).text,
                        verb_suggest(parent, name).text, parent->name);
        else
                err_set(err, EINVAL, "there is no verb %s%s (\"bailey help\" lists them)", show(str_of(name)).text,
                        verb_suggest(parent, name).text);

        return EXIT_USAGE;
}

/* Moves words to the front of argv[1..] and reads the options between them. */
static int parse_words(struct call *call, int argc, char **argv, struct err *err) {
        const struct option_table *tables[VERB_TABLES_MAX + 1];
        size_t n_tables = verb_tables(call->verb, tables);
        char **words = argv + 1;
        int n_words = 0, i = 0; /* argv[i] is the last one read */

        for (;;) {
                int used = 0;
                if (option_parse_args(tables, n_tables, argc - i, argv + i, &call->options, &used, err) < 0)
                        return EXIT_USAGE;

                bool rest = used > 0 && strcmp(argv[i + used], "--") == 0;
                i += used;

                if (rest || (call->verb->flags & VERB_COMMAND)) {
                        while (i + 1 < argc)
                                words[n_words++] = argv[++i];
                        break;
                }

                if (i + 1 >= argc)
                        break;

                words[n_words++] = argv[++i];
        }

        words[n_words] = NULL;
        call->argc = n_words;
        call->argv = words;

        return EXIT_OK;
}

static int check_words(const struct call *call, struct err *err) {
        const struct verb *verb = call->verb;
        const struct verb_spelling spelling = verb_spelled(call->parent, verb);

        if (call->argc < verb->min_words)
                err_set(err, EINVAL, "something is missing: bailey %s %s", spelling.text, verb->synopsis);
        else if (verb->max_words >= 0 && call->argc > verb->max_words)
                err_set(err, EINVAL, "\"%s\" is one word too many: bailey %s %s", call->argv[verb->max_words],
                        spelling.text, verb->synopsis);
        else
                return EXIT_OK;

        return EXIT_USAGE;
}

/* argv[0] is the verb. */
static int run_verb(struct call *call, int argc, char **argv, struct err *err) {
        const struct verb *verb = verb_find(NULL, argv[0]);
        if (!verb)
                return unknown_verb(NULL, argv[0], err);

        if (verb->subs && argc > 1 && argv[1][0] != '-') {
                const struct verb *sub = verb_find(verb->subs, argv[1]);
                if (!sub && !verb->run)
                        return unknown_verb(verb, argv[1], err);
                if (sub) {
                        call->parent = verb;
                        verb = sub;
                        argc--;
                        argv++;
                }
        }

        call->verb = verb;
        int status = parse_words(call, argc, argv, err);
        if (status != EXIT_OK)
                return status;

        apply_log_options(&call->options);
        if (option_get_flag(&call->options, global_option(GLOBAL_HELP)))
                return help_verb(call->parent, verb, stdout);

        if (!verb->run) {
                err_set(err, EINVAL, "say what to do: \"bailey help %s\" lists it", verb->name);
                return EXIT_USAGE;
        }

        status = check_words(call, err);
        return status == EXIT_OK ? verb->run(call, err) : status;
}

static int run_top(struct call *call, int argc, char **argv, struct err *err) {
        const struct option_table *globals[] = { &global_options }, *top[] = { &top_options, &global_options };
        int used = 0;

        if (option_parse_env(globals, 1, &call->options, err) < 0 ||
            option_parse_args(top, 2, argc, argv, &call->options, &used, err) < 0)
                return EXIT_USAGE;

        apply_log_options(&call->options);

        if (option_get_flag(&call->options, &top_rows[0])) {
                printf("bailey %s\n", bailey_version());
                return EXIT_OK;
        }

        if (option_get_flag(&call->options, global_option(GLOBAL_HELP)))
                return help_overview(stdout);

        if (used + 1 >= argc) {
                help_overview(stderr);
                return EXIT_USAGE;
        }

        return run_verb(call, argc - used - 1, argv + used + 1, err);
}

int frame_main(int argc, char **argv) {
        if (open_standard_fds() < 0)
                return EXIT_SYSTEM;

        struct call call = { 0 };
        struct err err = { 0 };
        int status = argc > 0 ? run_top(&call, argc, argv, &err) : EXIT_USAGE;

        if (fflush(stdout) != 0 && err.code == 0) {
                err_errno(&err, "cannot write the output");
                status = EXIT_SYSTEM;
        }

        status = frame_report(&call, status, &err);
        option_values_done(&call.options);

        return status;
}
