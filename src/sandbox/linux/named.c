/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/named.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GUARDS_BYTES_MAX = 8 << 20, CONFIG_MAX = 8 << 20, LOOKS_MAX = 8 };
enum {
        OF_FILE = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF,
        OF_DIRECTORY = IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR,
};

#define EVERY_NAME ""

/* --- the places --- */

typedef int named_visit(struct named *named, const char *path);

static int visit_joined(struct named *named, char *path, named_visit *visit) {
        int r = path ? visit(named, path) : -ENOMEM;

        free(path);
        return r;
}

static int each_of_host(struct named *named, const struct plan_host *host, named_visit *file, named_visit *hooks) {
        int r = 0;

        for (size_t i = 0; i < host->git_files.n && r == 0; i++) {
                const char *path = host->git_files.p[i];

                r = visit_joined(named, strndup(path, strcspn(path, "\n")), file);
        }

        for (size_t i = 0; i < host->git_hooks.n && r == 0; i++)
                r = hooks(named, host->git_hooks.p[i]);

        return r;
}

/* Every file that git reads as its configuration, and every directory of hooks; the first error ends it. */
static int each_place(struct named *named, named_visit *file, named_visit *hooks) {
        int r = each_of_host(named, named->before, file, hooks);

        if (r == 0)
                r = each_of_host(named, &named->now, file, hooks);

        for (size_t i = 0; i < named->before->git_known.n && r == 0; i++)
                r = visit_joined(named, path_join(named->before->git_known.p[i], "hooks"), hooks);

        return r;
}

/* --- the watch --- */

static bool is_awaited(const struct named *named, int wd, const char *name) {
        for (size_t i = 0; i < named->awaited.n; i++)
                if (named->awaited.p[i].wd == wd && strcmp(named->awaited.p[i].name, name) == 0)
                        return true;
        return false;
}

/* A directory, for this name in it; EVERY_NAME: for all of them. */
static int watch_directory(struct named *named, const char *dir, const char *name) {
        int wd = inotify_add_watch(named->watch, dir, OF_DIRECTORY);
        cleanup(free_ptr) char *copy = NULL;

        if (wd < 0)
                return -errno;
        if (is_awaited(named, wd, name))
                return 0;

        copy = strdup(name);
        if (!copy || vec_push(&named->awaited, ((struct named_awaited){ wd, copy })) < 0)
                return -ENOMEM;

        take_ptr(&copy);
        return 0;
}

/* The nearest directory above that exists, unless the sandbox itself makes files there: then each of them would be a
 * record, and the end of the run has to do. */
static int watch_above(struct named *named, const char *path) {
        cleanup(free_ptr) char *dir = strdup(path);

        if (!dir)
                return -ENOMEM;

        for (char *slash; (slash = strrchr(dir, '/'));) {
                const char *above = slash == dir ? "/" : dir;
                int r;

                *slash = '\0';
                if (path_rules_host_access(named->rules, above, NULL) == PATH_WRITE)
                        return 0;

                r = watch_directory(named, above, slash + 1);
                if (r == 0 || !path_error_answers(-r))
                        return r;
        }

        return 0;
}

/* Git obeys it where `config` beside it says so. Its directory is one that git inside writes to with every command. */
static bool is_unused_worktree_config(const char *path) {
        cleanup(buf_done) struct buf content = BUF(CONFIG_MAX);
        cleanup(free_ptr) char *config = NULL;
        size_t n = strlen(path), suffix = sizeof ".worktree" - 1;

        if (n <= suffix || strcmp(path + n - suffix, ".worktree") != 0)
                return false;

        config = strndup(path, n - suffix);
        if (!config || path_read_file(config, CONFIG_MAX, &content, NULL) < 0)
                return false;

        return !content.p || buf_append(&content, str_n("", 1)) < 0 || !strcasestr(content.p, "worktreeconfig");
}

static int watch_missing(struct named *named, const char *path) {
        char *slash = strrchr(path, '/');
        cleanup(free_ptr) char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;

        if (str_ends(str_of(path), STR("/config.worktree"))) {
                if (is_unused_worktree_config(path) || !dir)
                        return 0;

                int r = watch_directory(named, dir, slash + 1);
                if (path_error_answers(-r))
                        return 0;

                return r;
        }

        return watch_above(named, path);
}

static int watch_link(const struct named *named, const char *path) {
        struct stat st;

        if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) &&
            inotify_add_watch(named->watch, path, OF_FILE | IN_DONT_FOLLOW) < 0 && !path_error_answers(errno))
                return -errno;
        return 0;
}

/* The file, and where it is a link the link itself. Both are the host's: what is closed, the sandbox cannot change. */
static int watch_file(struct named *named, const char *path) {
        int r = watch_link(named, path);

        if (r < 0)
                return r;
        if (inotify_add_watch(named->watch, path, OF_FILE) >= 0)
                return 0;
        if (!path_error_answers(errno))
                return -errno;

        return watch_missing(named, path);
}

