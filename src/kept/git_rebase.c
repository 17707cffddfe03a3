/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/git_rebase.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "kept/git_unfinished.h"
#include "kept/guard_slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct notes {
        struct guards *guards;
        const char *directory;
        int fd;
        uint64_t since_us; /* 0: all that is there is the sandbox's */
};

/* Where the sandbox may have written: by its policy, or by what its slot says. */
struct run_paths {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct plan_host *before;
        const struct slot *slot; /* NULL: the others are there */
};

static int move_away(struct guards *guards, const char *path) {
        struct err err = { 0 };
        int r = guards_move_away(guards, path, &err);

        if (r < 0)
                log_error("%s", err_text(&err));
        return r;
}

/* --- lines --- */

static int filter_lines(const struct unfinished_file *file, struct str text, struct buf *ret, size_t *ret_lines,
                        struct str *ret_first) {
        struct str line;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                if (file->harmless(line)) {
                        r = buf_append(ret, line);
                        if (r == 0)
                                r = buf_add(ret, "\n");
                        continue;
                }

                if (!(*ret_lines)++)
                        *ret_first = str_trim(line);
        }

        return r;
}

static int write_fresh(int dir, const char *name, const struct buf *text) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        return fd < 0 ? -errno : fd_write_all(fd, text->p, text->n);
}

/* The old file is kept whole: it may be a person's, who began to rebase meanwhile. It goes also if there is no room for
 * a new one. */
static int replace_file(const struct notes *notes, const struct unfinished_file *file, const char *path,
                        const struct buf *text) {
        char fresh[17]; /* not a name that the sandbox could have taken */
        int moved, r;

        random_id(fresh, sizeof fresh);
        r = write_fresh(notes->fd, fresh, text);
        moved = move_away(notes->guards, path);
        if (r == 0 && moved == 0 && renameat(notes->fd, fresh, notes->fd, file->name) < 0)
                r = -errno;
        if (r < 0 || moved < 0)
                (void)unlinkat(notes->fd, fresh, 0);

        return moved < 0 ? moved : r;
}

static int clean_text(const struct notes *notes, const struct unfinished_file *file, const char *path,
                      struct str text) {
        cleanup(buf_done) struct buf harmless = BUF(UNFINISHED_TEXT_MAX + 1);
        struct str first = { 0 };
        size_t lines = 0;
        int r;

        if (!file->by_line)
                return unfinished_harmless(file, text) ? 0 : move_away(notes->guards, path);

        r = filter_lines(file, text, &harmless, &lines, &first);
        if (r < 0 || lines == 0)
                return r;

        r = replace_file(notes, file, path, &harmless);
        if (r == 0 && notes->guards->left_out)
                notes->guards->left_out(path, lines, first, notes->guards->context);

        return r;
}

/* --- files --- */

