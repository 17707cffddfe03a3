/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which home a run has, and its life: found by name, made where it is not there, locked while it is used. Launches do
 * this every time, so the common case, a home that is there, takes a few calls and no list of directories.
 */
#include "kept/home.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"
#include "conf/dirs.h"
#include "kept/home_internal.h"
#include "policy/home_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLUG_LENGTH = 24, HASH_LENGTH = 12, OPEN_TRIES = 8 };

int home_top(char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r;

        r = dirs_state(&state);
        if (r == -ENOENT)
                return err_set(
                    err, ENOENT,
                    "there is no place to keep the sandbox's own home: neither HOME nor XDG_STATE_HOME names "
                    "a directory");

        if (r < 0)
                return err_memory(err);

        *ret = path_join(state, "homes");
        return *ret ? 0 : err_memory(err);
}

char *home_id_of_workspace(const char *workspace) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX], slug[SLUG_LENGTH + 1];
        struct str base = path_basename(workspace);
        size_t n = 0;

        for (; n < base.n && n < SLUG_LENGTH; n++)
                slug[n] = ascii_is_alnum(base.p[n]) ? base.p[n] : '-';

        slug[n] = '\0';

        digest_sha256(str_of(workspace), digest);
        digest_hex(digest, hex);

        return str_format("%s.%.*s", n ? slug : "root", HASH_LENGTH, hex);
}

static char *home_id(const struct policy *policy, const char *run_id) {
        switch (home_kind(policy)) {
        case HOME_NAMED:
                return str_dup(str_of(policy->filesystem.home));
        case HOME_FORGOTTEN:
                return str_format(HOME_RUN_PREFIX "%s", run_id);
        default:
                return home_id_of_workspace(policy->workspace);
        }
}

static void home_clear(struct home *home) {
        for (size_t i = 0; i < home->records.n; i++) {
                free(home->records.p[i].path);
                free(home->records.p[i].key);
        }

        vec_done(&home->records);
        free(home->id);
        free(home->directory);
        free(home->files);
        close_fd(&home->fd);
        close_fd(&home->files_fd);
        close_fd(&home->lock);
        close_fd(&home->cache_lock);
        *home = HOME_NONE;
}

int home_name(const struct policy *policy, const char *run_id, struct home *ret, struct err *err) {
        cleanup(free_ptr) char *top = NULL;
        struct home home = HOME_NONE;
        int r;

        if (!home_is_own(policy)) {
                *ret = home;
                return 0;
        }

        r = home_top(&top, err);
        if (r < 0)
                return r;

        home.id = home_id(policy, run_id);
        home.directory = home.id ? path_join(top, home.id) : NULL;
        home.files = home.directory ? path_join(home.directory, "files") : NULL;
        home.forgotten = home_kind(policy) == HOME_FORGOTTEN;
        if (!home.files) {
                home_clear(&home);
                return err_memory(err);
        }

        *ret = home;
        return 0;
}

/* The directory must be ours: it decides what is shown as $HOME. */
static int home_open_directory(const char *path, int *ret, struct err *err) {
        struct stat st;
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot open the sandbox's own home %s", path);

        if (st.st_uid != geteuid())
                return err_set(err, EPERM, "the sandbox's own home %s belongs to another user (uid %u)", path,
                               st.st_uid);

        *ret = take_fd(&fd);
        return 0;
}

static int home_make_inside(struct home *home, struct err *err) {
        static const char *const directories[] = { "files", "caches" };

        for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
                if (mkdirat(home->fd, directories[i], 0700) < 0 && errno != EEXIST)
                        return err_errno(err, "cannot make the sandbox's own home %s", home->directory);
        return 0;
}

static int home_write_info(const struct home *home, const char *workspace, struct err *err) {
        cleanup(free_ptr) char *path = path_join(home->directory, "info");

        if (!path)
                return err_memory(err);
        return path_replace_file(path, str_of(home->forgotten ? "" : workspace), 0600, err);
}

/* Held by every run. A process that removes a home holds the lock exclusively, and has moved the directory by the time
 * we get it. */
