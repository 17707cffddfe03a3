/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the system call filters. They allow everything that programs normally use and refuse the part of the kernel
 * that only attackers, administrators and other sandboxes need. A refused call gives EPERM, so that software which
 * tries and falls back does fall back. clone3 gives ENOSYS: its flags are behind a pointer that a filter cannot follow,
 * and callers then use clone, whose flags it can see.
 *
 * Arguments that the kernel takes as 32 bits are compared as 32 bits: upper bits that the kernel would ignore change
 * nothing. The architecture is checked before anything else, and x32 numbers are foreign. Calls that are newer than
 * this file do not exist (ENOSYS): a call must be reviewed before a sandbox may make it.
 */
#include "plan/gen/filter_emit.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EPERM_ACTION SCMP_ACT_ERRNO(EPERM)
#define LOW32 0xffffffffu

static void must_work(int r, const char *what) {
        if (r < 0) {
                fprintf(stderr, "seccomp generator: %s: error %d\n", what, -r);
                exit(1);
        }
}

/* By number as well as by name: the library may be older than the call. */
static const char *const refused[] = {
        /* kernel code and its replacement */
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "iopl",
        "ioperm",
        "modify_ldt",
        /* keys, handles, other processes' descriptors */
        "keyctl",
        "add_key",
        "request_key",
        "open_by_handle_at",
        "kcmp",
        "fanotify_init",
        /* the machine */
        "acct",
        "swapon",
        "swapoff",
        "reboot",
        "syslog",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "adjtimex",
        "quotactl",
        "quotactl_fd",
        "nfsservctl",
        "lookup_dcookie",
        "vhangup",
        "uselib",
        "vserver",
        "_sysctl",
        "sysfs",
        "ustat",
};
/* What a sandbox inside the sandbox is made with: open with `process.nesting` only. */
static const char *const refused_unless_nested[] = {
        "mount",  "umount",   "umount2", "pivot_root", "chroot",        "setns",       "open_tree",     "move_mount",
        "fsopen", "fsconfig", "fsmount", "fspick",     "mount_setattr", "sethostname", "setdomainname",
};
/* Newer than the library: the same number on every architecture (the unified table from 424 on). */
enum { FCHMODAT2 = 452, OPEN_TREE_ATTR = 467, FILE_SETATTR = 469, NEWEST = FILE_SETATTR };
static const int refused_numbers[] = { OPEN_TREE_ATTR };

static void refuse_names(scmp_filter_ctx ctx, const char *const *names, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int nr = seccomp_syscall_resolve_name(names[i]);
                if (nr == __NR_SCMP_ERROR) {
                        fprintf(stderr, "seccomp generator: unknown call %s\n", names[i]);
                        exit(1);
                }
                if (nr >= 0) /* negative: not on this architecture */
                        must_work(seccomp_rule_add(ctx, EPERM_ACTION, nr, 0), names[i]);
        }
}

static void refuse_calls(scmp_filter_ctx ctx) {
        refuse_names(ctx, refused, sizeof refused / sizeof *refused);
        for (size_t i = 0; i < sizeof refused_numbers / sizeof *refused_numbers; i++)
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, refused_numbers[i], 0), "number");
        must_work(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), "clone3");
}

static void refuse_namespaces(scmp_filter_ctx ctx) {
        static const uint32_t flags[] = {
                0x10000000 /* user */, 0x00020000 /* mount */, 0x20000000 /* pid */,    0x40000000 /* net */,
                0x08000000 /* ipc */,  0x04000000 /* uts */,   0x02000000 /* cgroup */, 0x00000080 /* time */,
        };

        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
                if (flags[i] != 0x80) /* in clone those bits are the exit signal */
                        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(clone), 1,
                                                   SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i])),
                                  "clone");
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(unshare), 1,
                                           SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i])),
                          "unshare");
        }
}

/* UNIX 1, INET 2, INET6 10, NETLINK 16 with protocol 0 (route). All others, by ranges: a value with upper bits set is
 * above the last range's start, so it is refused too. */
static void refuse_families(scmp_filter_ctx ctx) {
        static const uint32_t between[] = { 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15 };
        const int calls[] = { SCMP_SYS(socket), SCMP_SYS(socketpair) };
        for (size_t c = 0; c < 2; c++) {
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, calls[c], 1, SCMP_A0(SCMP_CMP_EQ, 0)), "family 0");
                for (size_t i = 0; i < sizeof between / sizeof *between; i++)
                        must_work(seccomp_rule_add(ctx, EPERM_ACTION, calls[c], 1, SCMP_A0(SCMP_CMP_EQ, between[i])),
                                  "family");
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, calls[c], 1, SCMP_A0(SCMP_CMP_GE, 17)), "families above");
        }
        must_work(
            seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, 16), SCMP_A2(SCMP_CMP_NE, 0)),
            "netlink");
}

