/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, seccomp and single system calls, by raw number and with our own constants: the headers of the machine that
 * built this say nothing about the kernel that runs it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/probe/probe_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        SYS_PIDFD_SEND_SIGNAL = 424,
        SYS_PIDFD_OPEN = 434,
        SYS_CLONE3 = 435,
        SYS_OPENAT2 = 437,
        SYS_LANDLOCK_CREATE = 444,
        SYS_LANDLOCK_RESTRICT = 446,
        SYS_MEMFD_SECRET = 447,
};
enum { LANDLOCK_VERSION_FLAG = 1 };
#define LANDLOCK_READ_FILE (1ULL << 2)
#define LANDLOCK_CONNECT_TCP (1ULL << 1)
#define OPENAT2_NO_SYMLINKS 0x04ULL

unsigned probe_landlock_abi(void) {
        long abi = syscall(SYS_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
        if (abi > 0)
                return (unsigned)abi;

        return 0;
}

/* Exits with 0 when the connection was refused for the reason that it should be. */
_Noreturn static void connect_against_landlock(void) {
        const uint64_t handled[] = { 0, LANDLOCK_CONNECT_TCP };
        const struct sockaddr_in nobody = { .sin_family = AF_INET,
                                            .sin_port = htons(9),
                                            .sin_addr = { htonl(INADDR_LOOPBACK) } };
        int rules = (int)syscall(SYS_LANDLOCK_CREATE, handled, sizeof handled, 0);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (rules < 0 || fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            syscall(SYS_LANDLOCK_RESTRICT, rules, 0) < 0)
                _exit(1);

        _exit(connect(fd, (const struct sockaddr *)&nobody, sizeof nobody) == 0 || errno != EACCES);
}

bool probe_landlock_connect(void) {
        pid_t pid = fork();
        if (pid == 0)
                connect_against_landlock();
        int status = 1;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Forbids every read and then reads: what counts is that it is refused. */
void try_landlock(struct probe_result *result) {
        long abi = syscall(SYS_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
        if (abi < 1) {
                if (errno == EOPNOTSUPP)
                        result_fail(result, PROBE_BLOCKED, CAUSE_LSM_ORDER, errno, "landlock_create_ruleset");
                else
                        result_error(result, errno, "landlock_create_ruleset");

                return;
        }

        uint64_t handled = LANDLOCK_READ_FILE;
        cleanup(close_fd) int rules = (int)syscall(SYS_LANDLOCK_CREATE, &handled, sizeof handled, 0);
        if (rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_LANDLOCK_RESTRICT, rules, 0) < 0) {
                result_error(result, errno, rules < 0 ? "landlock_create_ruleset" : "landlock_restrict_self");
                return;
        }

        cleanup(close_fd) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
        char detail[32];
        (void)snprintf(detail, sizeof detail, "ABI %ld", abi);

        if (fd < 0 && errno == EACCES) {
                result_works(result, detail);
                result->value = (int)abi;
        } else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "a forbidden file was opened");
}

/* A filter over getppid alone; `action` is what happens to it. Returns what seccomp() returned. */
static long filter_getppid(uint32_t action, unsigned flags) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, action),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof code / sizeof code[0], .filter = code };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -1;

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

void try_seccomp(struct probe_result *result) {
        if (filter_getppid(SECCOMP_RET_ERRNO | ENOTNAM, 0) < 0) {
                if (errno == EINVAL)
                        result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, errno, "seccomp(SET_MODE_FILTER)");
                else
                        result_error(result, errno, "seccomp(SET_MODE_FILTER)");
        } else if (syscall(SYS_getppid) < 0 && errno == ENOTNAM)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "a filtered call was let through");
}

void try_notify(struct probe_result *result) {
        cleanup(close_fd) int listener = (int)filter_getppid(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (listener < 0) {
                if (errno == EINVAL)
                        result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, errno, "seccomp(NEW_LISTENER)");
                else if (errno == EBUSY) /* one listener at a time: somebody above has it */
                        result_fail(result, PROBE_BLOCKED, CAUSE_SECCOMP, errno, "seccomp(NEW_LISTENER)");
                else
                        result_error(result, errno, "seccomp(NEW_LISTENER)");

                return;
        }

        /* Nobody waits, so a kernel that knows the request says that there is no such notification. */
        struct seccomp_notif_addfd request = { .id = 1, .srcfd = (uint32_t)listener };
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &request) < 0 && errno == ENOENT)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, errno, "SECCOMP_IOCTL_NOTIF_ADDFD");
}

void try_openat2(struct probe_result *result) {
        struct {
                uint64_t flags, mode, resolve;
        } how = { .flags = O_PATH | O_CLOEXEC, .resolve = OPENAT2_NO_SYMLINKS };
        cleanup(close_fd) int root = (int)syscall(SYS_OPENAT2, AT_FDCWD, "/", &how, sizeof how);
        if (root < 0) {
                result_error(result, errno, "openat2");
                return;
        }

        cleanup(close_fd) int link = (int)syscall(SYS_OPENAT2, AT_FDCWD, "/proc/self/exe", &how, sizeof how);
        if (link < 0 && errno == ELOOP)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, errno, "a link was followed");
}

void try_clone3(struct probe_result *result) {
        int pidfd = -1;
        struct clone_args args = { .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd, .exit_signal = SIGCHLD };
        pid_t pid = (pid_t)syscall(SYS_CLONE3, &args, sizeof args);
        if (pid == 0)
                _exit(0);

        if (pid < 0) {
                result_error(result, errno, "clone3");
                return;
        }

        cleanup(close_fd) int fd = pidfd;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;

        if (fd >= 0)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_MISSING, CAUSE_UNEXPECTED, 0, "clone3 gave no pidfd");
}

void try_pidfd(struct probe_result *result) {
        cleanup(close_fd) int fd = (int)syscall(SYS_PIDFD_OPEN, getpid(), 0);
        if (fd < 0)
                result_error(result, errno, "pidfd_open");
        else if (syscall(SYS_PIDFD_SEND_SIGNAL, fd, 0, NULL, 0) < 0)
                result_error(result, errno, "pidfd_send_signal");
        else
                result_works(result, NULL);
}

void try_memfd_secret(struct probe_result *result) {
        cleanup(close_fd) int fd = (int)syscall(SYS_MEMFD_SECRET, 0);
        int error = errno;

        if (fd >= 0)
                result_works(result, NULL);
        else if (error == ENOSYS && !under_seccomp_filter() && access("/sys/module/secretmem", F_OK) == 0)
                result_fail(result, PROBE_BLOCKED, CAUSE_SECRETMEM, error, "memfd_secret");
        else
                result_error(result, error, "memfd_secret");
}

void try_yama(struct probe_result *result) {
        long scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
        char detail[48];

        (void)snprintf(detail, sizeof detail, "kernel.yama.ptrace_scope = %ld", scope);

        if (scope > 0)
                result_works(result, detail);
        else if (scope == 0)
                result_fail(result, PROBE_BLOCKED, CAUSE_OFF, 0, detail);
        else
                result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, ENOENT, "kernel.yama.ptrace_scope");
}