static int home_take_lock(struct home *home, struct err *err) {
        struct stat there, opened;
        cleanup(close_fd) int fd = openat(home->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return err_errno(err, "cannot lock the sandbox's own home %s", home->directory);
        if (flock(fd, LOCK_SH) < 0) /* an exclusive holder has it for a moment only */
                return err_errno(err, "cannot lock the sandbox's own home %s", home->directory);

        if (stat(home->directory, &there) < 0 || fstat(home->fd, &opened) < 0 || there.st_ino != opened.st_ino ||
            there.st_dev != opened.st_dev)
                return -EAGAIN;

        home->lock = take_fd(&fd);
        return 0;
}

/* -EAGAIN when somebody removed it meanwhile. */
static int home_open_once(struct home *home, const char *workspace, struct err *err) {
        int r;

        if (access(home->files, F_OK) < 0) {
                home->fresh = true;
                r = path_make_private_dir(home->directory, err);
                if (r < 0)
                        return r;
        }

        r = home_open_directory(home->directory, &home->fd, err);
        if (r < 0)
                return r == -ENOENT ? -EAGAIN : r;

        r = home_take_lock(home, err);
        if (r < 0)
                return r == -ENOENT ? -EAGAIN : r;

        if (home->fresh) {
                r = home_make_inside(home, err);
                if (r < 0)
                        return r;

                r = home_write_info(home, workspace, err);
                if (r < 0)
                        return r;
        }

        r = home_open_directory(home->files, &home->files_fd, err);
        if (r < 0)
                return r;

        /* Sources of mounts are given without links, and HOME may be one. */
        char *real = realpath(home->files, NULL);
        if (!real)
                return err_errno(err, "cannot find %s", home->files);

        free(home->files);
        home->files = real;

        return 0;
}

int home_open(const struct policy *policy, const char *run_id, struct home *ret, struct err *err) {
        cleanup(home_clear) struct home home = HOME_NONE;
        int r;

        r = home_name(policy, run_id, &home, err);
        if (r < 0)
                return r;

        if (home.directory) {
                if (home.forgotten)
                        home_sweep();

                r = -EAGAIN;
                for (int tries = 0; tries < OPEN_TRIES && r == -EAGAIN; tries++) {
                        close_fd(&home.fd);
                        close_fd(&home.lock);
                        r = home_open_once(&home, policy->workspace, err);
                }

                if (r == -EAGAIN)
                        return err_set(err, EBUSY, "the sandbox's own home %s keeps being removed by somebody else",
                                       home.directory);

                if (r < 0)
                        return r;

                r = home_read_records(&home, err);
                if (r < 0)
                        return r;
        }

        *ret = home;
        home = HOME_NONE;

        return 0;
}

int home_remove(const char *id, struct err *err) {
        cleanup(free_ptr) char *top = NULL, *directory = NULL;
        int r;

        r = home_top(&top, err);
        if (r < 0)
                return r;

        directory = path_join(top, id);
        if (!directory)
                return err_memory(err);

        cleanup(close_fd) int fd = -1;
        r = home_open_directory(directory, &fd, err);
        if (r < 0)
                return r;

        cleanup(close_fd) int lock = openat(fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock < 0)
                return err_errno(err, "cannot lock the home %s", id);

        if (flock(lock, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EBUSY, "the home %s is in use by a sandbox that runs; end it first (bailey ps)",
                               id);

        /* First out of the way: a run that begins now makes a new one and never sees a half. */
        cleanup(free_ptr) char *aside = str_format("%s/" HOME_RUN_PREFIX "gone-%s-%d", top, id, (int)getpid());
        if (!aside)
                return err_memory(err);
        if (rename(directory, aside) < 0)
                return err_errno(err, "cannot remove the home %s", id);

        close_fd(&lock);

        r = tree_remove(AT_FDCWD, aside);
        return r < 0 ? err_set(err, -r, "cannot remove all of the home %s: %s", id, strerror(-r)) : 0;
}

void home_close(struct home *home) {
        struct err err = { 0 };
        cleanup(free_ptr) char *id = NULL;

        if (home->directory && home->lock >= 0 && home->forgotten) {
                id = take_ptr(&home->id);
                close_fd(&home->cache_lock);
                close_fd(&home->lock);

                if (id && home_remove(id, &err) < 0)
                        log_warning("%s", err_text(&err));
        }

        home_clear(home);
}
