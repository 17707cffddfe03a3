/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/tracee.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
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

enum { PIDFD_OF_THREAD = O_EXCL };
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

/* A program that is dumpable, as nearly all are, can be looked at without the capability. */
static int open_with_capability(int directory_fd, const char *path, int flags) {
        int fd = openat(directory_fd, path, flags | O_CLOEXEC);
        if (fd >= 0 || (errno != EACCES && errno != EPERM))
                return fd >= 0 ? fd : -errno;

        raise_capability(LOOK);
        fd = openat(directory_fd, path, flags | O_CLOEXEC);
        int saved = errno;
        raise_capability(0);
        return fd >= 0 ? fd : -saved;
}

static int open_proc(const struct tracee *t, const char *what, int flags) {
        char path[64];

        if (t->proc >= 0)
                return open_with_capability(t->proc, what, flags);
        snprintf(path, sizeof path, "/proc/%d/%s", t->tid, what);
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
        cleanup(close_fd) int fd = open_proc(t, "status", O_RDONLY);
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
static int check_same_root(const struct tracee *t) {
        cleanup(close_fd) int root = open_proc(t, "root", O_PATH | O_DIRECTORY);
        struct stat theirs, ours;
        if (root < 0)
                return root;
        if (fstat(root, &theirs) < 0 || stat("/", &ours) < 0)
                return -errno;
        return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino ? 0 : -EACCES;
}

void tracee_init(struct tracee *t, int notify_fd, const struct seccomp_notif *call) {
        *t = (struct tracee){ .notify_fd = notify_fd, .id = call->id, .tid = (pid_t)call->pid, .proc = -1, .kept = -1 };
}

int tracee_open(struct tracee *t) {
        int r = read_status(t);
        if (r == 0)
                r = check_same_root(t);
        if (r == 0) {
                t->proven = tracee_waits(t);
                r = t->proven ? 0 : -ESRCH;
        }
        return r;
}

/* --- what is kept of threads from call to call ---
 *
 * Reading a status costs more than all the rest of a call. It is read once for a thread; a descriptor of the thread
 * itself tells whether it still lives, so that another one with its number is another one. Nothing is judged by what is
 * kept: the umask is the caller's own wish, and directories are opened anew each time.
 */

#define UMASK_SETTLES_NS (50 * NS_PER_MS)

struct known {
        pid_t tid, tgid;
        mode_t umask;
        int pidfd, proc;
        bool stale;
};
static struct known known[64];
static uint64_t umask_changed_ns;

static struct known *known_slot(pid_t tid) {
        return &known[(unsigned)tid % (sizeof known / sizeof *known)];
}

static bool thread_lives(int pidfd) {
        struct pollfd end = { .fd = pidfd, .events = POLLIN };

        return poll(&end, 1, 0) == 0;
}

static void known_forget(struct known *k) {
        if (k->tid) {
                close_fd(&k->pidfd);
                close_fd(&k->proc);
        }
        *k = (struct known){ .pidfd = -1, .proc = -1 };
}

/* -EINVAL before Linux 6.9, where there are no descriptors of threads: then nothing is kept. */
static int known_fill(struct known *k, struct tracee *t) {
        char path[32];
        struct known fresh = { .tid = t->tid };
        int r;

        fresh.pidfd = (int)syscall(SYS_pidfd_open, t->tid, PIDFD_OF_THREAD);
        if (fresh.pidfd < 0)
                return -errno;
        snprintf(path, sizeof path, "/proc/%d", t->tid);
        fresh.proc = t->proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = t->proc < 0 ? -errno : read_status(t);
        if (r == 0)
                r = check_same_root(t);
        if (r == 0 && !tracee_waits(t))
                r = -ESRCH;
        if (r < 0) {
                close_fd(&fresh.pidfd);
                close_fd(&fresh.proc);
                t->proc = -1;
                return r;
        }
        fresh.tgid = t->tgid;
        fresh.umask = t->umask;
        *k = fresh;
        return 0;
}

int tracee_open_known(struct tracee *t) {
        struct known *k = known_slot(t->tid);
        int r;

        if (k->tid == t->tid && !k->stale) {
                t->tgid = k->tgid;
                t->umask = k->umask;
                t->proc = k->proc;
                t->kept = k->pidfd;
                return 0;
        }
        known_forget(k);
        r = known_fill(k, t);
        if (r == -EINVAL)
                return tracee_open(t);
        /* A umask that is being changed by another thread right now may be the old one: read it again next time. */
        k->stale = umask_changed_ns && clock_ns() - umask_changed_ns < UMASK_SETTLES_NS;
        return r;
}

bool tracee_renew(struct tracee *t) {
        if (t->kept < 0)
                return false;
        known_forget(known_slot(t->tid));
        t->proc = t->kept = -1;
        t->proven = false;
        return tracee_open_known(t) == 0;
}

int tracee_umask_changes(struct tracee *t, mode_t mask) {
        if (tracee_confirm(t) < 0)
                return -ESRCH;

        umask_changed_ns = clock_ns();
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (known[i].tid && known[i].tgid == t->tgid)
                        known[i].umask = mask & 0777;
                else
                        known_forget(&known[i]); /* it may share the mask, for all that is known */
        return 0;
}

void tracee_find_name(struct tracee *t) {
        cleanup(close_fd) int fd = open_proc(t, "comm", O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, t->name, sizeof t->name - 1);

        t->name[n > 0 ? n - (t->name[n - 1] == '\n') : 0] = '\0';
}

bool tracee_waits(const struct tracee *t) {
        uint64_t id = t->id;
        return ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* A thread that lives now had its number, and its memory, all the time: one question for what is kept and what was
 * read. Its call waits as long as it lives, since there are descriptors of threads (Linux 6.9): nothing but its end
 * interrupts it. */
int tracee_confirm(struct tracee *t) {
        if (!t->proven)
                t->proven = t->kept >= 0 ? thread_lives(t->kept) : tracee_waits(t);
        return t->proven ? 0 : -ESRCH;
}

/* What was found below the descriptor of /proc/TID that was kept is the thread's, and only while it lives. */
static void seen_by_proc(struct tracee *t) {
        if (t->kept >= 0)
                t->proven = true;
}

/* Not by /proc/TID/mem, which belongs to root where the program is not dumpable, and root is nobody in the sandbox. */
static ssize_t peek(const struct tracee *t, uint64_t address, void *into, size_t n) {
        struct iovec here = { into, n }, there = { (void *)(uintptr_t)address, n };
        ssize_t got = process_vm_readv(t->tid, &here, 1, &there, 1, 0);
        if (got >= 0 || errno != EPERM)
                return got;

        raise_capability(LOOK);
        got = process_vm_readv(t->tid, &here, 1, &there, 1, 0);
        raise_capability(0);
        return got;
}

int tracee_write(const struct tracee *t, uint64_t address, const void *from, size_t n) {
        struct iovec here = { (void *)(uintptr_t)from, n }, there = { (void *)(uintptr_t)address, n };
        ssize_t put;

        raise_capability(LOOK);
        put = process_vm_writev(t->tid, &here, 1, &there, 1, 0);
        raise_capability(0);
        return put == (ssize_t)n ? 0 : -EFAULT;
}

int tracee_read(struct tracee *t, uint64_t address, void *into, size_t n) {
        t->proven = false;
        if (n > 0 && peek(t, address, into, n) != (ssize_t)n)
                return -EFAULT;
        return tracee_confirm(t);
}

int tracee_copy_path(struct tracee *t, uint64_t address, char *ret, size_t size) {
        enum { PAGE = 4096 /* the smallest there is */, SHORT = 256 };
        size_t n = 0;

        t->proven = false;
        while (n < size) {
                /* Up to the end of the page: the next one may not be mapped, and need not be. Most paths are short. */
                size_t step = PAGE - (size_t)((address + n) & (PAGE - 1));
                if (n == 0 && step > SHORT)
                        step = SHORT;
                if (step > size - n)
                        step = size - n;
                ssize_t got = peek(t, address + n, ret + n, step);
                if (got <= 0)
                        return -EFAULT;
                if (memchr(ret + n, '\0', (size_t)got))
                        return 0;
                n += (size_t)got;
        }
        return -ENAMETOOLONG;
}

/* It may have been a successor's memory. */
int tracee_read_path(struct tracee *t, uint64_t address, char *ret, size_t size) {
        int r = tracee_copy_path(t, address, ret, size);

        return r < 0 ? r : tracee_confirm(t);
}

/* A thread may have descriptors of its own; before Linux 6.9 only those of its process can be had. */
static int open_pidfd(struct tracee *t) {
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
        cleanup(close_fd) int opened = t->kept >= 0 ? -1 : open_pidfd(t);
        if (t->kept < 0 && opened < 0)
                return -ESRCH;
        raise_capability(LOOK);
        int fd = take(t->kept >= 0 ? t->kept : opened, t, number, b);
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

bool tracee_closes_on_exec(const struct tracee *t, int number) {
        char path[64], text[128];
        const char *flags;

        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", t->tid, number);
        raise_capability(LOOK);
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        raise_capability(0);
        text[n < 0 ? 0 : n] = '\0';
        flags = strstr(text, "flags:");
        return flags && strtoul(flags + strlen("flags:"), NULL, 8) & O_CLOEXEC;
}

int tracee_open_base(struct tracee *t, int dirfd) {
        char what[32] = "cwd";
        if (dirfd != AT_FDCWD) {
                if (dirfd < 0)
                        return -EBADF;
                snprintf(what, sizeof what, "fd/%d", dirfd);
        }
        int fd = open_proc(t, what, O_PATH);
        if (fd >= 0)
                seen_by_proc(t);
        else if (t->kept >= 0 && !thread_lives(t->kept))
                return -ESRCH;
        /* Descriptors of a program that is not dumpable are root's, as its memory is. */
        if (fd == -EACCES && dirfd != AT_FDCWD)
                fd = tracee_take(t, dirfd, &(struct tracee_bytes){ 0 });
        return fd == -ENOENT && dirfd != AT_FDCWD ? -EBADF : fd;
}

ssize_t tracee_base_path(struct tracee *t, int dirfd, char *ret, size_t size) {
        char what[16] = "cwd";
        ssize_t n;

        if (t->proc < 0 || (dirfd != AT_FDCWD && dirfd < 0))
                return -EBADF;
        if (dirfd != AT_FDCWD)
                snprintf(what, sizeof what, "fd/%d", dirfd);
        n = readlinkat(t->proc, what, ret, size);
        if (n < 0)
                return -errno;
        seen_by_proc(t);
        return n;
}

int tracee_follow_magic(const struct tracee *t, int directory_fd, const char *name) {
        int fd = open_with_capability(directory_fd, name, O_PATH);
        if (fd >= 0 && !tracee_waits(t)) {
                close(fd);
                return -ESRCH;
        }
        return fd;
}