/* A hook may become a link, and so may the directory itself. */
static int watch_hooks(struct named *named, const char *path) {
        int r = watch_link(named, path);

        if (r < 0)
                return r;

        r = watch_directory(named, path, EVERY_NAME);
        if (path_error_answers(-r))
                return 0;

        return r;
}

/* Again and again: a file that was replaced is another one. If it cannot be had for all of them, it says too little:
 * the sandbox may have used up the watches of this user. */
static void keep_watch(struct named *named) {
        if (named->watch >= 0 && each_place(named, watch_file, watch_hooks) < 0)
                close_fd(&named->watch);
}

/* Names that nobody waits for, in a directory that the sandbox may write to, are none. */
static bool record_counts(const struct named *named, const struct inotify_event *record) {
        bool is_directory = false;

        if (record->mask & ~(uint32_t)(IN_CREATE | IN_MOVED_TO | IN_ISDIR) || record->len == 0)
                return true;

        for (size_t i = 0; i < named->awaited.n; i++)
                is_directory |= named->awaited.p[i].wd == record->wd;

        return !is_directory || is_awaited(named, record->wd, EVERY_NAME) ||
               is_awaited(named, record->wd, record->name);
}

/* Reads them all. Whether one of them counts. */
static bool read_records(const struct named *named) {
        _Alignas(struct inotify_event) char records[16384];
        bool counts = false;

        for (ssize_t n; (n = read(named->watch, records, sizeof records)) > 0;) {
                for (const char *at = records; at < records + n;) {
                        const struct inotify_event *record = (const void *)at;

                        counts |= record_counts(named, record);
                        at += sizeof *record + record->len;
                }
        }

        return counts;
}

static int stamp_place(struct named *named, const char *path) {
        return stamps_add(&named->stamps, path);
}

/* Without a watch. What changes while it looks, differs at the next question. */
static bool stamps_tell(struct named *named) {
        struct stamps before = named->stamps;
        bool same;

        stamps_begin(&named->stamps);
        same = each_place(named, stamp_place, stamp_place) == 0 && stamps_same(&before, &named->stamps);

        stamps_done(&before);
        return !same;
}

static bool has_changed(struct named *named) {
        if (named->watch >= 0)
                return read_records(named);

        return stamps_tell(named);
}

/* --- what is named --- */

/* With an overlay nothing that is written in the workspace reaches the host. */
static bool in_overlay(const struct named *named, const char *path) {
        return named->policy->filesystem.overlay && path_is_within(path, named->policy->workspace);
}

static bool is_told(const struct named *named, const struct plan_path *path) {
        for (size_t i = 0; i < named->now.paths.n; i++)
                if (named->now.paths.p[i].type == path->type && strcmp(named->now.paths.p[i].path, path->path) == 0)
                        return true;
        return false;
}

static bool same_texts(char *const *one, size_t n_one, char *const *other, size_t n_other) {
        if (n_one != n_other)
                return false;

        for (size_t i = 0; i < n_one; i++)
                if (strcmp(one[i], other[i]) != 0)
                        return false;
        return true;
}

static bool same_places(const struct plan_host *one, const struct plan_host *other) {
        return same_texts(one->git_files.p, one->git_files.n, other->git_files.p, other->git_files.n) &&
               same_texts(one->git_hooks.p, one->git_hooks.n, other->git_hooks.p, other->git_hooks.n);
}

/* Takes what is new out of it. 1: it named other places than before. */
static int named_merge(struct named *named, struct plan_host *found) {
        for (size_t i = 0; i < found->paths.n; i++) {
                struct plan_path *path = &found->paths.p[i];

                if (is_told(named, path) || in_overlay(named, path->path))
                        continue;
                if (vec_push(&named->now.paths, *path) < 0)
                        return -ENOMEM;
                path->path = path->link = NULL;
        }

        bool other = !same_places(&named->now, found);
        struct plan_host old = named->now;

        memcpy(&named->now.git_files, &found->git_files, sizeof old.git_files);
        memcpy(&found->git_files, &old.git_files, sizeof old.git_files);
        memcpy(&named->now.git_hooks, &found->git_hooks, sizeof old.git_hooks);
        memcpy(&found->git_hooks, &old.git_hooks, sizeof old.git_hooks);
        named->now.git_incomplete |= found->git_incomplete;

        return other;
}

/* 1: it named other places than before. */
static int look_once(struct named *named, struct err *err) {
        struct plan_host found = { 0 };
        int r = survey_git_named(named->policy, named->rules, named->before, &found, err);

        if (r == 0) {
                r = named_merge(named, &found);
                if (r < 0)
                        err_memory(err);
        }

        survey_done(&found);
        return r;
}

