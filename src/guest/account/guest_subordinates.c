/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_subordinates.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "guest/account/guest_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 100, LINES_MAX = 16 << 20 };

int guest_subordinate_add(const char *host, uint32_t uid, uint32_t gid, struct err *err) {
        char users[32], groups[32];

        if (strcmp(host, "root") == 0)
                return 0;

        snprintf(users, sizeof users, "%u-%u", uid, uid);
        snprintf(groups, sizeof groups, "%u-%u", gid, gid);
        char *const argv[] = {
                (char *)"usermod", (char *)"--add-subuids", users, (char *)"--add-subgids", groups, (char *)host, NULL
        };

        return guest_tool_run(&(struct guest_tool){ .argv = argv, .package = "passwd" }, err);
}

/*
 * The locks of the tools of the package passwd. Each tool first takes the one of lckpwdf(3), which ends with its
 * process; while we hold it, none of them, and no other of us, takes or removes the second.
 */
static int accounts_lock(int *ret_fd, struct err *err) {
        const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
        struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        cleanup(close_fd) int fd = open("/etc/.pwd.lock", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return err_errno(err, "cannot open /etc/.pwd.lock");

        for (unsigned i = 0; i < LOCK_TRIES; i++) {
                if (fcntl(fd, F_SETLK, &whole) == 0) {
                        *ret_fd = take_fd(&fd);
                        return 0;
                }
                if (errno != EAGAIN && errno != EACCES)
                        return err_errno(err, "cannot lock /etc/.pwd.lock");
                nanosleep(&pause, NULL);
        }

        return err_set(err, EBUSY, "/etc/.pwd.lock is held: another program changes accounts");
}

/*
 * The second: a file with the number of the process that holds it. It appears with the number in it, since one without
 * would stop these tools for ever.
 */
struct lock_file {
        int fd;
        char *name; /* by which it can be linked */
        bool named; /* where the file system has no files without a name: it must be removed */
};

static void lock_file_done(struct lock_file *file) {
        if (file->named)
                (void)unlink(file->name);
        free(file->name);
        close_fd(&file->fd);
}

static int lock_file_make(const char *lock, struct lock_file *ret, struct err *err) {
        char pid[16];
        int n = snprintf(pid, sizeof pid, "%d", (int)getpid());

        ret->fd = open("/etc", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
        ret->named = ret->fd < 0;
        if (ret->named)
                ret->name = str_format("%s.%s", lock, pid);
        else
                ret->name = str_format("/proc/self/fd/%d", ret->fd);
        if (!ret->name)
                return err_memory(err);

        if (ret->named)
                ret->fd = open(ret->name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (ret->fd < 0 || fd_write_all(ret->fd, pid, (size_t)n + 1) < 0)
                return err_errno(err, "cannot make a lock in /etc");

        return 0;
}

/* Its holder was killed. The file that is removed is the one that was read: by accounts_lock() nobody makes another. */
static bool lock_remove_stale(const char *lock) {
        cleanup(close_fd) int fd = open(lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat read_from, there;
        char text[16] = "";
        uint64_t pid;

        if (fd < 0 || fstat(fd, &read_from) < 0 || read(fd, text, sizeof text - 1) <= 0)
                return false;
        if (!str_to_u64(str_first(str_of(text), strcspn(text, "\n")), INT32_MAX, &pid) || pid == 0)
                return false;
        if (kill((pid_t)pid, 0) == 0 || errno != ESRCH)
                return false;

        return lstat(lock, &there) == 0 && there.st_ino == read_from.st_ino && unlink(lock) == 0;
}

static int lock_take(const char *lock, struct err *err) {
        const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
        cleanup(lock_file_done) struct lock_file file = { .fd = -1 };
        int r = lock_file_make(lock, &file, err);

        if (r < 0)
                return r;

        for (unsigned i = 0; i < LOCK_TRIES; i++) {
                if (linkat(AT_FDCWD, file.name, AT_FDCWD, lock, AT_SYMLINK_FOLLOW) == 0)
                        return 0;
                if (errno != EEXIST)
                        return err_errno(err, "cannot make %s", lock);
                if (!lock_remove_stale(lock))
                        nanosleep(&pause, NULL);
        }

        return err_set(err, EBUSY, "%s is there: another program changes the file", lock);
}

static int lines_without(const char *path, struct str line, struct err *err) {
        cleanup(buf_done) struct buf old = BUF(LINES_MAX), new = BUF(LINES_MAX);
        struct str rest, part;
        int r = path_read_file(path, LINES_MAX, &old, err);

        if (r < 0)
                return r;

        rest = buf_str(&old);
        while (r == 0 && str_split(&rest, '\n', &part))
                if (!str_eq(part, line) && (part.n || rest.n)) {
                        r = buf_append(&new, part);
                        if (r == 0)
                                r = buf_add_char(&new, '\n');
                }

        if (r < 0)
                return err_memory(err);

        return path_replace_file(path, buf_str(&new), 0644, err);
}

/* By hand: usermod takes ids from nobody who has a process, and whoever deletes a guest has one. */
static int subordinate_remove_from(const char *path, const char *host, uint32_t id, struct err *err) {
        cleanup(free_ptr) char *lock = str_format("%s.lock", path), *line = str_format("%s:%u:1", host, id);

        cleanup(close_fd) int accounts = -1;

        if (!lock || !line)
                return err_memory(err);

        int r = accounts_lock(&accounts, err);
        if (r == 0)
                r = lock_take(lock, err);
        if (r < 0)
                return r;

        r = lines_without(path, str_of(line), err);
        (void)unlink(lock);

        return r;
}

int guest_subordinate_remove(const char *host, uint32_t uid, uint32_t gid, struct err *err) {
        if (strcmp(host, "root") == 0)
                return 0;
        int r = subordinate_remove_from("/etc/subuid", host, uid, err);
        if (r < 0)
                return r;

        return subordinate_remove_from("/etc/subgid", host, gid, err);
}
