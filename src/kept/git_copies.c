/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/git_copies.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "kept/kept.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COPIES_MAX = 32, LOCK_TRIES = 100, LOCK_WAIT_MS = 20, NAME_SIZE = 32, LIST_MAX = COPIES_MAX * PATH_MAX };

static char *copies_top(void) {
        cleanup(free_ptr) char *state = NULL;

        return dirs_state(&state) < 0 ? NULL : path_join(state, "git");
}

static void copy_name(size_t number, char name[static NAME_SIZE]) {
        snprintf(name, NAME_SIZE, "%zu", number);
}

/* --- made --- */

/* Another sandbox made it, and it is swept when that one is over. */
static bool is_guarded_otherwise(const struct plan_host *host, const char *path) {
        for (size_t i = 0; i < host->paths.n; i++)
                if (host->paths.p[i].type == PLAN_PATH_MISSING && strcmp(host->paths.p[i].path, path) == 0)
                        return true;
        return false;
}

static int copies_open(struct git_copies *copies, const char *id) {
        cleanup(free_ptr) char *top = copies_top(), *path = top ? path_join(top, id) : NULL;

        if (!path || path_make_private_dir(path, NULL) < 0)
                return -ENOENT;
        copies->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return copies->dir < 0 ? -errno : 0;
}

static int read_real(struct git_copy *copy, struct stat *ret) {
        copy->held = open(copy->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (copy->held < 0 || fstat(copy->held, ret) < 0)
                return -errno;
        if (!S_ISREG(ret->st_mode) || ret->st_nlink != 1)
                return -EINVAL;

        return fd_read_all(copy->held, &copy->base);
}

static int copy_write(int dir, const char *name, const struct buf *text, mode_t mode, struct stat *ret) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return -errno;

        int r = fd_write_all(fd, text->p, text->n);
        if (r == 0 && (fchmod(fd, (mode & 0777) | 0600) < 0 || fstat(fd, ret) < 0))
                r = -errno;

        return r;
}

static void git_copy_done(struct git_copy *copy) {
        free(copy->path);
        close_fd(&copy->held);
        buf_done(&copy->base);
}

/* One that cannot be made is none: the configuration is read-only then. Only -ENOMEM is an error. */
static int make_one(struct git_copies *copies, const char *id, const char *directory, const char *path,
                    struct plan_host *host) {
        struct git_copy copy = { .path = strdup(path), .held = -1, .base = BUF(GIT_MERGE_TEXT_MAX) };
        struct stat real = { 0 }, made = { 0 };
        char name[NAME_SIZE];

        copy_name(copies->list.n, name);

        if (!copy.path || read_real(&copy, &real) < 0 ||
            copy_write(copies->dir, name, &copy.base, real.st_mode, &made) < 0) {
                git_copy_done(&copy);
                return copy.path ? 0 : -ENOMEM;
        }

        struct plan_host_copy shown = { .path = strdup(path),
                                        .source = str_format("%s/%s/%s", directory, id, name),
                                        .copy_dev = made.st_dev,
                                        .copy_ino = made.st_ino,
                                        .real_dev = real.st_dev,
                                        .real_ino = real.st_ino };

        if (vec_push(&copies->list, copy) < 0) {
                git_copy_done(&copy);
                return -ENOMEM;
        }

        return shown.path && shown.source ? vec_push(&host->copies, shown) : -ENOMEM;
}

/* After the copies: one that is younger than the list was changed inside. */
static int write_list(struct git_copies *copies) {
        cleanup(buf_done) struct buf text = BUF(LIST_MAX);
        int r = 0;

        for (size_t i = 0; i < copies->list.n && r == 0; i++)
                r = buf_append(&text, str_n(copies->list.p[i].path, strlen(copies->list.p[i].path) + 1));

        if (r < 0)
                return r;

        return lock_file_new(copies->dir, "list", buf_str(&text), &copies->lock);
}

int git_copies_make(struct git_copies *copies, const char *id, struct plan_host *host, struct err *err) {
        cleanup(free_ptr) char *top = copies_top();
        int r = 0;

        if (host->git_configs.n == 0 || !top || copies_open(copies, id) < 0)
                return 0;

        for (size_t i = 0; i < host->git_configs.n && copies->list.n < COPIES_MAX && r == 0; i++)
                if (!is_guarded_otherwise(host, host->git_configs.p[i]))
                        r = make_one(copies, id, top, host->git_configs.p[i], host);

        if (r == 0)
                r = write_list(copies);

        return r < 0 ? err_set(err, -r, "cannot make a copy of git's configuration: %s", strerror(-r)) : 0;
}

