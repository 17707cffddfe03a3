/* SPDX-License-Identifier: Apache-2.0 */
/* bailey diff, apply, discard: what a run with --overlay changed, and what becomes of it. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/paths/path.h"
#include "cli/verb.h"
#include "kept/overlays.h"
#include "run/run_home_news.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const struct {
        unsigned flag;
        const char *name, *text;
} marks[] = {
        { CHANGE_LINK_LEAVES, "link-leaves", "a link that leads out of the workspace" },
        { CHANGE_SPECIAL, "special", "a socket, fifo or device: is never applied" },
        { CHANGE_CONFLICT, "conflict", "the workspace's own file changed meanwhile" },
        { CHANGE_PROTECTED, "protected", "a protected path" },
        { CHANGE_SETID, "set-id", "set-id bits: are not applied" },
};
enum { N_MARKS = sizeof marks / sizeof marks[0] };

static int not_found(int r) {
        if (r == -ENOENT)
                return EXIT_UNAVAILABLE;

        if (r == -EINVAL)
                return EXIT_USAGE;

        return EXIT_SYSTEM;
}

/* The run that was named, or the newest of the directory we are in. */
static int open_run(const struct call *call, struct overlay_run *ret, struct err *err) {
        cleanup(free_ptr) char *here = realpath(".", NULL);
        if (!here)
                return err_errno(err, "cannot tell the current directory");
        return overlays_find(call->argc > 0 ? call->argv[0] : NULL, here, ret, err);
}

static void print_change(const struct change *change) {
        cleanup(buf_done) struct buf line = BUF(65536);
        static const char letters[] = { [CHANGE_ADDED] = 'A', [CHANGE_MODIFIED] = 'M', [CHANGE_DELETED] = 'D' };
        int r = buf_printf(&line, "%c  ", letters[change->kind]);
        if (r == 0)
                r = escape_text(&line, str_of(change->path), 4096);
        if (r == 0 && change->kind != CHANGE_DELETED && S_ISDIR(change->mode))
                r = buf_add(&line, "/");

        if (r == 0 && change->link_target) {
                r = buf_add(&line, " -> ");
                if (r == 0)
                        r = escape_text(&line, str_of(change->link_target), 4096);
        }

        for (size_t i = 0; i < N_MARKS && r == 0; i++)
                if (change->flags & marks[i].flag)
                        r = buf_printf(&line, "   ! %s", marks[i].text);

        if (r == 0)
                printf("%.*s\n", STR_FMT(buf_str(&line)));
}

static int print_json(const struct overlay_run *run, const struct changes *changes, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(256 << 20);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "id", run->id);
        emit_put_text(&j, "workspace", run->workspace);
        emit_put_text(&j, "upper", run->upper);
        emit_key(&j, "changes");
        emit_open(&j, '[');

        for (size_t i = 0; i < changes->list.n; i++) {
                const struct change *change = &changes->list.p[i];

                emit_open(&j, '{');
                emit_put_text(&j, "path", change->path);
                emit_put_text(&j, "kind", change_kind_name(change->kind));
                emit_put_number(&j, "size", change->size);
                emit_key(&j, "marks");
                emit_open(&j, '[');

                for (size_t m = 0; m < N_MARKS; m++)
                        if (change->flags & marks[m].flag)
                                emit_text(&j, marks[m].name);

                emit_close(&j);
                emit_close(&j);
        }

        emit_close(&j);
        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

static int print_list(struct err *err) {
        cleanup(overlay_runs_done) overlay_runs all = { 0 };
        if (overlays_list(&all, err) < 0)
                return EXIT_SYSTEM;

        for (size_t i = 0; i < all.n; i++) {
                char when[CLOCK_TEXT_MAX];

                clock_text(all.p[i].began_us, when);
                cleanup(buf_done) struct buf place = BUF(65536);
                if (escape_text(&place, str_of(all.p[i].workspace), 4096) == 0)
                        printf("%s  %.19s  %.*s\n", all.p[i].id, when, STR_FMT(buf_str(&place)));
        }

        return EXIT_OK;
}

