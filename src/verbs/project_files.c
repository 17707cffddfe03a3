/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/project_files.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static const char *kind_name(mode_t mode) {
        switch (mode & S_IFMT) {
        case S_IFDIR:
                return "a directory";
        case S_IFIFO:
                return "a named pipe";
        case S_IFSOCK:
                return "a socket";
        default:
                return "a device";
        }
}

static int refuse_kind(const char *name, mode_t mode, struct err *err) {
        return err_set(err, EINVAL, "%s is %s, not a file; remove it or rename it, then try again", name,
                       kind_name(mode));
}

/* Examines the parent if it is no directory: in a second working tree .git is a file, and then there is nothing to
 * read. */
static int examine_parent(int directory_fd, const char *name, enum project_file *ret, struct err *err) {
        struct str parent = str_first(str_of(name), (size_t)str_find(str_of(name), '/'));
        cleanup(free_ptr) char *copy = str_dup(parent);
        struct stat st;

        if (!copy)
                return err_memory(err);
        if (fstatat(directory_fd, copy, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_errno(err, "cannot examine %s", copy);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return refuse_kind(copy, st.st_mode, err);

        *ret = PROJECT_FILE_NONE;
        return 0;
}

int project_file_examine(int directory_fd, const char *name, enum project_file *ret, struct err *err) {
        cleanup(close_fd) int fd =
            path_open_at(directory_fd, name, O_PATH | O_NOFOLLOW, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        struct stat st;

        if (fd == -ENOENT || fd == -ELOOP) {
                *ret = fd == -ELOOP ? PROJECT_FILE_LINK : PROJECT_FILE_NONE;
                return 0;
        }

        if (fd == -ENOTDIR && strchr(name, '/'))
                return examine_parent(directory_fd, name, ret, err);
        if (fd < 0)
                return err_set(err, -fd, "cannot examine %s: %s", name, strerror(-fd));

        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", name);
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
                return refuse_kind(name, st.st_mode, err);

        *ret = S_ISLNK(st.st_mode) ? PROJECT_FILE_LINK : PROJECT_FILE_REGULAR;
        return 0;
}

static int read_content(int fd, const char *name, struct buf *ret, struct err *err) {
        struct stat st;
        int r;

        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", name);
        if (!S_ISREG(st.st_mode)) /* it was another one a moment ago */
                return refuse_kind(name, st.st_mode, err);

        if (st.st_size > (off_t)ret->max)
                r = -EMSGSIZE;
        else
                r = fd_read_all(fd, ret);
        if (r == -EMSGSIZE)
                return err_set(err, EFBIG, "%s has more than %zu MiB: that is no project file", name, ret->max >> 20);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", name, strerror(-r));

        return 0;
}

int project_file_read(int directory_fd, const char *name, struct buf *ret_content, enum project_file *ret,
                      struct err *err) {
        int r;

        r = project_file_examine(directory_fd, name, ret, err);
        if (r < 0 || *ret != PROJECT_FILE_REGULAR)
                return r;

        cleanup(close_fd) int fd =
            path_open_at(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        if (fd < 0)
                return err_set(err, -fd, "cannot read %s: %s", name, strerror(-fd));

        return read_content(fd, name, ret_content, err);
}
