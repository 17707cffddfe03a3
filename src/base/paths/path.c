/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/path.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/account.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *home_of_account(void) {
        struct account account;

        if (account_by_uid(getuid(), &account))
                return strdup(account.home);

        return NULL;
}

const char *path_home(void) {
        static char *account; /* found once; kept for the life of the process */
        const char *home = getenv("HOME");
        if (home && home[0] == '/')
                return home;
        if (!account)
                account = home_of_account();
        return account;
}

static int make_dir(const char *path, struct err *err) {
        if (mkdir(path, 0700) == 0 || errno == EEXIST)
                return 0;

        return err_errno(err, "cannot create the directory %s", path);
}

int path_make_private_dir(const char *path, struct err *err) {
        cleanup(free_ptr) char *copy = strdup(path);
        if (!copy)
                return err_memory(err);
        if (!copy[0])
                return err_set(err, EINVAL, "the name of a directory is empty");

        for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
                copy[n - 1] = '\0'; /* a link followed by a slash would be followed */

        int r;

        /* Almost always it is there already; otherwise each directory on the way, so that the error names the right
         * one. */
        bool there = mkdir(copy, 0700) == 0 || errno == EEXIST;
        for (char *slash = copy + 1; !there && (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                r = make_dir(copy, err);
                if (r < 0)
                        return r;

                *slash = '/';
        }

        if (there)
                r = 0;
        else
                r = make_dir(copy, err);
        if (r < 0)
                return r;

        /* From here on by descriptor, so that what is examined is what is changed. */
        cleanup(close_fd) int fd = open(copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
                return err_set(err, ENOTDIR, "%s is not a directory (a link is not accepted here)", path);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        if (st.st_uid != geteuid())
                return err_set(err, EPERM, "%s belongs to another user (uid %u)", path, st.st_uid);
        if ((st.st_mode & 077) && fchmod(fd, 0700) < 0)
                return err_errno(err, "cannot close %s to other users", path);

        return 0;
}

int path_make_private_file(const char *path, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        struct stat st;

        if (fd < 0)
                return err_errno(err, "cannot open %s for writing", path);
        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot look at %s", path);
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077))
                return err_set(err, EPERM, "%s must be a file of yours that is closed to others (chmod 600 %s)", path,
                               path);

        return 0;
}

static int check_own_regular(int fd, const char *path, struct err *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "%s is not a regular file", path);
        if (st.st_uid != geteuid())
                return err_set(err, EPERM, "%s belongs to another user (uid %u)", path, st.st_uid);

        return 0;
}

int path_open_append(const char *path, mode_t mode, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd =
            open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
        if (fd < 0)
                return err_errno(err, "cannot open %s for appending", path);

        int r = check_own_regular(fd, path, err);
        if (r < 0)
                return r;

        *ret_fd = take_fd(&fd);
        return 0;
}

enum file_writing { WRITE_LASTING = 1, WRITE_NEW = 2 };

/* A hard link is made whole, and never over something. Where there are none, the name is taken first. */
static int place_new(const char *beside, const char *path) {
        if (link(beside, path) == 0)
                return unlink(beside);
        if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
                return -1;

        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -1;

        if (rename(beside, path) == 0)
                return 0;

        int error = errno;

        unlink(path); /* empty, and ours */
        errno = error;

        return -1;
}

static int replace_file(const char *path, struct str content, mode_t mode, unsigned how, struct err *err) {
        char suffix[9];

        random_id(suffix, sizeof suffix);
        cleanup(free_ptr) char *beside = str_format("%s.%s.tmp", path, suffix);
        if (!beside)
                return err_memory(err);

        cleanup(close_fd) int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return err_errno(err, "cannot create %s", beside);

        int r = fd_write_all(fd, content.p, content.n);
        if (r == 0 && (fchmod(fd, mode) < 0 || (how & WRITE_LASTING && fsync(fd) < 0)))
                r = -errno;
        if (r == 0 && (how & WRITE_NEW ? place_new(beside, path) : rename(beside, path)) < 0)
                r = -errno;

        if (r < 0) {
                unlink(beside);
                return err_set(err, -r, "cannot write %s: %s", path, strerror(-r));
        }

        return 0;
}

int path_replace_file(const char *path, struct str content, mode_t mode, struct err *err) {
        return replace_file(path, content, mode, WRITE_LASTING, err);
}

int path_create_file(const char *path, struct str content, mode_t mode, struct err *err) {
        return replace_file(path, content, mode, WRITE_LASTING | WRITE_NEW, err);
}

int path_replace_passing(const char *path, struct str content, mode_t mode, struct err *err) {
        return replace_file(path, content, mode, 0, err);
}

bool path_error_answers(int error) {
        switch (error) {
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case ENAMETOOLONG:
        case EACCES:
        case EPERM:
        case EINVAL:
        case EISDIR:
        case ENXIO:
        case ENODEV:
        case EXDEV:
        case EMSGSIZE: /* larger than asked for */
        case ENOTCONN: /* the server of a file system is gone, for everybody */
        case ESTALE:
                return true;
        default:
                return false;
        }
}

int path_read_file(const char *path, size_t max, struct buf *ret, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return err_errno(err, "cannot open %s", path);

        struct stat st;
        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "%s is not a regular file", path);

        cleanup(buf_done) struct buf content = BUF(max);
        int r = (size_t)st.st_size < max ? buf_reserve(&content, (size_t)st.st_size + 1) : 0; /* in one read */

        if (r >= 0)
                r = fd_read_all(fd, &content);
        if (r == -EMSGSIZE)
                return err_set(err, EMSGSIZE, "%s is larger than %zu bytes", path, max);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", path, strerror(-r));

        *ret = content;
        content = BUF(0);

        return 0;
}
