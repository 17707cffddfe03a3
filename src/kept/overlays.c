/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/overlays.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "kept/git_unfinished.h"
#include "policy/paths/deep_settings.h"
#include "policy/paths/paths.h"
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INFO_MAX = 8192, DENIED_MAX = 16 << 20 };

void overlay_run_done(struct overlay_run *run) {
        free(run->id);
        free(run->directory);
        free(run->upper);
        free(run->work);
        free(run->workspace);

        if (run->directory || run->lock > 0)
                close_fd(&run->lock);

        *run = (struct overlay_run){ .lock = -1 };
}

void overlay_runs_done(overlay_runs *r) {
        for (size_t i = 0; i < r->n; i++)
                overlay_run_done(&r->p[i]);
        vec_done(r);
}

static int top_directory(char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        if (dirs_state(&state) < 0)
                return err_set(err, ENOENT, "there is no home directory to keep overlays in");
        *ret = path_join(state, "overlays");
        return *ret ? 0 : err_memory(err);
}

static int name_places(const char *top, const char *id, struct overlay_run *run, struct err *err) {
        *run = (struct overlay_run){ .id = strdup(id), .directory = path_join(top, id), .lock = -1 };
        if (run->directory) {
                run->upper = path_join(run->directory, "upper");
                run->work = path_join(run->directory, "work");
        }
        return run->id && run->upper && run->work ? 0 : err_memory(err);
}

/* The kernel's option text has its own meaning for these. */
static int check_spelling(const char *path, struct err *err) {
        if (!strpbrk(path, ":,\\"))
                return 0;
        return err_set(err, EINVAL, "--overlay cannot be used with %s: its path has a colon, comma or backslash in it",
                       path);
}

static int write_info(struct overlay_run *run, struct err *err) {
        cleanup(free_ptr) char *path = path_join(run->directory, "info");
        cleanup(free_ptr) char *text = str_format("%" PRIu64 "\n%s", run->began_us, run->workspace);
        if (!path || !text)
                return err_memory(err);

        int s = lock_file_new(AT_FDCWD, path, str_of(text), &run->lock);
        return s < 0 ? err_set(err, -s, "cannot write %s: %s", path, strerror(-s)) : 0;
}

/* What a person's policy closes. Inside, a path that does not exist may be made: nothing of it is on the host yet. */
static int write_denied(const struct overlay_run *run, const struct path_rules *rules, struct err *err) {
        cleanup(free_ptr) char *path = path_join(run->directory, "denied");
        cleanup(buf_done) struct buf text = BUF(DENIED_MAX);
        int s = 0;

        if (!path)
                return err_memory(err);

        for (size_t i = 0; i < path_rules_count(rules) && s == 0; i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (!rule->built_in && !rule->grants && !rule->own)
                        s = buf_append(&text, str_n(rule->pattern, strlen(rule->pattern) + 1));
        }

        if (s < 0)
                return err_set(err, -s, "cannot note what the policy closes in %s", run->directory);

        return path_replace_file(path, buf_str(&text), 0600, err);
}

int overlays_new(const char *id, const char *workspace, const struct path_rules *rules, struct overlay_run *ret,
                 struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        cleanup(overlay_run_done) struct overlay_run run = { .lock = -1 };
        int s = top_directory(&top, err);
        if (s == 0)
                s = name_places(top, id, &run, err);
        if (s == 0)
                s = check_spelling(workspace, err);
        if (s == 0)
                s = check_spelling(run.upper, err);
        if (s == 0)
                s = path_make_private_dir(run.directory, err);
        if (s < 0)
                return s;
        if (mkdir(run.upper, 0755) < 0 || mkdir(run.work, 0700) < 0)
                return err_errno(err, "cannot make the overlay in %s", run.directory);

        run.began_us = clock_wall_us();
        run.workspace = strdup(workspace);
        s = run.workspace ? write_denied(&run, rules, err) : err_memory(err);
        if (s == 0)
                s = write_info(&run, err);
        if (s == 0) {
                *ret = run;
                run = (struct overlay_run){ .lock = -1 };
        }

        return s;
}

/* -ENOENT for something that is no overlay of ours. */
static int read_info(struct overlay_run *run, struct err *err) {
        cleanup(free_ptr) char *path = path_join(run->directory, "info");
        cleanup(buf_done) struct buf text = BUF(0);

        if (!path)
                return err_memory(err);

        int s = path_read_file(path, INFO_MAX, &text, err);
        if (s < 0)
                return s;

        struct str rest = buf_str(&text), first;
        if (!str_split(&rest, '\n', &first) || !str_to_u64(first, UINT64_MAX, &run->began_us) || rest.n == 0)
                return err_set(err, EINVAL, "%s is damaged; remove %s by hand", path, run->directory);

        run->workspace = str_dup(rest);
        return run->workspace ? 0 : err_memory(err);
}

