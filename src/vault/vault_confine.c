/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault parses no traffic, yet it answers a process that does. So its filter keeps a bug from becoming more than a
 * wrong answer: it cannot open, connect, execute, fork or signal. Landlock without a rule says the same about files a
 * second time, where the kernel has it.
 */
#include "vault/vault_confine.h"

#include "base/cleanup.h"
#include "base/processes/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const int allowed[] = {
        SCMP_SYS(read),
        SCMP_SYS(write),
        SCMP_SYS(writev),
        SCMP_SYS(close),
        SCMP_SYS(lseek),
        SCMP_SYS(fstat),
        SCMP_SYS(recvmsg),
        SCMP_SYS(sendmsg),
        SCMP_SYS(poll),
        SCMP_SYS(ppoll),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_getres),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(time),
        SCMP_SYS(getrandom),
        SCMP_SYS(brk),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(mlock),
        SCMP_SYS(mlock2),
        SCMP_SYS(munlock),
        SCMP_SYS(memfd_secret),
        SCMP_SYS(ftruncate),
        SCMP_SYS(futex),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(sigaltstack),
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(getppid),
        SCMP_SYS(getuid),
        SCMP_SYS(geteuid),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        SCMP_SYS(sysinfo),
        SCMP_SYS(sched_yield),
        SCMP_SYS(membarrier),
};

/* What libraries try and can do without. */
static const struct {
        int call, error;
} softly[] = {
        { SCMP_SYS(open), ENOENT },       { SCMP_SYS(openat), ENOENT },   { SCMP_SYS(stat), ENOENT },
        { SCMP_SYS(newfstatat), ENOENT }, { SCMP_SYS(statx), ENOENT },    { SCMP_SYS(access), ENOENT },
        { SCMP_SYS(faccessat), ENOENT },  { SCMP_SYS(readlink), ENOENT }, { SCMP_SYS(readlinkat), ENOENT },
        { SCMP_SYS(ioctl), ENOTTY },      { SCMP_SYS(prctl), EPERM },     { SCMP_SYS(prlimit64), EPERM },
        { SCMP_SYS(kill), EPERM },
};

static void filter_release(scmp_filter_ctx *filter) {
        if (*filter)
                seccomp_release(*filter);
}

static int fill_vault(scmp_filter_ctx filter) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(allowed); i++)
                if (allowed[i] >= 0)
                        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);

        for (size_t i = 0; r == 0 && i < COUNT(softly); i++)
                if (softly[i].call >= 0)
                        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint16_t)softly[i].error), softly[i].call, 0);

        const int memory[] = { SCMP_SYS(mmap), SCMP_SYS(mprotect) };
        for (size_t i = 0; r == 0 && i < COUNT(memory); i++)
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, memory[i], 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

        const int fcntls[] = { F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_GET_SEALS };
        for (size_t i = 0; r == 0 && i < COUNT(fcntls); i++)
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                                     SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)fcntls[i]));

        if (r == 0) /* abort() signals itself */
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));

        return r;
}

static int fill_reader(scmp_filter_ctx filter) {
        const int refused[] = { SCMP_SYS(execve),
                                SCMP_SYS(execveat),
                                SCMP_SYS(socket),
                                SCMP_SYS(socketpair),
                                SCMP_SYS(ptrace),
                                SCMP_SYS(process_vm_readv),
                                SCMP_SYS(bpf),
                                SCMP_SYS(process_vm_writev),
                                SCMP_SYS(io_uring_setup),
                                SCMP_SYS(mount),
                                SCMP_SYS(unshare),
                                SCMP_SYS(setns) };
        int r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(refused); i++)
                if (refused[i] >= 0)
                        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);

        return r;
}

static int confine_load(uint32_t otherwise, int (*fill)(scmp_filter_ctx), struct err *err) {
        cleanup(filter_release) scmp_filter_ctx filter = seccomp_init(otherwise);
        if (!filter)
                return err_set(err, ENOMEM, "cannot create the system call filter");
        int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r >= 0)
                r = fill(filter);
        if (r >= 0)
                r = seccomp_load(filter);
        if (r < 0)
                return err_set(err, -r, "cannot load the system call filter: %s", strerror(-r));

        return 0;
}

int confine_vault(struct err *err) {
        int r = confine_privileges(err);
        if (r == 0 && !SANITIZED)
                r = confine_files(false, err);
        if (r == 0 && !SANITIZED)
                r = confine_load(SCMP_ACT_KILL_PROCESS, fill_vault, err);
        if (r < 0)
                return err_wrap(err, r, "while the vault confined itself");

        return 0;
}

int confine_reader(bool programs, const struct reader_places *places, struct err *err) {
        (void)places;
        if (programs)
                return 0;
        /* Capabilities stay: root reads files of others for what they are. */
        int r = 0;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = err_errno(err, "cannot set NO_NEW_PRIVS");

        if (r == 0 && !SANITIZED)
                r = confine_load(SCMP_ACT_ALLOW, fill_reader, err);
        if (r < 0)
                return err_wrap(err, r, "while the vault's reader confined itself");

        return 0;
}
