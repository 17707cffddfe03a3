/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call filters, asked as the kernel asks them: every answer for foreign architectures, for the second set of
 * numbers that x86 has, and for arguments with bits that the kernel ignores can be had on any machine.
 */
#include "plan/embedded.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../cmocka_all.h"

#if defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#endif
#define REFUSED(error) (SECCOMP_RET_ERRNO | (error))
#define IGNORED (1ULL << 40)

static const struct {
        const char *name;
        const struct str *code;
} filters[] = {
        { "ordinary", &embedded_seccomp },        { "with sockets watched", &embedded_seccomp_sockets },
        { "nesting", &embedded_seccomp_nesting }, { "degraded", &embedded_seccomp_degraded },
        { "unheld", &embedded_seccomp_unheld },
};
enum { FILTERS = sizeof filters / sizeof *filters };

static bool jumps(const struct sock_filter *c, uint32_t a) {
        switch (BPF_OP(c->code)) {
        case BPF_JEQ:
                return a == c->k;
        case BPF_JGT:
                return a > c->k;
        case BPF_JGE:
                return a >= c->k;
        case BPF_JSET:
                return a & c->k;
        default:
                fail_msg("an instruction that this machine does not know: %#x", c->code);
                return false;
        }
}

/* The part of the machine that filters use. */
static uint32_t ask_data(struct str filter, const struct seccomp_data *data) {
        const struct sock_filter *code = (const struct sock_filter *)(const void *)filter.p;
        size_t n = filter.n / sizeof *code;
        uint32_t a = 0;
        for (size_t i = 0; i < n; i++) {
                const struct sock_filter *c = &code[i];
                if (c->code == (BPF_LD | BPF_W | BPF_ABS) && c->k + sizeof a <= sizeof *data)
                        memcpy(&a, (const char *)data + c->k, sizeof a);
                else if (c->code == (BPF_ALU | BPF_AND | BPF_K))
                        a &= c->k;
                else if (c->code == (BPF_RET | BPF_K))
                        return c->k;
                else if (c->code == (BPF_JMP | BPF_JA))
                        i += c->k;
                else if (BPF_CLASS(c->code) == BPF_JMP)
                        i += jumps(c, a) ? c->jt : c->jf;
                else
                        fail_msg("an instruction that this machine does not know: %#x", c->code);
        }
        fail_msg("the filter has no end");
        return 0;
}

static uint32_t ask(struct str filter, int nr, uint64_t a0, uint64_t a1, uint64_t a2) {
        struct seccomp_data data = { .nr = nr, .arch = THIS_ARCHITECTURE, .args = { a0, a1, a2 } };
        return ask_data(filter, &data);
}

static void foreign_architectures_end_it(void **state) {
        (void)state;
        static const uint32_t foreign[] = { AUDIT_ARCH_I386,
                                            AUDIT_ARCH_ARM,
                                            AUDIT_ARCH_AARCH64,
                                            AUDIT_ARCH_X86_64,
                                            AUDIT_ARCH_RISCV64,
                                            AUDIT_ARCH_PPC64LE,
                                            0 };
        for (size_t f = 0; f < FILTERS; f++)
                for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
                        for (int nr = 0; nr < 600 && foreign[i] != THIS_ARCHITECTURE; nr++) {
                                struct seccomp_data data = { .nr = nr, .arch = foreign[i] };
                                assert_int_equal(ask_data(*filters[f].code, &data), SECCOMP_RET_KILL_PROCESS);
                        }
}

static void namespaces_are_refused(void **state) {
        (void)state;
        static const uint64_t kinds[] = { CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                          CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP };
        for (size_t f = 0; f < FILTERS; f++) {
                struct str filter = *filters[f].code;
                if (filters[f].code == &embedded_seccomp_nesting)
                        continue;
                for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                        assert_int_equal(ask(filter, SYS_clone, kinds[i] | SIGCHLD, 0, 0), REFUSED(EPERM));
                        assert_int_equal(ask(filter, SYS_clone, IGNORED | kinds[i] | SIGCHLD, 0, 0), REFUSED(EPERM));
                        assert_int_equal(ask(filter, SYS_unshare, IGNORED | kinds[i], 0, 0), REFUSED(EPERM));
                }
                assert_int_equal(ask(filter, SYS_unshare, 0x80 /* time */, 0, 0), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_clone, CLONE_VM | CLONE_THREAD | SIGCHLD, 0, 0), SECCOMP_RET_ALLOW);
                assert_int_equal(ask(filter, SYS_clone3, 0, 0, 0), REFUSED(ENOSYS));
        }
}

static void sockets_are_of_few_families(void **state) {
        (void)state;
        for (size_t f = 0; f < FILTERS; f++)
                for (uint64_t n = 0; n < 64; n++) {
                        struct str filter = *filters[f].code;
                        bool internet = n == AF_INET || n == AF_INET6;
                        bool known = n == AF_UNIX || n == AF_NETLINK || internet;
                        bool here = known && !(internet && filters[f].code == &embedded_seccomp_unheld);
                        assert_int_equal(ask(filter, SYS_socket, n, SOCK_STREAM, 0),
                                         here ? SECCOMP_RET_ALLOW : REFUSED(EPERM));
                        assert_int_equal(ask(filter, SYS_socketpair, n, SOCK_STREAM, 0),
                                         known ? SECCOMP_RET_ALLOW : REFUSED(EPERM));
                        assert_int_equal(ask(filter, SYS_socket, IGNORED | n, SOCK_STREAM, 0), REFUSED(EPERM));
                        assert_int_equal(ask(filter, SYS_socket, AF_NETLINK, SOCK_RAW, n),
                                         n ? REFUSED(EPERM) : SECCOMP_RET_ALLOW); /* here a protocol */
                }
}

