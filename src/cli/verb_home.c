/* SPDX-License-Identifier: Apache-2.0 */
/* bailey home: the homes that sandboxes have of their own. Everything in them was written by a sandbox: names are
 * escaped before they reach a terminal, and nothing is carried out that would be run outside unless a person insists.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "cli/verb.h"
#include "kept/homes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
        unsigned flag;
        const char *name, *text;
} marks[] = {
        { CHANGE_LINK_LEAVES, "link-leaves", "a link that leads out of the home" },
        { CHANGE_SPECIAL, "special", "a socket, fifo or device: is never exported" },
        { CHANGE_CONFLICT, "conflict", "the real home's own file changed meanwhile, or a whole directory would go" },
        { CHANGE_PROTECTED, "protected", "runs outside, or is obeyed there" },
        { CHANGE_SETID, "set-id", "set-id bits: are not exported" },
};
enum { N_MARKS = sizeof marks / sizeof marks[0] };

enum { JSON_FLAG, HOME_OPTIONS };
static const struct option json_rows[] = {
        [JSON_FLAG] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static const struct option_table json_table = { "Options", json_rows, HOME_OPTIONS };

static int status_of(int r) {
        if (r == -ENOENT)
                return EXIT_UNAVAILABLE;
        if (r == -EINVAL)
                return EXIT_USAGE;

        return EXIT_SYSTEM;
}

static void put_escaped(const char *text, const char *after) {
        cleanup(buf_done) struct buf out = BUF(65536);

        if (escape_text(&out, str_of(text), 4096) == 0)
                printf("%.*s%s", STR_FMT(buf_str(&out)), after);
}

/* The one that was named, or that of the directory we are in. */
static int find_home(const char *id, struct home_kept *ret, struct err *err) {
        cleanup(free_ptr) char *here = realpath(".", NULL);

        if (!here)
                return err_errno(err, "cannot tell the current directory");
        return homes_find(id, here, ret, err);
}

static void emit_home(struct emit *json, const struct home_kept *kept) {
        char when[CLOCK_TEXT_MAX];

        emit_put_text(json, "id", kept->id);
        emit_put_text(json, "workspace", kept->workspace);
        emit_put_text(json, "path", kept->files);
        clock_text(kept->used_us, when);
        emit_put_text(json, "used", when);
        emit_put_bool(json, "in_use", kept->in_use);
}

/* --- ls --- */

static int run_ls(const struct call *call, struct err *err) {
        cleanup(homes_done) homes all = { 0 };
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        struct emit json = emit_to(&out);

        if (homes_list(&all, err) < 0)
                return EXIT_SYSTEM;

        if (!option_get_flag(&call->options, &json_rows[JSON_FLAG])) {
                for (size_t i = 0; i < all.n; i++) {
                        char when[CLOCK_TEXT_MAX];

                        clock_text(all.p[i].used_us, when);
                        printf("%-36s  %.19s  %s", all.p[i].id, when, all.p[i].in_use ? "in use  " : "");
                        put_escaped(all.p[i].workspace, "\n");
                }

                return EXIT_OK;
        }

        emit_open(&json, '[');

        for (size_t i = 0; i < all.n; i++) {
                emit_open(&json, '{');
                emit_home(&json, &all.p[i]);
                emit_close(&json);
        }

        emit_close(&json);
        return verb_print_json(&json, &out, err);
}

/* --- show --- */

static int print_laid(const char *path, bool changed, void *context) {
        (void)context;
        printf("laid       ");
        put_escaped(path, changed ? "   (changed inside)\n" : "\n");
        return 0;
}

static int emit_laid(const char *path, bool changed, void *context) {
        struct emit *json = context;

        emit_open(json, '{');
        emit_put_text(json, "path", path);
        emit_put_bool(json, "changed", changed);
        emit_close(json);
        return 0;
}

static int show_json(const struct home_kept *kept, size_t n_changes, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        struct emit json = emit_to(&out);

        emit_open(&json, '{');
        emit_home(&json, kept);
        emit_put_number(&json, "changes", n_changes);
        emit_key(&json, "laid");
        emit_open(&json, '[');

        if (homes_laid(kept, emit_laid, &json, err) < 0)
                return EXIT_SYSTEM;

        emit_close(&json);
        emit_close(&json);

        return verb_print_json(&json, &out, err);
}

