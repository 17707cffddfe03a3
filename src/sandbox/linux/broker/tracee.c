/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/tracee.h"

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

static int open_proc(const struct tracee *tracee, const char *what, int flags) {
        char path[64];

        if (tracee->proc >= 0)
                return open_with_capability(tracee->proc, what, flags);
        snprintf(path, sizeof path, "/proc/%d/%s", tracee->tid, what);
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

static int read_status(struct tracee *tracee) {
        cleanup(close_fd) int fd = open_proc(tracee, "status", O_RDONLY);
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

        tracee->tgid = (pid_t)tgid;
        tracee->umask = 022;

        if (status_field(status, STR("Umask"), &field)) {
                mode_t mask = 0;

                for (size_t i = 0; i < field.n && field.p[i] >= '0' && field.p[i] <= '7'; i++)
                        mask = mask << 3 | (mode_t)(field.p[i] - '0');
                tracee->umask = mask & 0777;
        }

        if (status_field(status, STR("Name"), &field)) {
                size_t length = field.n < sizeof tracee->name - 1 ? field.n : sizeof tracee->name - 1;

                memcpy(tracee->name, field.p, length);
                tracee->name[length] = '\0';
        }

        return 0;
}

/* Paths are judged and opened in the broker's own root: a process with another one is not served. */
static int check_same_root(const struct tracee *tracee) {
        cleanup(close_fd) int root = open_proc(tracee, "root", O_PATH | O_DIRECTORY);
        struct stat theirs, ours;
        if (root < 0)
                return root;
        if (fstat(root, &theirs) < 0 || stat("/", &ours) < 0)
                return -errno;
        return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino ? 0 : -EACCES;
}

void tracee_init(struct tracee *tracee, int notify_fd, const struct seccomp_notif *call) {
        *tracee =
            (struct tracee){ .notify_fd = notify_fd, .id = call->id, .tid = (pid_t)call->pid, .proc = -1, .kept = -1 };
}

int tracee_open(struct tracee *tracee) {
        int r = read_status(tracee);
        if (r == 0)
                r = check_same_root(tracee);

        if (r == 0) {
                tracee->proven = tracee_waits(tracee);
                r = tracee->proven ? 0 : -ESRCH;
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
static struct known known_threads[64];
static uint64_t umask_changed_ns;

static struct known *known_slot(pid_t tid) {
        return &known_threads[(unsigned)tid % (sizeof known_threads / sizeof *known_threads)];
}

static bool thread_lives(int pidfd) {
        struct pollfd end = { .fd = pidfd, .events = POLLIN };

        return poll(&end, 1, 0) == 0;
}

static void known_forget(struct known *known) {
        if (known->tid) {
                close_fd(&known->pidfd);
                close_fd(&known->proc);
        }
        *known = (struct known){ .pidfd = -1, .proc = -1 };
}

/* -EINVAL before Linux 6.9, where there are no descriptors of threads: then nothing is kept. */
static int known_fill(struct known *known, struct tracee *tracee) {
        char path[32];
        struct known fresh = { .tid = tracee->tid };
        int r;

        fresh.pidfd = (int)syscall(SYS_pidfd_open, tracee->tid, PIDFD_OF_THREAD);
        if (fresh.pidfd < 0)
                return -errno;

        snprintf(path, sizeof path, "/proc/%d", tracee->tid);
        fresh.proc = tracee->proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = tracee->proc < 0 ? -errno : read_status(tracee);
        if (r == 0)
                r = check_same_root(tracee);
        if (r == 0 && !tracee_waits(tracee))
                r = -ESRCH;

        if (r < 0) {
                close_fd(&fresh.pidfd);
                close_fd(&fresh.proc);
                tracee->proc = -1;
                return r;
        }

        fresh.tgid = tracee->tgid;
        fresh.umask = tracee->umask;
        *known = fresh;

        return 0;
}

bool tracee_recall(struct tracee *tracee) {
        const struct known *known = known_slot(tracee->tid);

        if (known->tid != tracee->tid || known->stale)
                return false;

        tracee->tgid = known->tgid;
        tracee->umask = known->umask;
        tracee->proc = known->proc;
        tracee->kept = known->pidfd;

        return true;
}

int tracee_open_known(struct tracee *tracee) {
        struct known *known = known_slot(tracee->tid);
        int r;

        if (tracee_recall(tracee))
                return 0;

        known_forget(known);
        r = known_fill(known, tracee);
        if (r == -EINVAL)
                return tracee_open(tracee);

        /* A umask that is being changed by another thread right now may be the old one: read it again next time. */
        known->stale = umask_changed_ns && clock_ns() - umask_changed_ns < UMASK_SETTLES_NS;
        return r;
}

bool tracee_renew(struct tracee *tracee) {
        if (tracee->kept < 0)
                return false;
        known_forget(known_slot(tracee->tid));
        tracee->proc = tracee->kept = -1;
        tracee->proven = false;
        return tracee_open_known(tracee) == 0;
}

int tracee_umask_changes(struct tracee *tracee, mode_t mask) {
        if (tracee_confirm(tracee) < 0)
                return -ESRCH;

        umask_changed_ns = clock_ns();

        for (size_t i = 0; i < sizeof known_threads / sizeof *known_threads; i++)
                if (known_threads[i].tid && known_threads[i].tgid == tracee->tgid)
                        known_threads[i].umask = mask & 0777;
                else
                        known_forget(&known_threads[i]); /* it may share the mask, for all that is known */

        return 0;
}

void tracee_find_name(struct tracee *tracee) {
        cleanup(close_fd) int fd = open_proc(tracee, "comm", O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, tracee->name, sizeof tracee->name - 1);

        tracee->name[n > 0 ? n - (tracee->name[n - 1] == '\n') : 0] = '\0';
}

bool tracee_waits(const struct tracee *tracee) {
        uint64_t id = tracee->id;
        return ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* A thread that lives now had its number, and its memory, all the time: one check covers the cache and the data that
 * was read. Its call waits as long as it lives, since there are pidfds of threads (Linux 6.9): only its end interrupts
 * it. */
int tracee_confirm(struct tracee *tracee) {
        if (!tracee->proven)
                tracee->proven = tracee->kept >= 0 ? thread_lives(tracee->kept) : tracee_waits(tracee);
        return tracee->proven ? 0 : -ESRCH;
}

/* What was found below the descriptor of /proc/TID that was kept is the thread's, and only while it lives. */
static void seen_by_proc(struct tracee *tracee) {
        if (tracee->kept >= 0)
                tracee->proven = true;
}

/* Not by /proc/TID/mem, which belongs to root where the program is not dumpable, and root is nobody in the sandbox. */
static ssize_t tracee_peek(const struct tracee *tracee, uint64_t address, void *into, size_t n) {
        struct iovec here = { into, n }, there = { (void *)(uintptr_t)address, n };
        ssize_t got = process_vm_readv(tracee->tid, &here, 1, &there, 1, 0);
        if (got >= 0 || errno != EPERM)
                return got;

        raise_capability(LOOK);
        got = process_vm_readv(tracee->tid, &here, 1, &there, 1, 0);
        raise_capability(0);

        return got;
}

int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t n) {
        struct iovec here = { (void *)(uintptr_t)from, n }, there = { (void *)(uintptr_t)address, n };
        ssize_t put;

        raise_capability(LOOK);
        put = process_vm_writev(tracee->tid, &here, 1, &there, 1, 0);
        raise_capability(0);
        return put == (ssize_t)n ? 0 : -EFAULT;
}

int tracee_read(struct tracee *tracee, uint64_t address, void *into, size_t n) {
        tracee->proven = false;
        if (n > 0 && tracee_peek(tracee, address, into, n) != (ssize_t)n)
                return -EFAULT;
        return tracee_confirm(tracee);
}

int tracee_copy_path(struct tracee *tracee, uint64_t address, char *ret, size_t size) {
        enum { PAGE = 4096 /* the smallest there is */, SHORT = 256 };
        size_t n = 0;

        tracee->proven = false;

        while (n < size) {
                /* Up to the end of the page: the next one may not be mapped, and need not be. Most paths are short. */
                size_t step = PAGE - (size_t)((address + n) & (PAGE - 1));
                if (n == 0 && step > SHORT)
                        step = SHORT;
                if (step > size - n)
                        step = size - n;

                ssize_t got = tracee_peek(tracee, address + n, ret + n, step);
                if (got <= 0)
                        return -EFAULT;
                if (memchr(ret + n, '\0', (size_t)got))
                        return 0;

                n += (size_t)got;
        }

        return -ENAMETOOLONG;
}

/* It may have been a successor's memory. */
int tracee_read_path(struct tracee *tracee, uint64_t address, char *ret, size_t size) {
        int r = tracee_copy_path(tracee, address, ret, size);

        if (r < 0)
                return r;

        return tracee_confirm(tracee);
}

/* A thread may have descriptors of its own; before Linux 6.9 only those of its process can be had. */
static int open_pidfd(struct tracee *tracee) {
        int fd = (int)syscall(SYS_pidfd_open, tracee->tid, PIDFD_OF_THREAD);
        if (fd < 0 && errno == EINVAL) {
                int r = tracee->tgid ? 0 : read_status(tracee);
                fd = r < 0 ? r : (int)syscall(SYS_pidfd_open, tracee->tgid, 0);
        }
        return fd;
}

static int take_descriptor(int pidfd, const struct tracee *tracee, int number, const struct tracee_bytes *bytes) {
        struct iovec here = { bytes->p, bytes->n }, there = { (void *)(uintptr_t)bytes->address, bytes->n };
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        if (fd < 0)
                return -errno;

        if (bytes->n && process_vm_readv(tracee->tid, &here, 1, &there, 1, 0) != (ssize_t)bytes->n) {
                int saved = errno == EPERM ? EPERM : EFAULT;

                close(fd);
                return -saved;
        }

        return fd;
}

/* A program that is dumpable, as nearly all are, lets its account take them without the capability. */
static int take_with_capability(int pidfd, const struct tracee *tracee, int number, const struct tracee_bytes *bytes) {
        int fd = take_descriptor(pidfd, tracee, number, bytes);
        if (fd != -EPERM)
                return fd;

        raise_capability(LOOK);
        fd = take_descriptor(pidfd, tracee, number, bytes);
        raise_capability(0);

        return fd == -EPERM && bytes->n ? -EFAULT : fd;
}

int tracee_take(struct tracee *tracee, int number, const struct tracee_bytes *bytes) {
        if (number < 0)
                return -EBADF;

        cleanup(close_fd) int opened = tracee->kept >= 0 ? -1 : open_pidfd(tracee);
        if (tracee->kept < 0 && opened < 0)
                return -ESRCH;

        int fd = take_with_capability(tracee->kept >= 0 ? tracee->kept : opened, tracee, number, bytes);
        if (fd >= 0 && !tracee_waits(tracee)) {
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

bool tracee_closes_on_exec(const struct tracee *tracee, int number) {
        char path[64], text[128];
        const char *flags;

        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", tracee->tid, number);
        raise_capability(LOOK);
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        raise_capability(0);
        text[n < 0 ? 0 : n] = '\0';
        flags = strstr(text, "flags:");

        return flags && strtoul(flags + strlen("flags:"), NULL, 8) & O_CLOEXEC;
}

int tracee_open_base(struct tracee *tracee, int dirfd) {
        char what[32] = "cwd";

        if (dirfd != AT_FDCWD) {
                if (dirfd < 0)
                        return -EBADF;
                snprintf(what, sizeof what, "fd/%d", dirfd);
        }

        int fd = open_proc(tracee, what, O_PATH);
        if (fd >= 0)
                seen_by_proc(tracee);
        else if (tracee->kept >= 0 && !thread_lives(tracee->kept))
                return -ESRCH;

        /* Descriptors of a program that is not dumpable are root's, as its memory is. */
        if (fd == -EACCES && dirfd != AT_FDCWD)
                fd = tracee_take(tracee, dirfd, &(struct tracee_bytes){ 0 });

        return fd == -ENOENT && dirfd != AT_FDCWD ? -EBADF : fd;
}

ssize_t tracee_base_path(struct tracee *tracee, int dirfd, char *ret, size_t size) {
        char what[16] = "cwd";
        ssize_t n;

        if (tracee->proc < 0 || (dirfd != AT_FDCWD && dirfd < 0))
                return -EBADF;
        if (dirfd != AT_FDCWD)
                snprintf(what, sizeof what, "fd/%d", dirfd);

        n = readlinkat(tracee->proc, what, ret, size);
        if (n < 0)
                return -errno;

        seen_by_proc(tracee);
        return n;
}

int tracee_follow_magic(const struct tracee *tracee, int directory_fd, const char *name) {
        int fd = open_with_capability(directory_fd, name, O_PATH);
        if (fd >= 0 && !tracee_waits(tracee)) {
                close(fd);
                return -ESRCH;
        }
        return fd;
}
