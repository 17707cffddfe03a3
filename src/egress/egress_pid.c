/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_pid.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/processes/process.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int egress_identity_self(const char *nonce, struct egress_identity *ret, struct err *err) {
        struct egress_identity id = { .pid = getpid() };
        int n = snprintf(id.nonce, sizeof id.nonce, "%s", nonce);
        int r = process_start_time(id.pid, &id.start_time);
        if (r < 0 || n < 8 || n >= (int)sizeof id.nonce || strcspn(id.nonce, " \n") != (size_t)n)
                return err_set(err, EINVAL, "cannot say who this process is");

        r = process_boot(id.boot, err);
        if (r == 0)
                *ret = id;

        return r;
}

/* Whether one of its words is the nonce; zeros separate them. */
static bool has_nonce(pid_t pid, const char *nonce) {
        char path[48];
        cleanup(buf_done) struct buf text = BUF(65536);

        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        struct str rest, word;
        if (path_read_file(path, 65536, &text, NULL) < 0)
                return false;

        rest = buf_str(&text);
        while (str_split(&rest, '\0', &word))
                if (str_is(word, nonce))
                        return true;

        return false;
}

static bool same_identity(const struct egress_identity *identity, const struct egress_identity *egress_identity) {
        return identity->pid == egress_identity->pid && identity->start_time == egress_identity->start_time &&
               strcmp(identity->nonce, egress_identity->nonce) == 0;
}

/* A descriptor of the very process, or -ESRCH. The order matters: the process we examine is the one behind the
 * descriptor, unless that has ended, and then the descriptor says so. */
static int open_process(const struct egress_identity *id) {
        char boot[PROCESS_BOOT_MAX];
        uint64_t started;

        if (id->pid <= 1 || process_boot(boot, NULL) < 0 || strcmp(boot, id->boot) != 0)
                return -ESRCH;

        cleanup(close_fd) int pidfd = (int)syscall(SYS_pidfd_open, id->pid, 0);
        if (pidfd < 0) {
                if (errno == ESRCH || errno == EINVAL)
                        return -ESRCH;
                return -errno;
        }
        if (process_start_time(id->pid, &started) < 0 || started != id->start_time || !has_nonce(id->pid, id->nonce))
                return -ESRCH;

        struct pollfd ended = { .fd = pidfd, .events = POLLIN };
        if (poll(&ended, 1, 0) != 0)
                return -ESRCH;

        return take_fd(&pidfd);
}

/* "PID START BOOT NONCE"; false when it is anything else. */
static bool pid_parse(struct str text, struct egress_identity *ret) {
        struct str rest = text, part[4];
        uint64_t pid;

        if (text.n == 0 || text.p[text.n - 1] != '\n')
                return false;

        rest.n--;

        for (size_t i = 0; i < 4; i++)
                if (!str_split(&rest, ' ', &part[i]))
                        return false;

        if (rest.n > 0 || !str_to_u64(part[0], INT32_MAX, &pid) || !str_to_u64(part[1], UINT64_MAX, &ret->start_time) ||
            part[2].n >= sizeof ret->boot || part[3].n >= sizeof ret->nonce || part[3].n < 8)
                return false;

        ret->pid = (pid_t)pid;
        snprintf(ret->boot, sizeof ret->boot, "%.*s", STR_FMT(part[2]));
        snprintf(ret->nonce, sizeof ret->nonce, "%.*s", STR_FMT(part[3]));

        return true;
}

/* Two that look at the file at once must not each remove what the other has just made. */
static int lock_directory(const char *directory, struct err *err) {
        cleanup(close_fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) < 0)
                return err_errno(err, "cannot lock %s", directory);
        return take_fd(&fd);
}

static int pid_find(const char *directory, bool tidy, struct egress_identity *ret, int *ret_pidfd, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0);
        struct egress_identity id = { 0 };
        int r = egress_read(directory, EGRESS_PID, &text, err);
        if (r < 0)
                return r;

        int pidfd = -ESRCH;

        if (pid_parse(buf_str(&text), &id))
                pidfd = open_process(&id);

        if (pidfd < 0 && pidfd != -ESRCH)
                return err_set(err, -pidfd, "cannot examine process %d: %s", (int)id.pid, strerror(-pidfd));

        if (pidfd < 0) {
                if (tidy) {
                        egress_remove(directory, EGRESS_PID);
                        egress_remove(directory, EGRESS_SERVICE);
                }

                return err_set(err, ENOENT, "process %d is not the gateway any more", (int)id.pid);
        }

        *ret = id;
        *ret_pidfd = pidfd;

        return 0;
}

int egress_pid_find(const char *directory, bool tidy, struct egress_identity *ret, int *ret_pidfd, struct err *err) {
        cleanup(close_fd) int lock = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (lock < 0)
                return err_errno(err, "cannot open %s", directory);
        if (flock(lock, LOCK_EX) < 0)
                return err_errno(err, "cannot lock %s", directory);
        return pid_find(directory, tidy, ret, ret_pidfd, err);
}

int egress_pid_write(const char *directory, const struct egress_identity *id, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_PID);
        cleanup(free_ptr) char *text =
            str_format("%d %llu %s %s\n", (int)id->pid, (unsigned long long)id->start_time, id->boot, id->nonce);
        cleanup(close_fd) int lock = lock_directory(directory, err), other = -1;
        struct egress_identity living;
        struct err why = { 0 };

        if (lock < 0)
                return lock;
        if (!path || !text)
                return err_memory(err);

        int r = pid_find(directory, true, &living, &other, &why);
        if (r == 0)
                return err_set(err, EEXIST, "the gateway runs already, as process %d", (int)living.pid);
        if (r != -ENOENT)
                return err_set(err, -r, "%s", err_text(&why));

        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_errno(err, "cannot create %s", path);

        r = fd_write_all(fd, text, strlen(text));
        if (r < 0) {
                unlink(path);
                return err_set(err, -r, "cannot write %s: %s", path, strerror(-r));
        }

        return 0;
}

void egress_pid_remove(const char *directory, const struct egress_identity *id) {
        cleanup(close_fd) int lock = lock_directory(directory, NULL);
        cleanup(buf_done) struct buf text = BUF(0);
        struct egress_identity there = { 0 };

        if (lock < 0 || egress_read(directory, EGRESS_PID, &text, NULL) < 0)
                return;

        if (pid_parse(buf_str(&text), &there) && same_identity(&there, id)) {
                egress_remove(directory, EGRESS_PID);
                egress_remove(directory, EGRESS_SERVICE);
        }
}
