/* SPDX-License-Identifier: Apache-2.0 */
/* bailey trust: a person has looked at a workspace's policy file and wants what it asks for. */
#include "verbs/trust_files.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdio.h>

enum { TRUST_SHOW, TRUST_LIST, TRUST_REMOVE, TRUST_OPTIONS };
static const struct option rows[] = {
        [TRUST_SHOW] = { .flag = "show", .type = OPTION_FLAG, .help = "only show what the file asks for" },
        [TRUST_LIST] = { .flag = "list", .type = OPTION_FLAG, .help = "list the files that are trusted" },
        [TRUST_REMOVE] = { .flag = "remove", .type = OPTION_FLAG, .help = "trust the file no longer" },
};
static const struct option_table table = { "Options", rows, TRUST_OPTIONS };

/* Both come from a repository: escaped before they reach a terminal. */
static void print_escaped(const char *text, const char *after) {
        cleanup(buf_done) struct buf out = BUF(65536);
        if (escape_text(&out, str_of(text), 4096) == 0)
                printf("%.*s%s", STR_FMT(buf_str(&out)), after);
}

static int list_all(struct err *err) {
        cleanup(trust_list_done) struct trust_list list = { 0 };
        if (trust_load(&list, err) < 0)
                return EXIT_CONFIG;

        for (size_t i = 0; i < list.entries.n; i++) {
                printf("%.12s  ", list.entries.p[i].digest);
                print_escaped(list.entries.p[i].path, "\n");
        }

        return EXIT_OK;
}

static void print_wishes(const struct trust_report *report) {
        print_escaped(report->path, report->trusted ? ": trusted\n" : ":\n");

        for (size_t i = 0; i < report->wishes.n; i++) {
                const struct trust_wish *wish = &report->wishes.p[i];

                printf("  ");
                print_escaped(wish->place, "  ");
                print_escaped(wish->key, ": ");
                print_escaped(wish->text, "\n");
        }

        if (report->wishes.n == 0)
                puts("  asks for nothing that needs trust");
}

static int trust_run(const struct call *call, struct err *err) {
        cleanup(trust_report_done) struct trust_report report = { 0 };

        if (option_get_flag(&call->options, &rows[TRUST_LIST]))
                return list_all(err);
        if (trust_examine(call->argc > 0 ? call->argv[0] : NULL, &report, err) < 0)
                return EXIT_CONFIG;

        if (!report.path) {
                err_set(err, ENOENT, "the workspace has no .bailey.yaml: there is nothing to trust");
                return EXIT_UNAVAILABLE;
        }

        if (option_get_flag(&call->options, &rows[TRUST_REMOVE])) {
                int r = trust_remove(report.path, err);
                if (r == -ENOENT)
                        return EXIT_UNAVAILABLE;

                if (r < 0)
                        return EXIT_SYSTEM;

                return EXIT_OK;
        }

        print_wishes(&report);
        if (option_get_flag(&call->options, &rows[TRUST_SHOW]))
                return report.trusted || report.wishes.n == 0 ? EXIT_OK : EXIT_NO;

        if (report.wishes.n > 0 && !report.trusted) {
                if (trust_add(report.path, report.digest, err) < 0)
                        return EXIT_SYSTEM;
                puts("Trusted, as it is now. When the file changes you will be asked again.");
        }

        return EXIT_OK;
}

const struct verb verb_trust = {
        .name = "trust",
        .group = GROUP_POLICY,
        .synopsis = "[OPTIONS] [DIR]",
        .help = "accept what a workspace's .bailey.yaml asks for",
        .about =
            "A policy file that comes with a workspace may take away, but what it grants counts only after you have "
            "trusted "
            "it. This shows what the file in DIR (or here) asks for and records its path and SHA-256, with the list "
            "files "
            "that it names. Any change to them takes the trust away.\n\n"
            "Exit code 0: done; 1: --show, and the file needs trust; 3: the file is not valid; 4: there is no file.",
        .tables = { &table },
        .max_words = 1,
        .run = trust_run,
};