/* Bytes pushed into the terminal's input would be read by the shell outside; line disciplines are kernel surface. */
static void refuse_terminal_tricks(scmp_filter_ctx ctx) {
        static const uint32_t requests[] = { 0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x5423 /* TIOCSETD */ };
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(ioctl), 1,
                                           SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, requests[i])),
                          "ioctl");
}

/* File systems have calls of their own that make and remove names: volumes and snapshots of btrfs and bcachefs, a copy
 * by name of ocfs2. Nobody judges those names, and Landlock does not know of them. Calls that share content between
 * open files (FICLONE and its kin, which have btrfs's type) are not among them. */
static void refuse_names_by_ioctl(scmp_filter_ctx ctx) {
        static const uint32_t requests[] = {
                0x50009401 /* BTRFS_IOC_SNAP_CREATE */,   0x50009417 /* BTRFS_IOC_SNAP_CREATE_V2 */,
                0x5000940e /* BTRFS_IOC_SUBVOL_CREATE */, 0x50009418 /* BTRFS_IOC_SUBVOL_CREATE_V2 */,
                0x5000940f /* BTRFS_IOC_SNAP_DESTROY */,  0x5000943f /* BTRFS_IOC_SNAP_DESTROY_V2 */,
                0x40186f04 /* OCFS2_IOC_REFLINK */,
        };
        const uint32_t type = 0xff00, bcachefs = 0xbc00;

        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(ioctl), 1,
                                           SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, requests[i])),
                          "ioctl that makes names");
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, type, bcachefs)),
                  "ioctl of bcachefs");
}

static void refuse_internet(scmp_filter_ctx ctx) {
        static const uint32_t families[] = { 2, 10 };
        for (size_t f = 0; f < 2; f++)
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, families[f])),
                          "internet");
}

/* Without a network namespace nothing stops datagrams and raw sockets but this; without a pid namespace other processes
 * of the user are visible. Landlock covers connect() of TCP, and only that: a stream of another protocol (multipath
 * TCP) is none of its business, and fast open connects within a send, where it does not look. */
static void refuse_degraded(scmp_filter_ctx ctx) {
        static const uint32_t families[] = { 2, 10 };

        for (size_t f = 0; f < 2; f++)
                for (uint32_t type = 0; type < 16; type++)
                        if (type != 1)
                                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(socket), 2,
                                                           SCMP_A0(SCMP_CMP_EQ, families[f]),
                                                           SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, type)),
                                          "socket type");

        for (size_t f = 0; f < 2; f++) {
                for (uint32_t protocol = 1; protocol < 6; protocol++)
                        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(socket), 2,
                                                   SCMP_A0(SCMP_CMP_EQ, families[f]), SCMP_A2(SCMP_CMP_EQ, protocol)),
                                  "socket protocol");
                must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, families[f]),
                                           SCMP_A2(SCMP_CMP_GE, 7)),
                          "socket protocols above TCP");
        }

        const uint32_t fast_open = 0x20000000; /* MSG_FASTOPEN */
        must_work(
            seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(sendto), 1, SCMP_A3(SCMP_CMP_MASKED_EQ, fast_open, fast_open)),
            "sendto");
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(sendmsg), 1,
                                   SCMP_A2(SCMP_CMP_MASKED_EQ, fast_open, fast_open)),
                  "sendmsg");
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(sendmmsg), 1,
                                   SCMP_A3(SCMP_CMP_MASKED_EQ, fast_open, fast_open)),
                  "sendmmsg");

        /* A limit of processor time ends a process as surely as a signal, and Landlock looks only at signals. */
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_NE, 0),
                                   SCMP_A2(SCMP_CMP_NE, 0)),
                  "prlimit64");
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(ptrace), 0), "ptrace");
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(process_vm_writev), 0), "process_vm_writev");
}

/* Where there is a watcher it does this, and the command's own filter refuses it
 * (sandbox/linux/watcher/watcher_filter.c). */
static void refuse_looks(scmp_filter_ctx ctx) {
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(process_vm_readv), 0), "process_vm_readv");
}

/* A file with this bit would run as the sandbox's owner for every other user of the machine, and outlive the sandbox.
 * The kernel takes the bit away when something is written, so it matters only for files that are complete: a mode at
 * creation (behind a pointer in openat2) does not. The same bit for groups is of daily use with directories. */
static void refuse_set_user_id(scmp_filter_ctx ctx) {
        static const struct {
                const char *call;
                unsigned mode; /* the number of its argument */
        } calls[] = { { "chmod", 1 }, { "fchmod", 1 }, { "fchmodat", 2 } };
        const uint32_t bit = S_ISUID;

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                int nr = seccomp_syscall_resolve_name(calls[i].call);
                if (nr >= 0)
                        must_work(seccomp_rule_add(ctx, EPERM_ACTION, nr, 1,
                                                   SCMP_CMP(calls[i].mode, SCMP_CMP_MASKED_EQ, bit, bit)),
                                  calls[i].call);
        }
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, FCHMODAT2, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, bit, bit)),
                  "fchmodat2");
}