static int by_start(const void *a, const void *b) {
        const struct overlay_run *left = a, *right = b;
        return left->began_us < right->began_us ? -1 : left->began_us > right->began_us;
}

int overlays_list(overlay_runs *ret, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        int s = top_directory(&top, err);
        if (s < 0)
                return s;

        DIR *dir = opendir(top);
        if (!dir)
                return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", top);

        for (struct dirent *entry; s == 0 && (entry = readdir(dir));) {
                if (entry->d_name[0] == '.')
                        continue;

                struct overlay_run r = { .lock = -1 };
                s = name_places(top, entry->d_name, &r, err);
                if (s == 0)
                        s = read_info(&r, err);
                if (s == 0)
                        s = vec_push(ret, r) < 0 ? err_memory(err) : 0;
                if (s < 0)
                        overlay_run_done(&r);
                if (s == -ENOENT)
                        s = 0; /* one that is being made, or whose making failed */
        }

        closedir(dir);
        if (s == 0 && ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, by_start);

        return s;
}

static bool overlays_fits(const struct overlay_run *run, const char *id, const char *workspace) {
        return id ? str_starts(str_of(run->id), str_of(id)) : strcmp(run->workspace, workspace) == 0;
}

int overlays_find(const char *id, const char *workspace, struct overlay_run *ret, struct err *err) {
        cleanup(overlay_runs_done) overlay_runs all = { 0 };
        int s = overlays_list(&all, err);
        if (s < 0)
                return s;

        struct overlay_run *found = NULL;

        for (size_t i = 0; i < all.n; i++) {
                if (!overlays_fits(&all.p[i], id, workspace))
                        continue;
                if (found && id)
                        return err_set(err, EINVAL, "more than one overlay begins with %s; see bailey diff --list", id);
                found = &all.p[i];
        }

        if (!found && id)
                return err_set(err, ENOENT, "there is no overlay %s; see bailey diff --list", id);
        if (!found)
                return err_set(err, ENOENT, "no run with --overlay has left changes for %s", workspace);

        cleanup(free_ptr) char *info = path_join(found->directory, "info");
        if (!info)
                return err_memory(err);

        found->lock = open(info, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (found->lock < 0)
                return err_errno(err, "cannot open %s", info);
        if (flock(found->lock, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EBUSY, "the sandbox %s is still running", found->id);

        *ret = *found;
        *found = (struct overlay_run){ .lock = -1 };

        return 0;
}

int overlays_remove(struct overlay_run *run, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        int s = top_directory(&top, err);
        if (s < 0)
                return s;
        cleanup(close_fd) int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        s = fd < 0 ? -errno : tree_remove(fd, run->id);
        return s < 0 ? err_set(err, -s, "cannot remove %s: %s", run->directory, strerror(-s)) : 0;
}

/* Paths that must not be changed without a second look: by the rules, and by the workspace's content. */
struct marks {
        const char *workspace, *upper;
        struct path_rules *rules;
        struct plan_host host;
};

static void marks_done(struct marks *marks) {
        survey_done(&marks->host);
        path_rules_free(marks->rules);
}

/* A repository that the sandbox made is no different from one that was there. */
static bool is_of_repository(const char *path, enum overlay_act act) {
        static const char *const closed[] = { "hooks", "config", "config.worktree", "commondir", "gitdir" };
        const char *git = strstr(path, "/.git");
        struct str rest, part;

        if (!git || act == OVERLAY_DELETES)
                return false;
        if (git[5] == '\0')
                return act == OVERLAY_REPLACES;
        if (git[5] != '/')
                return is_of_repository(git + 5, act);

        rest = str_of(git + 6);
        while (str_split(&rest, '/', &part))
                for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
                        if (str_is(part, closed[i]))
                                return true;

        return false;
}

static bool has_name(const char *top, const char *rest, size_t n, const char *name) {
        char path[PATH_MAX];
        struct stat st;
        int length = snprintf(path, sizeof path, "%s%.*s/%s", top, (int)n, rest, name);

        return length < (int)sizeof path && lstat(path, &st) == 0;
}

/* Whether git would obey the directory, whatever its name, as a repository or as the common part of one. Existing files
 * and those of the overlay count together, since some changes may be applied alone. */
static bool is_repository(const struct marks *marks, const char *rest, size_t n, bool with_upper) {
        static const char *const names[] = { "HEAD", "objects", "refs", "commondir" };
        enum { HEAD, OBJECTS, REFS, COMMONDIR, NAMES };
        bool has[NAMES];

        for (size_t i = 0; i < NAMES; i++)
                has[i] = has_name(marks->workspace, rest, n, names[i]) ||
                         (with_upper && has_name(marks->upper, rest, n, names[i]));

        return (has[HEAD] && (has[OBJECTS] || has[COMMONDIR])) || (has[OBJECTS] && has[REFS]);
}

static bool is_one_of(struct str name, const char *const *names) {
        for (; *names; names++)
                if (str_is(name, *names))
                        return true;
        return false;
}

/* Repositories without `.git` in their path: bare ones, and those that a file leads to, however deep they lie. A
 * directory that becomes one brings its configuration with it. */
static bool is_of_bare_repository(const struct marks *marks, const char *path, enum overlay_act act) {
        static const char *const obeyed[] = { "hooks",  "config",  "config.worktree", "commondir",
                                              "gitdir", "remotes", "branches",        NULL };
        static const char *const founding[] = { "HEAD", "objects", "refs", NULL };
        const char *rest = path + strlen(marks->workspace);

        if (act == OVERLAY_DELETES || !path_is_within(path, marks->workspace))
                return false;

        for (const char *slash = rest; *slash == '/';) {
                size_t length = strcspn(slash + 1, "/"), n = (size_t)(slash - rest);
                struct str name = str_n(slash + 1, length);
                bool last = slash[1 + length] == '\0';

                if (is_one_of(name, obeyed) && is_repository(marks, rest, n, true))
                        return true;

                if (last && is_one_of(name, founding) && !strstr(path, "/.git/") &&
                    !is_repository(marks, rest, n, false) && is_repository(marks, rest, n, true))
                        return true;

                slash += 1 + length;
        }

        return false;
}

/* --- what git has not finished --- */

/* What cannot be read, is too large or no file was not written by git. */
static bool is_harmless_file(const struct marks *marks, const char *rest, const struct unfinished_file *file) {
        cleanup(free_ptr) char *path = path_join(marks->upper, rest + 1);
        cleanup(buf_done) struct buf text = BUF(UNFINISHED_TEXT_MAX);
        cleanup(close_fd) int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, &text) < 0)
                return false;

        return unfinished_harmless(file, buf_str(&text));
}

