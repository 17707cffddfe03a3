/* SPDX-License-Identifier: Apache-2.0 */
/* bailey kept: what sandboxes made under protected names, and what becomes of it. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "cli/verb.h"
#include "kept/guard_registry.h"
#include "kept/kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_text(const char *text) {
        cleanup(buf_done) struct buf shown = BUF(65536);
        if (escape_text(&shown, str_of(text), 4096) == 0)
                printf("%.*s", STR_FMT(buf_str(&shown)));
}

static void print_entry(const struct kept_entry *entry) {
        cleanup(free_ptr) char *place = kept_place(entry);

        printf("%s  %.3s  ", entry->id, entry->name);
        print_text(entry->path);
        printf("\n");

        if (place) {
                printf("    ");
                print_text(place);
                printf("\n");
        }
}

enum { LS_JSON, LS_OPTIONS };
static const struct option ls_rows[] = {
        [LS_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static const struct option_table ls_table = { "Options", ls_rows, LS_OPTIONS };

static int print_json(const kept_entries *list, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        struct emit j = emit_to(&out);

        emit_open(&j, '[');

        for (size_t i = 0; i < list->n; i++) {
                cleanup(free_ptr) char *place = kept_place(&list->p[i]);

                emit_open(&j, '{');
                emit_put_text(&j, "id", list->p[i].id);
                emit_put_text(&j, "name", list->p[i].name);
                emit_put_text(&j, "path", list->p[i].path);
                emit_put_text(&j, "kept", text_or(place, ""));
                emit_close(&j);
        }

        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

static int run_ls(const struct call *call, struct err *err) {
        cleanup(kept_entries_done) kept_entries list = { 0 };

        if (kept_list(call->argc > 0 ? call->argv[0] : NULL, &list, err) < 0)
                return EXIT_SYSTEM;
        if (option_get_flag(&call->options, &ls_rows[LS_JSON]))
                return print_json(&list, err);

        for (size_t i = 0; i < list.n; i++)
                print_entry(&list.p[i]);

        if (list.n == 0)
                printf("Nothing is kept.\n");

        return EXIT_OK;
}

/* By number ("000"), by the name in the store, or by the path where it was. */
static bool is_named(const struct kept_entry *entry, const char *name) {
        return strcmp(name, entry->name) == 0 || strcmp(name, entry->path) == 0 ||
               (strlen(name) == 3 && strncmp(name, entry->name, 3) == 0);
}

static int run_restore(const struct call *call, struct err *err) {
        cleanup(kept_entries_done) kept_entries list = { 0 };
        const char *wanted = call->argc > 1 ? call->argv[1] : NULL;
        size_t done = 0, failed = 0;

        if (kept_list(call->argv[0], &list, err) < 0)
                return EXIT_SYSTEM;

        for (size_t i = 0; i < list.n; i++) {
                struct err why = { 0 };

                if (wanted && !is_named(&list.p[i], wanted))
                        continue;

                if (kept_restore(&list.p[i], &why) < 0) {
                        fprintf(stderr, "bailey: %s\n", err_text(&why));
                        failed++;
                        continue;
                }

                printf("restored ");
                print_text(list.p[i].path);
                printf("\n");
                done++;
        }

        if (done + failed == 0) {
                err_set(err, ENOENT, "nothing of that name is kept; see `bailey kept ls`");
                return EXIT_UNAVAILABLE;
        }

        return failed ? EXIT_NO : EXIT_OK;
}

static int run_rm(const struct call *call, struct err *err) {
        cleanup(kept_entries_done) kept_entries list = { 0 };
        bool all = strcmp(call->argv[0], "all") == 0;
        const char *last = "";
        size_t runs = 0;

        if (kept_list(all ? NULL : call->argv[0], &list, err) < 0)
                return EXIT_SYSTEM;

        for (size_t i = 0; i < list.n; i++) {
                if (strcmp(list.p[i].id, last) == 0)
                        continue;

                last = list.p[i].id;
                if (kept_remove(last, err) < 0)
                        return EXIT_SYSTEM;

                runs++;
        }

        if (runs == 0 && !all) {
                err_set(err, ENOENT, "nothing is kept of %s; see `bailey kept ls`", call->argv[0]);
                return EXIT_UNAVAILABLE;
        }

        printf("What was kept of %zu %s is gone.\n", runs, runs == 1 ? "run" : "runs");
        return EXIT_OK;
}

static void print_swept(const char *id, const struct guard_found *found, void *context) {
        (void)id;

        if (found->done == GUARD_PRUNED) {
                printf("removed what was kept of %s: too old, or too much in all\n", found->path);
                return;
        }

        ++*(size_t *)context;
        printf("swept ");
        print_text(found->path);
        printf("\n");
}

static int run_sweep(const struct call *call, struct err *err) {
        size_t swept = 0, left = 0;

        (void)call;
        if (guards_sweep_left(print_swept, &swept, &left, err) < 0)
                return EXIT_SYSTEM;

        printf("%zu %s moved away; %zu wait for sandboxes that run.\n", swept, swept == 1 ? "path was" : "paths were",
               left);
        return EXIT_OK;
}

static const struct verb verb_ls = {
        .name = "ls",
        .synopsis = "[OPTIONS] [ID]",
        .help = "list what is kept, of one run or of all",
        .tables = { &ls_table },
        .max_words = 1,
        .run = run_ls,
};

static const struct verb verb_restore = {
        .name = "restore",
        .synopsis = "ID [NAME]",
        .help = "put it back where it was",
        .about =
            "Puts back all that is kept of the run ID, or the one that NAME names: its number, or its path. Look at "
            "it first: programs outside obey what stands there.\n\n"
            "Exit code 0: done; 1: some could not be put back; 4: there is none.",
        .min_words = 1,
        .max_words = 2,
        .run = run_restore,
};

static const struct verb verb_rm = {
        .name = "rm",
        .synopsis = "ID|all",
        .help = "throw away what is kept of a run, or of all",
        .min_words = 1,
        .max_words = 1,
        .run = run_rm,
};

static const struct verb verb_sweep = {
        .name = "sweep",
        .synopsis = "",
        .help = "move away what runs that were killed left",
        .run = run_sweep,
};

static const struct verb *const subs[] = { &verb_ls, &verb_restore, &verb_rm, &verb_sweep, NULL };

const struct verb verb_kept = {
        .name = "kept",
        .group = GROUP_RUN,
        .synopsis = "[ls|restore|rm|sweep] ...",
        .help = "show what sandboxes made under protected names, and put it back",
        .about =
            "What a command makes under a name that programs outside obey (.git/hooks, .vscode, .envrc and others) "
            "is moved aside when the run ends. It is kept, outside every sandbox, until you put it back or throw "
            "it away, for 30 days and up to 1 GiB in all: when a run keeps something more, the oldest goes, and the "
            "run "
            "says so. Without a word after it, it lists what is kept.",
        .subs = subs,
        .tables = { &ls_table },
        .run = run_ls,
};
