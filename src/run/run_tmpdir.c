/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_tmpdir.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct str prefix = STR("bailey-run-");

static const char *tmpdir_base(void) {
        const char *base = getenv("TMPDIR");
        return base && base[0] == '/' ? base : "/tmp";
}

static int lock_directory(int at, const char *name) {
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                int error = errno;

                close(fd);
                return -error;
        }

        return fd;
}

/* Ours, and nobody's any more. A directory has its name only once it is locked. */
static void sweep_one(int at, const char *name) {
        struct stat st;
        cleanup(close_fd) int lock = lock_directory(at, name);

        if (lock < 0 || fstat(lock, &st) < 0 || st.st_uid != geteuid())
                return;
        if (tree_remove(at, name) < 0)
                log_warning("cannot remove %s/%s, which a run that was killed left behind", tmpdir_base(), name);
}

static void sweep_all(const char *base) {
        DIR *dir = opendir(base);

        for (struct dirent *entry; dir && (entry = readdir(dir));)
                if (str_starts(str_of(entry->d_name), prefix))
                        sweep_one(dirfd(dir), entry->d_name);
        if (dir)
                closedir(dir);
}

int run_tmpdir_make(struct run_tmpdir *tmpdir, const char *id, struct err *err) {
        const char *base = tmpdir_base();
        cleanup(free_ptr) char *fresh = str_format("%s/bailey-new-%s", base, id);
        cleanup(free_ptr) char *path = str_format("%s/%.*s%s", base, STR_FMT(prefix), id);

        if (!fresh || !path)
                return err_memory(err);

        sweep_all(base);
        if (mkdir(fresh, 0700) < 0)
                return err_errno(err, "cannot make a directory for temporary files in %s", base);

        tmpdir->lock = lock_directory(AT_FDCWD, fresh);
        if (tmpdir->lock < 0 || rename(fresh, path) < 0) {
                int error = tmpdir->lock < 0 ? -tmpdir->lock : errno;

                (void)rmdir(fresh);
                close_fd(&tmpdir->lock);
                return err_set(err, error, "cannot make a directory for temporary files in %s: %s", base,
                               strerror(error));
        }

        tmpdir->path = take_ptr(&path);
        return 0;
}

void run_tmpdir_remove(struct run_tmpdir *tmpdir) {
        if (tmpdir->path && tree_remove(AT_FDCWD, tmpdir->path) < 0)
                log_error("cannot remove %s", tmpdir->path);
        free(tmpdir->path);
        tmpdir->path = NULL;
        close_fd(&tmpdir->lock);
}