/* In a directory of notes of git's: what makes git run a program or write a file when somebody continues. */
static bool is_of_unfinished(const struct marks *marks, const char *path, enum overlay_act act) {
        const char *rest = path + strlen(marks->workspace), *name, *directory;

        if (act != OVERLAY_REPLACES || !path_is_within(path, marks->workspace) || *rest != '/')
                return false;

        name = strrchr(rest, '/') + 1;
        if (unfinished_directory(str_of(name))) /* a link, or a file: git makes a directory */
                return is_repository(marks, rest, (size_t)(name - 1 - rest), true);
        if (name - 1 == rest)
                return false;

        for (directory = name - 2; *directory != '/';)
                directory--;

        for (size_t i = 0; i < unfinished_count; i++) {
                const struct unfinished_file *file = &unfinished_files[i];

                if (strcmp(name, file->name) == 0 &&
                    str_is(str_n(directory + 1, (size_t)(name - 2 - directory)), file->directory))
                        return is_repository(marks, rest, (size_t)(directory - rest), true) &&
                               !is_harmless_file(marks, rest, file);
        }

        return false;
}

static bool is_below(const char *path, const char *above) {
        return strcmp(path, above) != 0 && path_is_within(path, above);
}

static bool overlays_closes(const struct marks *marks, const char *path, enum overlay_act act) {
        for (size_t i = 0; i < marks->host.paths.n; i++) {
                const struct plan_path *plan_path = &marks->host.paths.p[i];
                bool itself = plan_path->type == PLAN_PATH_LINK ? strcmp(path, plan_path->path) == 0
                                                                : path_is_within(path, plan_path->path);

                if (plan_path->access == PATH_WRITE || plan_path->grants)
                        continue;
                if (itself)
                        return true;

                /* Replacing a directory by something else removes its content and decides what is found below it. */
                if (act == OVERLAY_REPLACES && is_below(plan_path->path, path))
                        return true;
                if (act == OVERLAY_DELETES && plan_path->type != PLAN_PATH_MISSING && is_below(plan_path->path, path))
                        return true;
        }

        return false;
}