static int run_show(const struct call *call, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { 0 };
        cleanup(changes_done) struct changes changes = { 0 };
        char when[CLOCK_TEXT_MAX];
        int r;

        r = find_home(call->argc > 0 ? call->argv[0] : NULL, &kept, err);
        if (r == 0)
                r = homes_changes(&kept, &changes, err);
        if (r < 0)
                return status_of(r);
        if (option_get_flag(&call->options, &json_rows[JSON_FLAG]))
                return show_json(&kept, changes.list.n, err);

        clock_text(kept.used_us, when);
        printf("home       %s%s\nworkspace  ", kept.id, kept.in_use ? "   (in use)" : "");
        put_escaped(kept.workspace, "\npath       ");
        put_escaped(kept.files, "\n");
        printf("used       %.19s\nmade       %zu files and directories that the real home has not, or has otherwise "
               "(bailey home diff)\n",
               when, changes.list.n);

        return homes_laid(&kept, print_laid, NULL, err) < 0 ? EXIT_SYSTEM : EXIT_OK;
}

/* --- diff --- */

static void print_change(const struct change *change) {
        static const char letters[] = { [CHANGE_ADDED] = 'A', [CHANGE_MODIFIED] = 'M', [CHANGE_DELETED] = 'D' };
        bool directory = change->kind != CHANGE_DELETED && S_ISDIR(change->mode);

        printf("%c  ", letters[change->kind]);
        put_escaped(change->path, directory ? "/" : "");

        if (change->link_target) {
                printf(" -> ");
                put_escaped(change->link_target, "");
        }

        for (size_t i = 0; i < N_MARKS; i++)
                if (change->flags & marks[i].flag)
                        printf("   ! %s", marks[i].text);

        printf("\n");
}

static int diff_json(const struct home_kept *kept, const struct changes *changes, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(256 << 20);
        struct emit json = emit_to(&out);

        emit_open(&json, '{');
        emit_home(&json, kept);
        emit_key(&json, "changes");
        emit_open(&json, '[');

        for (size_t i = 0; i < changes->list.n; i++) {
                const struct change *change = &changes->list.p[i];

                emit_open(&json, '{');
                emit_put_text(&json, "path", change->path);
                emit_put_text(&json, "kind", change_kind_name(change->kind));
                emit_put_number(&json, "size", change->size);
                emit_key(&json, "marks");
                emit_open(&json, '[');

                for (size_t m = 0; m < N_MARKS; m++)
                        if (change->flags & marks[m].flag)
                                emit_text(&json, marks[m].name);

                emit_close(&json);
                emit_close(&json);
        }

        emit_close(&json);
        emit_close(&json);

        return verb_print_json(&json, &out, err);
}

static int run_diff(const struct call *call, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { 0 };
        cleanup(changes_done) struct changes changes = { 0 };
        int r;

        r = find_home(call->argc > 0 ? call->argv[0] : NULL, &kept, err);
        if (r == 0)
                r = homes_changes(&kept, &changes, err);
        if (r < 0)
                return status_of(r);
        if (option_get_flag(&call->options, &json_rows[JSON_FLAG]))
                return diff_json(&kept, &changes, err);

        for (size_t i = 0; i < changes.list.n; i++)
                print_change(&changes.list.p[i]);

        return EXIT_OK;
}

/* --- path, reset --- */

static int run_path(const struct call *call, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { 0 };
        int r = find_home(call->argc > 0 ? call->argv[0] : NULL, &kept, err);

        if (r < 0)
                return status_of(r);
        puts(kept.files);
        return EXIT_OK;
}

static int run_reset(const struct call *call, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { 0 };
        int r = find_home(call->argc > 0 ? call->argv[0] : NULL, &kept, err);

        if (r == 0)
                r = homes_remove(&kept, err);
        if (r < 0)
                return status_of(r);

        printf("The home %s is gone; the next run makes a new one.\n", kept.id);
        return EXIT_OK;
}

/* --- export --- */

enum { EXPORT_RISKY, EXPORT_HOME, EXPORT_OPTIONS };
static const struct option export_rows[] = {
        [EXPORT_RISKY] = { .flag = "risky",
                           .type = OPTION_FLAG,
                           .help = "export what is marked too: what runs outside, links that leave, conflicts" },
        [EXPORT_HOME] = { .flag = "home",
                          .type = OPTION_STRING,
                          .metavar = "ID",
                          .help = "from this home, not from that of the directory we are in" },
};
static const struct option_table export_table = { "Options", export_rows, EXPORT_OPTIONS };

/* A word as a person types it ("~/x", "/home/me/x", "x") as a path below the home. */
static int name_in_home(const char *word, char **ret, struct err *err) {
        const char *home = path_home();
        cleanup(free_ptr) char *expanded = NULL, *path = NULL;

        if (!home || path_expand_home(str_of(word), home, &expanded) < 0 ||
            path_normalise(str_of(expanded), home, &path) < 0 || strcmp(path, home) == 0 || !path_is_within(path, home))
                return err_set(err, EINVAL, "%s is no path below the home", word);

        *ret = str_dup(str_of(path + strlen(home) + 1));
        if (!*ret)
                return err_memory(err);

        return 0;
}