/* Process 1 is Bailey's own and of the same user: its limits are not for the program to lower. */
static void refuse_limits_of_init(scmp_filter_ctx ctx) {
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, 1),
                                   SCMP_A2(SCMP_CMP_NE, 0)),
                  "prlimit64 of init");
}

/* Where the broker acts on sockets of its callers it takes copies of them; the command's own filter refuses the call
 * (sandbox/linux/broker/broker_filter.c). */
static void refuse_descriptors_of_others(scmp_filter_ctx ctx) {
        must_work(seccomp_rule_add(ctx, EPERM_ACTION, SCMP_SYS(pidfd_getfd), 0), "pidfd_getfd");
}

#if defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#error "the filter does not know this architecture"
#endif
enum { X32_BIT = 0x40000000 };

/* What is newer ends here; foreign architectures, and the bit that makes a number one, are for the filter behind it. */
static void emit_with_front(const char *name, const void *filter, size_t n) {
        const struct sock_filter front[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 0, 4),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        };

        char *whole = malloc(sizeof front + n);
        if (!whole) {
                must_work(-ENOMEM, "front");
                return;
        }

        memcpy(whole, front, sizeof front);
        memcpy(whole + sizeof front, filter, n);
        emit_filter(name, whole, sizeof front + n);
        free(whole);
}

enum kind { ORDINARY, WITH_SOCKETS_WATCHED, NESTING, DEGRADED, UNHELD, WATCHED };

static void make_filter(const char *name, enum kind kind) {
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
        if (!ctx)
                must_work(-ENOMEM, "init");
        must_work(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "architecture");
        must_work(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "binary tree");

        refuse_calls(ctx);
        if (kind != NESTING) {
                refuse_names(ctx, refused_unless_nested, sizeof refused_unless_nested / sizeof *refused_unless_nested);
                refuse_namespaces(ctx);
        }
        refuse_families(ctx);
        refuse_terminal_tricks(ctx);
        refuse_names_by_ioctl(ctx);
        refuse_set_user_id(ctx);

        if (kind != WITH_SOCKETS_WATCHED && kind != WATCHED)
                refuse_descriptors_of_others(ctx);
        if (kind == UNHELD)
                refuse_internet(ctx);
        if (kind == DEGRADED || kind == UNHELD)
                refuse_looks(ctx);
        if (kind == DEGRADED || kind == UNHELD || kind == WATCHED)
                refuse_degraded(ctx);
        else
                refuse_limits_of_init(ctx);

        int fd = memfd_create(name, 0);
        struct stat st;
        if (fd < 0)
                must_work(-errno, "memfd");
        must_work(seccomp_export_bpf(ctx, fd), "export");
        if (fstat(fd, &st) < 0)
                must_work(-errno, "size");
        void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
                must_work(-errno, "map");

        emit_with_front(name, bytes, (size_t)st.st_size);
        munmap(bytes, (size_t)st.st_size);
        close(fd);
        seccomp_release(ctx);
}

static void print_names(const char *const *names, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int nr = seccomp_syscall_resolve_name(names[i]);
                if (nr >= 0)
                        printf("        { %d, \"%s\" },\n", nr, names[i]);
        }
}

/* Names for reports: every call that a filter may refuse. */
static void emit_names(void) {
        static const char *const partly[] = {
                "clone",  "clone3",    "unshare",     "socket", "socketpair", "ioctl",
                "ptrace", "prlimit64", "pidfd_getfd", "chmod",  "fchmod",     "fchmodat"
        };
        printf("const struct embedded_call embedded_refused_calls[] = {\n");
        print_names(refused, sizeof refused / sizeof *refused);
        print_names(refused_unless_nested, sizeof refused_unless_nested / sizeof *refused_unless_nested);
        print_names(partly, sizeof partly / sizeof *partly);
        printf("        { -1, NULL },\n};\n");
}

int main(void) {
        /* The kernel that counts is not the one that this runs on (a container, another architecture's emulator). */
        must_work(seccomp_api_set(3), "kinds of actions");
        printf("/* Made by src/plan/gen/seccomp.c. */\n#include \"plan/embedded.h\"\n");
        make_filter("embedded_seccomp", ORDINARY);
        make_filter("embedded_seccomp_sockets", WITH_SOCKETS_WATCHED);
        make_filter("embedded_seccomp_nesting", NESTING);
        make_filter("embedded_seccomp_degraded", DEGRADED);
        make_filter("embedded_seccomp_unheld", UNHELD);
        make_filter("embedded_seccomp_watched", WATCHED);
        emit_names();
        return 0;
}