static void calls_are_refused(void **state) {
        (void)state;
        static const int refused[] = {
                SYS_init_module,
                SYS_finit_module,
                SYS_delete_module,
                SYS_kexec_load,
                SYS_bpf,
                SYS_perf_event_open,
                SYS_userfaultfd,
                SYS_keyctl,
                SYS_add_key,
                SYS_request_key,
                SYS_open_by_handle_at,
                SYS_fanotify_init,
                SYS_acct,
                SYS_swapon,
                SYS_reboot,
                SYS_syslog,
                SYS_settimeofday,
                SYS_quotactl,
                425 /* io_uring_setup */,
                467 /* open_tree_attr */,
#ifdef __x86_64__
                SYS_iopl,
                SYS_ioperm,
                SYS_modify_ldt,
                SYS_uselib,
                SYS_ustat,
                SYS_sysfs,
                SYS__sysctl,
                SYS_vserver,
#endif
        };
        for (size_t f = 0; f < FILTERS; f++)
                for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
                        assert_int_equal(ask(*filters[f].code, refused[i], 0, 0, 0), REFUSED(EPERM));
}

/* What a sandbox inside the sandbox is made with. */
static void mounts_are_refused_unless_nested(void **state) {
        (void)state;
        static const int calls[] = {
                SYS_mount,       SYS_umount2,         SYS_pivot_root,       SYS_chroot,       SYS_setns,
                SYS_sethostname, 428 /* open_tree */, 429 /* move_mount */, 430 /* fsopen */, 442 /* mount_setattr */,
        };
        for (size_t f = 0; f < FILTERS; f++) {
                bool nested = filters[f].code == &embedded_seccomp_nesting;
                uint32_t wanted = nested ? SECCOMP_RET_ALLOW : REFUSED(EPERM);
                for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
                        assert_int_equal(ask(*filters[f].code, calls[i], 0, 0, 0), wanted);
        }
        assert_int_equal(ask(embedded_seccomp_nesting, SYS_unshare, CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(embedded_seccomp_nesting, SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(embedded_seccomp_nesting, SYS_clone3, 0, 0, 0), REFUSED(ENOSYS));
}

static void arguments_are_seen_as_the_kernel_sees_them(void **state) {
        (void)state;
        for (size_t f = 0; f < FILTERS; f++) {
                struct str filter = *filters[f].code;
                assert_int_equal(ask(filter, SYS_ioctl, 0, TIOCSTI, 0), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_ioctl, 0, IGNORED | TIOCSTI, 0), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_ioctl, 0, IGNORED | TIOCSETD, 0), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_ioctl, 0, TIOCGWINSZ, 0), SECCOMP_RET_ALLOW);
                assert_int_equal(ask(filter, SYS_prlimit64, IGNORED | 1, 7, 1), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_prlimit64, 0, 7, 1), SECCOMP_RET_ALLOW);
                assert_int_equal(ask(filter, SYS_fchmod, 0, IGNORED | 04755, 0), REFUSED(EPERM));
                assert_int_equal(ask(filter, SYS_fchmod, 0, 02755, 0), SECCOMP_RET_ALLOW);
#ifdef __x86_64__
                assert_int_equal(ask(filter, SYS_chmod, 0, IGNORED | 04755, 0), REFUSED(EPERM));
#endif
        }
}

static void programs_have_what_they_need(void **state) {
        (void)state;
        static const int needed[] = {
                SYS_read,  SYS_write, SYS_openat,    SYS_close, SYS_execve, SYS_mmap,   SYS_mprotect, SYS_futex,
                SYS_exit,  SYS_kill,  SYS_wait4,     SYS_pipe2, SYS_dup3,   SYS_bind,   SYS_connect,  SYS_sendmsg,
                SYS_statx, SYS_rseq,  SYS_getrandom,
#ifdef __x86_64__
                SYS_open,  SYS_stat,  SYS_fork,      SYS_vfork, SYS_access, SYS_rename, SYS_poll,     SYS_arch_prctl,
#endif
        };
        for (size_t f = 0; f < FILTERS; f++)
                for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
                        assert_int_equal(ask(*filters[f].code, needed[i], 0, 0, 0), SECCOMP_RET_ALLOW);
}

/* Among them, on x86, what x32 alone has: before Linux 5.4 the numbers 512 to 547 worked without x32's bit too, an
 * ioctl and a ptrace that no rule names. */
static void calls_of_the_future_do_not_exist(void **state) {
        (void)state;
        for (size_t f = 0; f < FILTERS; f++)
                for (int nr = 470; nr < 2000; nr++)
                        assert_int_equal(ask(*filters[f].code, nr, 0, 0, 0), REFUSED(ENOSYS));
}

#ifdef __x86_64__
/* With bit 30 a number is one of x32, whose calls have other layouts. */
static void second_numbers_are_refused(void **state) {
        (void)state;
        for (size_t f = 0; f < FILTERS; f++) {
                for (int nr = 0; nr < 600; nr++)
                        assert_int_equal(ask(*filters[f].code, 0x40000000 | nr, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
        }
}
#endif

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(foreign_architectures_end_it),
                cmocka_unit_test(namespaces_are_refused),
                cmocka_unit_test(sockets_are_of_few_families),
                cmocka_unit_test(calls_are_refused),
                cmocka_unit_test(mounts_are_refused_unless_nested),
                cmocka_unit_test(arguments_are_seen_as_the_kernel_sees_them),
                cmocka_unit_test(programs_have_what_they_need),
                cmocka_unit_test(calls_of_the_future_do_not_exist),
#ifdef __x86_64__
                cmocka_unit_test(second_numbers_are_refused),
#endif
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