/* What cannot be read, or is too large, or is no file: git did not write it. */
static int clean_file(const struct notes *notes, const struct unfinished_file *file, const char *path) {
        cleanup(buf_done) struct buf text = BUF(UNFINISHED_TEXT_MAX);
        cleanup(close_fd) int fd = -1;
        struct stat st;
        int r;

        if (fstatat(notes->fd, file->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!clock_is_since(&st, notes->since_us))
                return 0;
        if (!S_ISREG(st.st_mode))
                return move_away(notes->guards, path);

        fd = openat(notes->fd, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        r = fd < 0 ? -errno : fd_read_all(fd, &text);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return move_away(notes->guards, path);

        return clean_text(notes, file, path, buf_str(&text));
}

static int clean_files(const struct notes *notes, const char *name) {
        int failed = 0;

        for (size_t i = 0; i < unfinished_count; i++) {
                const struct unfinished_file *file = &unfinished_files[i];
                cleanup(free_ptr) char *path = path_join(notes->directory, file->name);

                if (strcmp(file->directory, name) != 0)
                        continue;

                int r = path ? clean_file(notes, file, path) : -ENOMEM;
                if (failed == 0)
                        failed = r;
        }

        /* Its rights may be such that nothing in it can be looked at or replaced. */
        return failed < 0 && failed != -ENOMEM ? move_away(notes->guards, notes->directory) : failed;
}

/* Git makes a directory. A link there is the sandbox's, and could lead to notes in the workspace. When the directory
 * itself came during the run, older files may have come with it. */
static int clean_notes(struct notes *notes, const char *name) {
        struct stat st;
        int r;

        if (lstat(notes->directory, &st) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;

        bool changed = clock_is_since(&st, notes->since_us);
        if (!S_ISDIR(st.st_mode))
                return changed ? move_away(notes->guards, notes->directory) : 0;
        if (changed)
                notes->since_us = 0;

        notes->fd = path_open_at(AT_FDCWD, notes->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, PATH_NO_SYMLINKS);
        if (notes->fd == -EACCES && changed)
                return move_away(notes->guards, notes->directory);
        if (notes->fd < 0)
                return notes->fd;

        r = clean_files(notes, name);
        close_fd(&notes->fd);
        return r;
}

/* --- repositories --- */

static bool was_there(const struct plan_host *before, const char *gitdir) {
        for (size_t i = 0; i < before->git_known.n; i++)
                if (strcmp(before->git_known.p[i], gitdir) == 0)
                        return true;
        return false;
}

/* By the rules, or because the survey opened this part of a repository. Files elsewhere that a pointer leads to are a
 * person's own. */
static bool sandbox_wrote(const struct run_paths *paths, const char *path) {
        const struct path_rule *rule = NULL;

        if (paths->slot)
                return true; /* it names repositories that could be written, and those that were made */
        if (guards_overlaid(paths->policy, path))
                return false;

        enum path_access access = path_rules_host_access(paths->rules, path, &rule);
        if (access == PATH_WRITE)
                return true;
        if (access == PATH_DENIED && !(rule && rule->own))
                return false;

        for (size_t i = 0; i < paths->before->paths.n; i++) {
                const struct plan_path *granted = &paths->before->paths.p[i];
                if (granted->grants && granted->access == PATH_WRITE && path_is_within(path, granted->path))
                        return true;
        }

        return false;
}

static const char *const notes_names[] = { "rebase-merge", "rebase-apply", "sequencer" };
enum { NOTES_NAMES = sizeof notes_names / sizeof *notes_names };

bool git_rebase_may_leave(const struct policy *policy, const struct path_rules *rules, const struct plan_host *host,
                          const char *gitdir) {
        const struct run_paths paths = { .policy = policy, .rules = rules, .before = host };

        for (size_t i = 0; i < NOTES_NAMES; i++) {
                cleanup(free_ptr) char *directory = path_join(gitdir, notes_names[i]);
                if (!directory || sandbox_wrote(&paths, directory))
                        return true;
        }

        return false;
}

static void clean_repository(struct guards *guards, const struct run_paths *paths, const char *gitdir,
                             uint64_t since_us) {
        struct stat st;

        if (lstat(gitdir, &st) == 0 && S_ISLNK(st.st_mode))
                return; /* where it leads is in the list as well */

        for (size_t i = 0; i < NOTES_NAMES; i++) {
                cleanup(free_ptr) char *directory = path_join(gitdir, notes_names[i]);
                struct notes notes = { .guards = guards, .directory = directory, .fd = -1, .since_us = since_us };
                int r = directory ? 0 : -ENOMEM;

                if (r == 0 && sandbox_wrote(paths, directory))
                        r = clean_notes(&notes, notes_names[i]);
                if (r < 0)
                        log_error("cannot clean what git has not finished in %s: %s. Do not continue it: use --abort",
                                  gitdir, strerror(-r));
        }
}

void git_rebase_end(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                    const struct plan_host *before, const struct plan_host *now) {
        const struct run_paths paths = { .policy = policy, .rules = rules, .before = before };
        struct slot slot;
        int r;

        for (size_t i = 0; i < before->git_known.n; i++)
                clean_repository(guards, &paths, before->git_known.p[i], guards->began_us);

        /* A search that hit a bound before the run may find repositories now that were there all the time. */
        for (size_t i = 0; i < now->git_known.n; i++)
                if (!was_there(before, now->git_known.p[i]))
                        clean_repository(guards, &paths, now->git_known.p[i], guards->began_us);

        r = guards_read_made(guards, &slot);
        if (r < 0)
                log_error("cannot read which repositories were made: %s", strerror(-r));

        for (size_t i = 0; i < slot.made.n; i++)
                if (!was_there(before, slot.made.p[i]))
                        clean_repository(guards, &paths, slot.made.p[i], 0);

        slot_done(&slot);
}

static bool slot_knows(const struct slot *slot, const char *gitdir) {
        for (size_t i = 0; i < slot->open.n; i++)
                if (strcmp(slot->open.p[i], gitdir) == 0)
                        return true;
        return false;
}

void git_rebase_left(struct guards *guards, const struct slot *slot) {
        const struct run_paths paths = { .slot = slot };

        for (size_t i = 0; i < slot->open.n; i++)
                clean_repository(guards, &paths, slot->open.p[i], slot->began_us);

        for (size_t i = 0; i < slot->made.n; i++)
                if (!slot_knows(slot, slot->made.p[i]))
                        clean_repository(guards, &paths, slot->made.p[i], 0);
}