/* --- what is left out is kept --- */

/* Into the run's directory of kept files, as git-N-config; *ret_name is empty if there is no such directory. */
static bool keep_copy(const char *id, int dir, size_t number, const char *path, char ret_name[static NAME_SIZE + 16]) {
        cleanup(close_fd) int store = -1;
        char name[NAME_SIZE];

        ret_name[0] = '\0';
        copy_name(number, name);
        if (kept_open(id, &store, NULL) < 0)
                return false;

        snprintf(ret_name, NAME_SIZE + 16, "git-%s-config", name);
        if (tree_copy(dir, name, store, ret_name) < 0 || kept_record(store, ret_name, path) < 0)
                ret_name[0] = '\0';
        return ret_name[0];
}

/* Returns whether it is kept. */
static bool copies_tell(const struct git_copies_end *request, int dir, size_t number, struct git_copies_found found) {
        char kept[NAME_SIZE + 16];

        found.kept = keep_copy(found.id, dir, number, found.path, kept) ? kept : NULL;
        if (request->report)
                request->report(&found, request->context);
        return found.kept;
}

/* --- carried back --- */

struct target {
        int dir, lock, file;
        struct stat lock_stat;
        struct buf text;
};

static bool is_still_lock(const struct target *target) {
        struct stat st;

        if (fstatat(target->dir, "config.lock", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return !path_error_answers(errno);
        return st.st_ino == target->lock_stat.st_ino && st.st_dev == target->lock_stat.st_dev;
}

static void target_done(struct target *target) {
        if (target->lock >= 0 && is_still_lock(target))
                (void)unlinkat(target->dir, "config.lock", 0);
        close_fd(&target->file);
        close_fd(&target->lock);
        close_fd(&target->dir);
        buf_done(&target->text);
}

/* Git's own lock, waited for a little: its holder writes a small file. */
static int target_lock(struct target *target) {
        const struct timespec moment = { .tv_nsec = LOCK_WAIT_MS * 1000000L };

        for (int i = 0; i < LOCK_TRIES; i++) {
                target->lock =
                    openat(target->dir, "config.lock", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (target->lock >= 0 && fstat(target->lock, &target->lock_stat) == 0)
                        return 0;
                int failed = errno;
                if (target->lock >= 0) {
                        (void)unlinkat(target->dir, "config.lock", 0); /* made just now, and never known again */
                        close_fd(&target->lock);
                        return -failed;
                }
                if (failed != EEXIST)
                        return -failed;

                (void)nanosleep(&moment, NULL);
        }

        return -EEXIST;
}

/* No link is followed: the path was canonical when the run began. */
static int target_open(struct target *target, const char *path) {
        cleanup(free_ptr) char *directory = str_dup(str_n(path, (size_t)(strrchr(path, '/') - path)));
        struct stat st;
        int r;

        if (!directory)
                return -ENOMEM;

        target->dir = path_open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, PATH_NO_SYMLINKS);
        if (target->dir < 0)
                return target->dir;

        r = target_lock(target);
        if (r < 0)
                return r;

        target->file = openat(target->dir, "config", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (target->file < 0 || fstat(target->file, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
                return -EINVAL;

        return fd_read_all(target->file, &target->text);
}

/* Most changes are additions: then what is there is not touched at all. */
static int target_write(const struct target *target, const struct buf *text) {
        size_t from = str_starts(buf_str(text), buf_str(&target->text)) ? target->text.n : 0;

        if (lseek(target->file, (off_t)from, SEEK_SET) < 0)
                return -errno;
        int r = fd_write_all(target->file, text->p + from, text->n - from);
        return r == 0 && ftruncate(target->file, (off_t)text->n) < 0 ? -errno : r;
}

static const char *copies_reason(int r) {
        switch (r) {
        case -EEXIST:
                return "config.lock was there all the time";
        case -EBADMSG:
        case -E2BIG:
        case -EMSGSIZE:
                return "it is no configuration that can be merged";
        case -ENOENT:
                return "the configuration is not there any more";
        case -EINVAL:
                return "the configuration is not an ordinary file any more";
        default:
                return strerror(-r);
        }
}

/* False: what was changed inside is neither carried back nor kept. */
static bool carry_back(const struct git_copies *copies, size_t number, struct str inside,
                       const struct git_copies_end *request) {
        const struct git_copy *copy = &copies->list.p[number];
        cleanup(
            target_done) struct target target = { .dir = -1, .lock = -1, .file = -1, .text = BUF(GIT_MERGE_TEXT_MAX) };
        cleanup(buf_done) struct buf merged = BUF(2 * GIT_MERGE_TEXT_MAX);
        cleanup(git_lefts_done) git_lefts left = { 0 };
        bool changed = false;
        int r = target_open(&target, copy->path);

        if (r == 0) {
                const struct git_merge merge = { .base = buf_str(&copy->base),
                                                 .inside = inside,
                                                 .host = buf_str(&target.text),
                                                 .may_reach = request->may_reach,
                                                 .context = request->context };
                r = git_merge(&merge, &merged, &changed, &left);
        }

        if (r == 0 && changed)
                r = target_write(&target, &merged);

        if (r < 0)
                return copies_tell(
                    request, copies->dir, number,
                    (struct git_copies_found){ .id = request->id, .path = copy->path, .why = copies_reason(r) });
        if (left.n)
                return copies_tell(request, copies->dir, number,
                                   (struct git_copies_found){ .id = request->id, .path = copy->path, .left = &left });
        return true;
}

static bool end_one(const struct git_copies *copies, size_t number, const struct git_copies_end *request) {
        cleanup(buf_done) struct buf inside = BUF(GIT_MERGE_TEXT_MAX);
        char name[NAME_SIZE];

        copy_name(number, name);
        cleanup(close_fd) int fd = openat(copies->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd_read_all(fd, &inside);
        if (r < 0)
                return copies_tell(request, copies->dir, number,
                                   (struct git_copies_found){ .id = request->id,
                                                              .path = copies->list.p[number].path,
                                                              .why = copies_reason(r) });
        if (str_eq(buf_str(&inside), buf_str(&copies->list.p[number].base)))
                return true;
        return carry_back(copies, number, buf_str(&inside), request);
}

static void remove_dir(const char *id) {
        cleanup(free_ptr) char *top = copies_top();
        cleanup(close_fd) int fd = top ? open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

        if (fd >= 0)
                (void)tree_remove(fd, id);
}

void git_copies_end(struct git_copies *copies, const struct git_copies_end *request) {
        if (copies->dir < 0)
                return;
        bool settled = true;
        for (size_t i = 0; i < copies->list.n; i++)
                settled &= end_one(copies, i, request);
        if (settled)
                remove_dir(request->id); /* else the next run keeps it */
        close_fd(&copies->dir);
        close_fd(&copies->lock);
}

void git_copies_done(struct git_copies *copies) {
        for (size_t i = 0; i < copies->list.n; i++)
                git_copy_done(&copies->list.p[i]);
        vec_done(&copies->list);
        close_fd(&copies->lock);
        close_fd(&copies->dir);
}

/* --- of runs that were killed --- */

static bool is_younger(const struct stat *a, const struct stat *b) {
        if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
                return a->st_mtim.tv_sec > b->st_mtim.tv_sec;
        return a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

static void sweep_run(int top, const char *id, const struct git_copies_end *request) {
        cleanup(close_fd) int dir = openat(top, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        cleanup(close_fd) int list = dir < 0 ? -1 : openat(dir, "list", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        cleanup(buf_done) struct buf text = BUF(LIST_MAX);
        struct stat made, st;
        struct str rest, path;

        if (list < 0 || flock(list, LOCK_EX | LOCK_NB) < 0 || fstat(list, &made) < 0 || fd_read_all(list, &text) < 0)
                return;

        bool settled = true;
        rest = buf_str(&text);
        for (size_t i = 0; str_split(&rest, '\0', &path) && path.n; i++) {
                char name[NAME_SIZE];

                copy_name(i, name);

                if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_younger(&st, &made))
                        settled &= copies_tell(
                            request, dir, i,
                            (struct git_copies_found){ .id = id, .path = path.p, .why = "the run was killed" });
        }

        if (settled)
                (void)tree_remove(top, id);
}

void git_copies_sweep(git_copies_report *report, void *context) {
        const struct git_copies_end request = { .report = report, .context = context };
        cleanup(free_ptr) char *path = copies_top();
        cleanup(close_fd) int top = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        DIR *dir = path && top >= 0 ? opendir(path) : NULL;

        if (!dir)
                return;

        for (struct dirent *entry; (entry = readdir(dir));)
                if (entry->d_name[0] != '.')
                        sweep_run(top, entry->d_name, &request);

        closedir(dir);
}