/* Settings of agents below the top. They may be removed. */
static bool is_of_settings(const struct marks *marks, const char *path, enum overlay_act act) {
        size_t from = strlen(marks->workspace);
        struct deep_found found;

        if (act == OVERLAY_DELETES || !path_is_within(path, marks->workspace))
                return false;

        return deep_settings_find(path, from, &found) || (act == OVERLAY_REPLACES && deep_settings_begins(path, from));
}

static bool is_protected(const char *path, enum overlay_act act, void *context) {
        const struct marks *marks = context;

        return path_rules_access(marks->rules, path, NULL) != PATH_WRITE || is_of_repository(path, act) ||
               is_of_bare_repository(marks, path, act) || is_of_unfinished(marks, path, act) ||
               is_of_settings(marks, path, act) || overlays_closes(marks, path, act);
}

/* An overlay of an older Bailey has no such list. */
static int read_denied(const struct overlay_run *run, struct buf *text, origin_texts *ret, struct err *err) {
        static char origin[] = "policy of the run";
        cleanup(free_ptr) char *path = run->directory ? path_join(run->directory, "denied") : NULL;
        struct str rest, pattern;

        if (!run->directory)
                return 0;
        if (!path)
                return err_memory(err);
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return 0;

        int s = path_read_file(path, DENIED_MAX, text, err);
        if (s < 0)
                return s;
        if (text->n && text->p[text->n - 1] != '\0')
                return err_set(err, EINVAL, "%s is damaged; remove %s by hand", path, run->directory);

        rest = buf_str(text);
        while (str_split(&rest, '\0', &pattern) && pattern.n) {
                const struct origin_text one = { .text = (char *)pattern.p, .origin = origin };
                if (vec_push(ret, one) < 0)
                        return err_memory(err);
        }

        return 0;
}

static int overlays_mark(const struct overlay_run *run, const origin_texts *denied, struct changes *ret,
                         struct err *err) {
        const struct policy plain = { .mode = MODE_WORKSPACE_WRITE,
                                      .workspace = run->workspace,
                                      .home = (char *)path_home(),
                                      .filesystem.deny_write = *denied };
        cleanup(marks_done) struct marks marks = { .workspace = run->workspace, .upper = run->upper };
        int s = path_rules_compile(&plain, &marks.rules, err);
        if (s == 0)
                s = survey_host(&plain, marks.rules, NULL, &marks.host, err);
        if (s < 0)
                return s;

        const struct overlay_dirs dirs = { run->workspace, run->upper, run->began_us, run->plain };
        return overlay_scan(&dirs, is_protected, &marks, ret, err);
}

int overlays_changes(const struct overlay_run *run, struct changes *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(DENIED_MAX);
        origin_texts denied = { 0 };
        int s = read_denied(run, &text, &denied, err);

        if (s == 0)
                s = overlays_mark(run, &denied, ret, err);
        vec_done(&denied);
        return s;
}

static struct overlay_dirs overlays_dirs(const struct overlay_run *run) {
        return (struct overlay_dirs){ run->workspace, run->upper, run->began_us, run->plain };
}

int overlays_begin(const struct overlay_run *run, struct err *err) {
        const struct overlay_dirs dirs = overlays_dirs(run);
        return overlay_unveil(&dirs, err);
}

int overlays_end(const struct overlay_run *run, struct err *err) {
        const struct overlay_dirs dirs = overlays_dirs(run);
        return overlay_prune(&dirs, err);
}

int overlays_apply(const struct overlay_run *run, const struct change *change, struct err *err) {
        const struct overlay_dirs dirs = overlays_dirs(run);
        int s = overlay_apply(&dirs, change, err);

        if (s < 0)
                return s;

        return overlay_forget(&dirs, change, err);
}

void overlays_finish(struct overlay_run *r) {
        cleanup(changes_done) struct changes c = { 0 };
        struct err e = { 0 };

        if (!r->directory)
                return;

        int s = overlays_changes(r, &c, &e);
        if (s == 0 && c.list.n == 0)
                s = overlays_remove(r, &e);
        else if (s == 0)
                log_notice("%zu %s kept apart from %s: bailey diff %s, then bailey apply or discard", c.list.n,
                           c.list.n == 1 ? "change is" : "changes are", r->workspace, r->id);

        if (s < 0)
                log_error("%s", err_text(&e));

        overlay_run_done(r);
}
