/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/tracee.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SIOCUNIXFILE
#define SIOCUNIXFILE 0x89e0 /* linux/un.h, which does not go with sys/un.h */
#endif

enum { LOOK = 1U << CAP_SYS_PTRACE, NAME_SOCKETS = 1U << CAP_NET_ADMIN };
static uint32_t had; /* of these, what this process was started with */

/* Capabilities are per thread; effective only between raise and lower. */
static int raise_capability(uint32_t effective) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = { { .permitted = had, .effective = had & effective } };
        return syscall(SYS_capset, &header, data) == 0 ? 0 : -errno;
}

int tracee_setup(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = { 0 };
        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        had = data[0].permitted & (LOOK | NAME_SOCKETS);
        return raise_capability(0);
}

static int open_with_capability(int directory_fd, const char *path, int flags) {
        raise_capability(LOOK); /* without it, dumpable processes still work */
        int fd = openat(directory_fd, path, flags | O_CLOEXEC);
        int saved = errno;
        raise_capability(0);
        return fd >= 0 ? fd : -saved;
}

static int open_proc(pid_t tid, const char *what, int flags) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", tid, what);
        return open_with_capability(AT_FDCWD, path, flags);
}

/* "Name:\tvalue" lines of /proc/TID/status. */
static bool status_field(struct str status, struct str name, struct str *ret) {
        struct str line;
        while (str_split(&status, '\n', &line))
                if (str_starts(line, name) && line.n > name.n && line.p[name.n] == ':') {
                        *ret = str_trim(str_skip(line, name.n + 1));
                        return true;
                }
        return false;
}

static int read_status(struct tracee *t) {
        cleanup(close_fd) int fd = open_proc(t->tid, "status", O_RDONLY);
        char text[2048];
        if (fd < 0)
                return fd;
        ssize_t n = read(fd, text, sizeof text);
        if (n <= 0)
                return -ESRCH;
        struct str status = str_n(text, (size_t)n), field;
        uint64_t tgid;
        if (!status_field(status, STR("Tgid"), &field) || !str_to_u64(field, INT_MAX, &tgid))
                return -ESRCH;
        t->tgid = (pid_t)tgid;
        t->umask = 022;
        if (status_field(status, STR("Umask"), &field)) {
                mode_t mask = 0;
                for (size_t i = 0; i < field.n && field.p[i] >= '0' && field.p[i] <= '7'; i++)
                        mask = mask << 3 | (mode_t)(field.p[i] - '0');
                t->umask = mask & 0777;
        }
        if (status_field(status, STR("Name"), &field)) {
                size_t length = field.n < sizeof t->name - 1 ? field.n : sizeof t->name - 1;
                memcpy(t->name, field.p, length);
                t->name[length] = '\0';
        }
        return 0;
}

/* Paths are judged and opened in the broker's own root: a process with another one is not served. */
static int check_same_root(pid_t tid) {
        cleanup(close_fd) int root = open_proc(tid, "root", O_PATH | O_DIRECTORY);
        struct stat theirs, ours;
        if (root < 0)
                return root;
        if (fstat(root, &theirs) < 0 || stat("/", &ours) < 0)
                return -errno;
        return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino ? 0 : -EACCES;
}

void tracee_init(struct tracee *t, int notify_fd, const struct seccomp_notif *call) {
        *t = (struct tracee){ .notify_fd = notify_fd, .id = call->id, .tid = (pid_t)call->pid };
}

int tracee_open(struct tracee *t) {
        int r = read_status(t);
        if (r == 0)
                r = check_same_root(t->tid);
        return r == 0 && !tracee_waits(t) ? -ESRCH : r;
}

bool tracee_waits(const struct tracee *t) {
        uint64_t id = t->id;
        return ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Not by /proc/TID/mem, which belongs to root where the program is not dumpable, and root is nobody in the sandbox. */
static ssize_t peek(const struct tracee *t, uint64_t address, void *into, size_t n) {
        struct iovec here = { into, n }, there = { (void *)(uintptr_t)address, n };
        raise_capability(LOOK);
        ssize_t got = process_vm_readv(t->tid, &here, 1, &there, 1, 0);
        raise_capability(0);
        return got;
}

int tracee_read_path(const struct tracee *t, uint64_t address, char *ret, size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
        while (n < size) {
                /* Up to the end of the page: the next one may not be mapped, and need not be. */
                size_t step = page - (size_t)((address + n) & (page - 1));
                if (step > size - n)
                        step = size - n;
                ssize_t got = peek(t, address + n, ret + n, step);
                if (got <= 0)
                        return -EFAULT;
                if (memchr(ret + n, '\0', (size_t)got))
                        return tracee_waits(t) ? 0 : -ESRCH; /* else it may have been a successor's memory */
                n += (size_t)got;
        }
        return -ENAMETOOLONG;
}

/* A thread may have descriptors of its own; before Linux 6.9 only those of its process can be had. */
static int open_pidfd(struct tracee *t) {
        enum { PIDFD_OF_THREAD = O_EXCL };
        int fd = (int)syscall(SYS_pidfd_open, t->tid, PIDFD_OF_THREAD);
        if (fd < 0 && errno == EINVAL) {
                int r = t->tgid ? 0 : read_status(t);
                fd = r < 0 ? r : (int)syscall(SYS_pidfd_open, t->tgid, 0);
        }
        return fd;
}

static int take(int pidfd, const struct tracee *t, int number, const struct tracee_bytes *b) {
        struct iovec here = { b->p, b->n }, there = { (void *)(uintptr_t)b->address, b->n };
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        if (fd < 0)
                return -errno;
        if (b->n && process_vm_readv(t->tid, &here, 1, &there, 1, 0) != (ssize_t)b->n) {
                close(fd);
                return -EFAULT;
        }
        return fd;
}

int tracee_take(struct tracee *t, int number, const struct tracee_bytes *b) {
        if (number < 0)
                return -EBADF;
        cleanup(close_fd) int pidfd = open_pidfd(t);
        if (pidfd < 0)
                return -ESRCH;
        raise_capability(LOOK);
        int fd = take(pidfd, t, number, b);
        raise_capability(0);
        if (fd >= 0 && !tracee_waits(t)) {
                close(fd);
                return -ESRCH;
        }
        return fd;
}

int tracee_socket_file(int socket_fd) {
        raise_capability(NAME_SOCKETS);
        int fd = ioctl(socket_fd, SIOCUNIXFILE);
        int saved = errno;
        raise_capability(0);
        return fd < 0 ? -saved : fd;
}

int tracee_open_base(struct tracee *t, int dirfd) {
        char what[32] = "cwd";
        if (dirfd != AT_FDCWD) {
                if (dirfd < 0)
                        return -EBADF;
                snprintf(what, sizeof what, "fd/%d", dirfd);
        }
        int fd = open_proc(t->tid, what, O_PATH);
        /* Descriptors of a program that is not dumpable are root's, as its memory is. */
        if (fd == -EACCES && dirfd != AT_FDCWD)
                fd = tracee_take(t, dirfd, &(struct tracee_bytes){ 0 });
        return fd == -ENOENT && dirfd != AT_FDCWD ? -EBADF : fd;
}

int tracee_follow_magic(const struct tracee *t, int directory_fd, const char *name) {
        int fd = open_with_capability(directory_fd, name, O_PATH);
        if (fd >= 0 && !tracee_waits(t)) {
                close(fd);
                return -ESRCH;
        }
        return fd;
}