enum { DIFF_JSON, DIFF_LIST, DIFF_OPTIONS };
static const struct option diff_rows[] = {
        [DIFF_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
        [DIFF_LIST] = { .flag = "list", .type = OPTION_FLAG, .help = "list the runs whose changes are kept" },
};
static const struct option_table diff_table = { "Options", diff_rows, DIFF_OPTIONS };

static int run_diff(const struct call *call, struct err *err) {
        cleanup(overlay_run_done) struct overlay_run run = { .lock = -1 };
        cleanup(changes_done) struct changes changes = { 0 };

        if (option_get_flag(&call->options, &diff_rows[DIFF_LIST]))
                return print_list(err);

        int r = open_run(call, &run, err);
        if (r == 0)
                r = overlays_changes(&run, &changes, err);
        if (r < 0)
                return not_found(r);
        if (option_get_flag(&call->options, &diff_rows[DIFF_JSON]))
                return print_json(&run, &changes, err);

        for (size_t i = 0; i < changes.list.n; i++)
                print_change(&changes.list.p[i]);

        printf("%zu %s by %s. The new contents are in %s\n", changes.list.n, changes.list.n == 1 ? "change" : "changes",
               run.id, run.upper);
        return EXIT_OK;
}

enum { APPLY_RISKY, APPLY_OPTIONS };
static const struct option apply_rows[] = {
        [APPLY_RISKY] = { .flag = "risky",
                          .type = OPTION_FLAG,
                          .help = "apply what is marked too: protected paths, links that leave, conflicts" },
};
static const struct option_table apply_table = { "Options", apply_rows, APPLY_OPTIONS };

/* A directory that its owner may not change: what is below it comes first. */
static bool is_closed_directory(const struct change *change) {
        return change->kind != CHANGE_DELETED && S_ISDIR(change->mode) && (change->mode & S_IRWXU) != S_IRWXU;
}

static bool is_applied(const struct change *change, bool take_all) {
        const unsigned risky = CHANGE_LINK_LEAVES | CHANGE_CONFLICT | CHANGE_PROTECTED;

        return !(change->flags & CHANGE_SPECIAL) && (take_all || !(change->flags & risky));
}

static int apply_one(const struct overlay_run *run, const struct change *change, struct err *err) {
        struct change open_one = *change;

        if (is_closed_directory(change))
                open_one.mode |= S_IRWXU;
        return overlays_apply(run, &open_one, err);
}

/* From the innermost to the outermost. */
static int close_directories(const struct overlay_run *run, const struct changes *changes, bool take_all,
                             struct err *err) {
        int r = 0;

        for (size_t i = changes->list.n; i-- > 0 && r == 0;) {
                struct change last = changes->list.p[i];

                if (!is_closed_directory(&last) || !is_applied(&last, take_all))
                        continue;

                last.kind = CHANGE_MODIFIED;
                r = overlays_apply(run, &last, err);
        }

        return r;
}

/* If it fails, what was applied stays; the rest is still in the overlay. */
static int apply_changes(const struct overlay_run *run, const struct changes *changes, bool take_all, size_t *left,
                         struct err *err) {
        int r = overlays_begin(run, err);

        for (size_t i = 0; r == 0 && i < changes->list.n; i++) {
                const struct change *change = &changes->list.p[i];

                if (!is_applied(change, take_all)) {
                        print_change(change);
                        (*left)++;
                        continue;
                }

                r = apply_one(run, change, err);
        }

        if (r == 0)
                r = close_directories(run, changes, take_all, err);

        if (r < 0) {
                struct err second = { 0 };

                (void)overlays_end(run, &second); /* the first error is the one to tell */
                return r;
        }

        return overlays_end(run, err);
}

static int run_apply(const struct call *call, struct err *err) {
        enum { FILE_TICK_US = 10000 }; /* a file's time may be that much behind the clock */
        cleanup(overlay_run_done) struct overlay_run run = { .lock = -1 };
        cleanup(changes_done) struct changes changes = { 0 };
        bool take_all = option_get_flag(&call->options, &apply_rows[APPLY_RISKY]);
        uint64_t since_us;
        size_t left = 0;
        int r = open_run(call, &run, err);
        if (r == 0)
                r = overlays_changes(&run, &changes, err);
        if (r < 0)
                return not_found(r);

        since_us = clock_wall_us() - FILE_TICK_US;
        r = apply_changes(&run, &changes, take_all, &left, err);
        run_env_tell(run.workspace, since_us);
        if (r < 0)
                return EXIT_SYSTEM;

        size_t done = changes.list.n - left;

        printf("%zu %s applied to %s", done, done == 1 ? "change" : "changes", run.workspace);

        if (left == 0)
                return overlays_remove(&run, err) < 0 ? EXIT_SYSTEM
                                                      : (puts("; nothing is left of the overlay"), EXIT_OK);

        printf("; %zu left (above): look at them, then bailey apply --risky or bailey discard\n", left);
        return EXIT_NO;
}

static int run_discard(const struct call *call, struct err *err) {
        cleanup(overlay_run_done) struct overlay_run run = { .lock = -1 };
        int r = open_run(call, &run, err);
        if (r == 0)
                r = overlays_remove(&run, err);
        if (r < 0)
                return not_found(r);

        printf("What was left of the changes of %s is gone.\n", run.id);
        return EXIT_OK;
}

const struct verb verb_diff = {
        .name = "diff",
        .group = GROUP_RUN,
        .synopsis = "[OPTIONS] [ID]",
        .help = "show what a run with --overlay changed",
        .about = "Lists the changes of the newest run with --overlay in this directory, or of the run ID: A added, M "
                 "modified, "
                 "D deleted. What deserves a second look is marked with an exclamation mark.\n\n"
                 "Exit code 0: shown; 4: there is none.",
        .tables = { &diff_table },
        .max_words = 1,
        .run = run_diff,
};

const struct verb verb_apply = {
        .name = "apply",
        .group = GROUP_RUN,
        .synopsis = "[OPTIONS] [ID]",
        .help = "carry what a run with --overlay changed into the workspace",
        .about = "Each file is written beside its place and renamed; no link is followed. Marked changes are left out "
                 "and listed "
                 "unless --risky is given; sockets, fifos and devices are never applied.\n\n"
                 "Exit code 0: all applied, and the overlay is gone; 1: some were left; 4: there is no overlay.",
        .tables = { &apply_table },
        .max_words = 1,
        .run = run_apply,
};

const struct verb verb_discard = {
        .name = "discard",
        .group = GROUP_RUN,
        .synopsis = "[ID]",
        .help = "throw away what a run with --overlay changed",
        .about = "Removes the overlay of the newest run in this directory, or of the run ID.\n\n"
                 "Exit code 0: done; 4: there is none.",
        .max_words = 1,
        .run = run_discard,
};