/* What was not watched while it was read is read once more. */
static int named_look(struct named *named, struct err *err) {
        int r = 1;

        for (int i = 0; i < LOOKS_MAX && r > 0; i++) {
                r = look_once(named, err);
                if (r > 0)
                        keep_watch(named);
        }

        if (r > 0)
                return err_set(err, EAGAIN, "git's configuration changes all the time");

        return r;
}

static int write_entry(struct buf *out, char kind, const char *path, const char *link) {
        int r = buf_append(out, str_n(&kind, 1));

        if (r == 0)
                r = buf_append(out, str_n(path, strlen(path) + 1));
        if (r == 0)
                r = buf_append(out, str_n(link, strlen(link) + 1));
        return r;
}

/* What a person named for writing, below the place. */
static int write_openings(const struct named *named, const struct plan_path *place, struct buf *ret) {
        int r = 0;

        for (size_t i = 0; i < named->before->paths.n && r == 0; i++) {
                const struct plan_path *path = &named->before->paths.p[i];

                if (path->grants && path->access == PATH_WRITE && path->type != PLAN_PATH_MISSING &&
                    strcmp(path->path, place->path) != 0 && path_is_within(path->path, place->path))
                        r = write_entry(ret, NAMED_OPENING, path->path, "");
        }

        return r;
}

static int write_guards(const struct named *named, struct buf *ret) {
        static const char kinds[] = { [PLAN_PATH_MISSING] = '0' + PLAN_GUARD_MISSING,
                                      [PLAN_PATH_DIR] = '0' + PLAN_GUARD_DIR,
                                      [PLAN_PATH_FILE] = '0' + PLAN_GUARD_FILE,
                                      [PLAN_PATH_LINK] = '0' + PLAN_GUARD_LINK };
        int r = 0;

        for (size_t i = named->told; i < named->now.paths.n && r == 0; i++) {
                const struct plan_path *path = &named->now.paths.p[i];

                r = write_entry(ret, kinds[path->type], path->path, text_or(path->link, ""));
                if (r == 0)
                        r = write_openings(named, path, ret);
        }

        return r;
}

static int named_file(const struct named *named, int *ret_fd) {
        cleanup(buf_done) struct buf guards = BUF(GUARDS_BYTES_MAX);
        cleanup(close_fd) int fd = memfd_create("guards", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : write_guards(named, &guards);

        if (r == 0)
                r = fd_write_all(fd, guards.p, guards.n);
        if (r == 0)
                *ret_fd = take_fd(&fd);
        return r;
}

/* At the first question, unless there are too many watches for this user. */
static bool named_begin(struct named *named) {
        if (named->asked)
                return false;

        named->asked = true;
        named->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        keep_watch(named);

        return named->watch >= 0;
}

/* What is named by now, unless the broker knows all of it. */
static int answer_guards(struct named *named, enum named_answer *ret, int *ret_fd, struct err *err) {
        bool watched = named->watch >= 0;
        int r;

        if (!has_changed(named) && named->looked && named->now.paths.n == named->told)
                return 0;
        keep_watch(named);

        r = named_look(named, err);
        if (r < 0)
                return r;
        named->looked = true;

        if (watched && named->watch < 0) {
                *ret = NAMED_UNWATCHED;
                return 0;
        }

        if (named->now.paths.n == named->told)
                return 0;

        r = named_file(named, ret_fd);
        if (r < 0)
                return err_set(err, -r, "cannot tell the sandbox's broker what is closed: %s", strerror(-r));

        named->telling = named->now.paths.n;
        *ret = NAMED_MORE;
        return 0;
}

int named_answer(struct named *named, enum named_answer *ret, int *ret_fd, struct err *err) {
        int r;

        *ret_fd = -1;
        *ret = NAMED_NOTHING;
        named->told = named->telling; /* the broker asks again: what was sent has arrived */

        if (named_begin(named)) {
                *ret_fd = named->watch;
                *ret = NAMED_WATCH;
                return 0;
        }

        r = answer_guards(named, ret, ret_fd, err);
        if (r < 0) {
                *ret = NAMED_FAILED;
                named_again(named);
        }

        return r;
}

static void awaited_done(struct named *named) {
        for (size_t i = 0; i < named->awaited.n; i++)
                free(named->awaited.p[i].name);
        vec_done(&named->awaited);
}

void named_again(struct named *named) {
        close_fd(&named->watch);
        named->asked = named->looked = false;
        stamps_done(&named->stamps);
        named->stamps = (struct stamps){ 0 };
        awaited_done(named);
        named->telling = named->told;
}

void named_done(struct named *named) {
        close_fd(&named->watch);
        awaited_done(named);
        survey_done(&named->now);
        stamps_done(&named->stamps);
}