static bool is_above(const struct change *change, const char *name) {
        return change->kind == CHANGE_ADDED && S_ISDIR(change->mode) && path_is_within(name, change->path);
}

static int export_name(const struct home_kept *kept, const struct changes *changes, const char *name, bool take_all,
                       size_t *done, size_t *left, struct err *err) {
        const unsigned risky = CHANGE_LINK_LEAVES | CHANGE_CONFLICT | CHANGE_PROTECTED;
        bool found = false;

        for (size_t i = 0; i < changes->list.n; i++) {
                const struct change *change = &changes->list.p[i];
                bool wanted = path_is_within(change->path, name);
                if (!wanted && !is_above(change, name))
                        continue;

                found |= wanted;

                if ((change->flags & CHANGE_SPECIAL) || ((change->flags & risky) && !take_all)) {
                        print_change(change);
                        ++*left;
                        if (!wanted)
                                return 0; /* nothing below it can be exported either */
                        continue;
                }

                int r = homes_export(kept, change, err);
                if (r < 0)
                        return r;

                *done += wanted;
        }

        if (!found)
                return err_set(err, ENOENT, "%s: the home %s has nothing there that the real one has not", name,
                               kept->id);

        return 0;
}

static int run_export(const struct call *call, struct err *err) {
        cleanup(home_kept_done) struct home_kept kept = { 0 };
        cleanup(changes_done) struct changes changes = { 0 };
        cleanup(close_fd) int lock = -1;
        bool take_all = option_get_flag(&call->options, &export_rows[EXPORT_RISKY]);
        size_t done = 0, left = 0;
        int r;

        r = find_home(option_get(&call->options, &export_rows[EXPORT_HOME]), &kept, err);
        if (r == 0)
                r = homes_hold(&kept, &lock, err);
        if (r == 0)
                r = homes_changes(&kept, &changes, err);

        for (int i = 0; i < call->argc && r == 0; i++) {
                cleanup(free_ptr) char *name = NULL;

                r = name_in_home(call->argv[i], &name, err);
                if (r == 0)
                        r = export_name(&kept, &changes, name, take_all, &done, &left, err);
        }

        if (r < 0)
                return status_of(r);

        printf("%zu exported to the real home", done);
        if (left == 0)
                return puts(""), EXIT_OK;

        printf("; %zu left (above): look at them, then add --risky\n", left);
        return EXIT_NO;
}

/* --- the verbs --- */

static const struct verb verb_ls = {
        .name = "ls",
        .synopsis = "[--json]",
        .help = "list the homes that are kept",
        .tables = { &json_table },
        .run = run_ls,
};
static const struct verb verb_show = {
        .name = "show",
        .synopsis = "[--json] [ID]",
        .help = "say where a home is, whose it is and what Bailey laid into it",
        .tables = { &json_table },
        .max_words = 1,
        .run = run_show,
};
static const struct verb verb_home_diff = {
        .name = "diff",
        .synopsis = "[--json] [ID]",
        .help = "list what a home has that the real one has not",
        .about = "A added, M other than in the real home. What runs outside, or is obeyed there, is marked.",
        .tables = { &json_table },
        .max_words = 1,
        .run = run_diff,
};
static const struct verb verb_path = {
        .name = "path",
        .synopsis = "[ID]",
        .help = "print the directory that is $HOME inside",
        .max_words = 1,
        .run = run_path,
};
static const struct verb verb_reset = {
        .name = "reset",
        .synopsis = "[ID]",
        .help = "remove a home with all that is in it; the next run makes a new one",
        .max_words = 1,
        .run = run_reset,
};
static const struct verb verb_export = {
        .name = "export",
        .synopsis = "[OPTIONS] PATH...",
        .help = "carry files out of a home into the real one",
        .about = "PATH is a file or directory below the home, as it is named inside. Each file is written beside its "
                 "place and renamed; no link is followed. What would be run outside (shell start-up files, settings of "
                 "agents and editors, programs) is left out and listed unless --risky is given.\n\n"
                 "Exit code 0: all exported; 1: some were left; 4: there is no such home or path.",
        .tables = { &export_table },
        .min_words = 1,
        .max_words = -1,
        .run = run_export,
};
static const struct verb *const subs[] = { &verb_ls,     &verb_show, &verb_home_diff, &verb_path, &verb_reset,
                                           &verb_export, NULL };

const struct verb verb_home = {
        .name = "home",
        .group = GROUP_RUN,
        .synopsis = "ls|show|diff|path|reset|export ...",
        .help = "look at a sandbox's own home, and carry something out of it",
        .about = "A sandbox has a home of its own, one for each workspace (see --home in bailey-run(1)). ID is the "
                 "name of a home or its beginning, as bailey home ls prints it; without one it is the home of the "
                 "directory you are in.",
        .subs = subs,
};
