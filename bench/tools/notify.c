/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a judged open() costs: processor time of caller and judge together, for one file again and again.
 *
 *   alone       nobody is asked
 *   round_trip  the kernel hands the call over, somebody takes it up and refuses it at once
 *   least       the path is read, the caller's directory asked for, the file looked at and opened, the descriptor
 * handed over: nobody who performs calls for others can do with less, and nothing is judged here
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { ALONE, ROUND_TRIP, LEAST, KINDS };
enum { CALLS = 50000, WAIT_KILLABLE = 1 << 5, PATH_PART = 256 };
#define NOTIFY_SET_FLAGS _IOW('!', 4, uint64_t)

static double used_us(int who) {
        struct rusage use;

        getrusage(who, &use);
        return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 +
               (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static int load_filter(void) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof code / sizeof *code, code };

        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE,
                            &program);
}

_Noreturn static void call(enum kind kind, int channel, const char *file) {
        int notify = kind == ALONE ? -1 : load_filter();
        char byte;

        if ((kind != ALONE && notify < 0) || write(channel, &notify, sizeof notify) != sizeof notify ||
            read(channel, &byte, 1) != 1)
                _exit(1);
        for (int i = 0; i < CALLS; i++) {
                int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY, 0);

                if ((fd < 0) != (kind == ROUND_TRIP))
                        _exit(1);
                if (fd >= 0)
                        close(fd);
        }
        _exit(0);
}

static int perform(int notify, int proc, const struct seccomp_notif *asked) {
        struct open_how how = { .flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
        struct seccomp_notif_addfd pass = { .id = asked->id, .flags = SECCOMP_ADDFD_FLAG_SEND };
        char path[PATH_PART], where[4096];
        struct iovec here = { path, sizeof path }, there = { (void *)(uintptr_t)asked->data.args[1], sizeof path };
        struct stat st;
        int fd, r;

        if (process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) <= 0 ||
            readlinkat(proc, "cwd", where, sizeof where) < 0 || fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -1;
        fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
        pass.srcfd = (unsigned)fd;
        r = ioctl(notify, SECCOMP_IOCTL_NOTIF_ADDFD, &pass);
        close(fd);
        return r < 0 ? -1 : 0;
}

static void answer_all(enum kind kind, int notify, int proc) {
        for (int i = 0; i < CALLS; i++) {
                struct seccomp_notif asked = { 0 };
                struct seccomp_notif_resp answer = { .error = -ENOENT };

                if (ioctl(notify, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
                        tool_die("notify: receive: %s", strerror(errno));
                answer.id = asked.id;
                if (kind == ROUND_TRIP ? ioctl(notify, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0
                                       : perform(notify, proc, &asked) < 0)
                        tool_die("notify: answer: %s", strerror(errno));
        }
}

/* The listener of the child, as one of ours. */
static int take_listener(pid_t child, int number) {
        int pidfd = (int)syscall(SYS_pidfd_open, child, 0), fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);

        close(pidfd);
        if (fd < 0)
                tool_die("notify: listener: %s", strerror(errno));
        (void)ioctl(fd, NOTIFY_SET_FLAGS, 1UL);
        return fd;
}

static double measure(enum kind kind, const char *file) {
        double before = used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN);
        int ends[2], number = -1, status = 1;
        char path[32];
        pid_t child;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                tool_die("notify: %s", strerror(errno));
        child = fork();
        if (child == 0)
                call(kind, ends[1], file);
        close(ends[1]);
        if (child < 0 || read(ends[0], &number, sizeof number) != sizeof number)
                tool_die("notify: the filter does not load");

        snprintf(path, sizeof path, "/proc/%d", child);
        int notify = kind == ALONE ? -1 : take_listener(child, number), proc = open(path, O_PATH | O_CLOEXEC);
        if (write(ends[0], "g", 1) != 1)
                tool_die("notify: %s", strerror(errno));
        if (kind != ALONE)
                answer_all(kind, notify, proc);
        close(notify);
        if (waitpid(child, &status, 0) != child || status != 0)
                tool_die("notify: the caller failed");
        close(proc);
        close(ends[0]);
        return (used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN) - before) / CALLS;
}

int main(int argc, char **argv) {
        static const char *const names[KINDS] = { "alone_us", "round_trip_us", "least_us" };
        double best[KINDS] = { 0 };

        if (argc > 1 && strcmp(argv[1], "--json") != 0)
                tool_die("usage: lab-notify [--json]");
        for (int round = 0; round < 5; round++)
                for (enum kind kind = ALONE; kind < KINDS; kind++) {
                        double us = measure(kind, "/etc/passwd");

                        if (round == 0 || us < best[kind])
                                best[kind] = us;
                }
        printf("{\"%s\": %.2f, \"%s\": %.2f, \"%s\": %.2f}\n", names[ALONE], best[ALONE], names[ROUND_TRIP],
               best[ROUND_TRIP], names[LEAST], best[LEAST]);
        return 0;
}
