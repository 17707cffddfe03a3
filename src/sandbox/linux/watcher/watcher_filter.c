/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of a watched command, on top of the sandbox's main one: calls that are handed over, and calls that nobody
 * can judge.
 *
 * A datagram socket of the Unix family names a receiver with every message, behind a pointer: there are none. The newer
 * calls that change attributes have their arguments behind pointers too, and do not exist; programs use the older ones.
 * Flags of files (chattr), and more that stays with them, are set by an ioctl, on any file that is open.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/watcher/watcher.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
enum { SETXATTRAT = 463, REMOVEXATTRAT = 466, FILE_SETATTR = 469 };

#if defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#error "the watcher's filter does not know this architecture"
#endif

enum { CODE_MAX = 160 };

struct program {
        struct sock_filter code[CODE_MAX];
        unsigned short n;
        uint32_t handed_over; /* what becomes of the calls that the watcher judges */
};

static void filter_put(struct program *program, struct sock_filter instruction) {
        program->code[program->n++] = instruction;
}

static void put_load(struct program *program, size_t offset) {
        filter_put(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void put_return(struct program *program, uint32_t action) {
        filter_put(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* The number of the call is in the accumulator: when it is this one, so. */
static void when_call(struct program *program, int nr, uint32_t action) {
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1));
        put_return(program, action);
}

/* Of this call, `n` instructions that end with a verdict for it. */
static void of_call(struct program *program, int nr, uint8_t n) {
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, n));
}

/* Scheduling of the caller itself, number 0, is nobody's business. */
static void put_scheduling(struct program *program, int nr) {
        of_call(program, nr, 4);
        put_load(program, offsetof(struct seccomp_data, args[0]));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1));
        put_return(program, SECCOMP_RET_ALLOW);
        put_return(program, program->handed_over);
}

/* The kind of an ioctl() that file systems have for flags, encryption and verity. */
enum { FILE_TYPE_MASK = 0xff00, FILE_TYPE = 'f' << 8 };

/* Calls that change a file, or the directory's own state, through a descriptor that was opened for reading: the kernel
 * asks who owns it, and Landlock is not asked. Of the kind that file systems have for this, only what looks passes. */
static void put_file_flags(struct program *program) {
        static const uint32_t refused[] = {
                (uint32_t)FS_IOC_FSSETXATTR,
                0x40087602 /* FS_IOC_SETVERSION */,
                0x4008941a /* BTRFS_IOC_SUBVOL_SETFLAGS */,
                0xc0c89425 /* BTRFS_IOC_SET_RECEIVED_SUBVOL */,
                0xc0c09425 /* the same, as programs of 32 bits call it; the kernel takes it from all */,
                0x40047211 /* FAT_IOCTL_SET_ATTRIBUTES */,
        };
        static const uint32_t looks[] = { (uint32_t)FS_IOC_GETFLAGS, 0xc020660b /* FS_IOC_FIEMAP */,
                                          0xc0046686 /* FS_IOC_MEASURE_VERITY */ };
        enum { REFUSED = sizeof refused / sizeof *refused, LOOKS = sizeof looks / sizeof *looks };
        const uint32_t no = SECCOMP_RET_ERRNO | EPERM;

        of_call(program, SYS_ioctl, 1 + 2 * (REFUSED + LOOKS) + 4);
        put_load(program, offsetof(struct seccomp_data, args[1]));
        for (size_t i = 0; i < REFUSED; i++)
                when_call(program, (int)refused[i], no);
        for (size_t i = 0; i < LOOKS; i++)
                when_call(program, (int)looks[i], SECCOMP_RET_ALLOW);

        filter_put(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FILE_TYPE_MASK));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILE_TYPE, 0, 1));
        put_return(program, no);
        put_return(program, SECCOMP_RET_ALLOW);
}

/* The kernel takes only the lower four bits of the type. Without a watcher there are pairs alone. */
static void put_sockets(struct program *program, int nr, bool watched) {
        const uint32_t refused = SECCOMP_RET_ERRNO | EPERM;

        of_call(program, nr, 9);
        put_load(program, offsetof(struct seccomp_data, args[0]));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
        put_return(program, watched ? SECCOMP_RET_ALLOW : refused);
        put_load(program, offsetof(struct seccomp_data, args[1]));
        filter_put(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_RAW, 0, 1));
        put_return(program, refused);
        put_return(program, watched || nr == SYS_socketpair ? SECCOMP_RET_ALLOW : refused);
}

static void make_program(struct program *program, bool watched) {
        *program = (struct program){ .handed_over = watched ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM };

        put_load(program, offsetof(struct seccomp_data, arch));
        filter_put(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
        put_return(program, SECCOMP_RET_ALLOW); /* the main filter ends it */
        put_load(program, offsetof(struct seccomp_data, nr));

        put_scheduling(program, SYS_sched_setaffinity);
        put_scheduling(program, SYS_sched_setscheduler);
        put_scheduling(program, SYS_sched_setparam);
        put_scheduling(program, SYS_sched_setattr);

        for (size_t i = 0; i < watched_sockets_n; i++)
                when_call(program, watched_sockets[i].nr, program->handed_over);

        for (size_t i = 0; i < watched_attributes_n; i++)
                when_call(program, watched_attributes[i].nr, program->handed_over);

        when_call(program, SETXATTRAT, SECCOMP_RET_ERRNO | ENOSYS);
        when_call(program, REMOVEXATTRAT, SECCOMP_RET_ERRNO | ENOSYS);
        when_call(program, FILE_SETATTR, SECCOMP_RET_ERRNO | ENOSYS);
        when_call(program, SYS_migrate_pages, SECCOMP_RET_ERRNO | EPERM);
        when_call(program, SYS_move_pages, SECCOMP_RET_ERRNO | EPERM);
        when_call(program, SYS_pidfd_getfd,
                  SECCOMP_RET_ERRNO | EPERM); /* the main filter leaves these to the watcher */
        when_call(program, SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM);
        put_file_flags(program);
        put_sockets(program, SYS_socket, watched);
        put_sockets(program, SYS_socketpair, watched);
        put_return(program, SECCOMP_RET_ALLOW);
}

static long load_program(const struct program *p, unsigned long flags) {
        const struct sock_fprog program = { p->n, (struct sock_filter *)p->code };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static bool can_copy_descriptors(void) {
        return syscall(SYS_pidfd_getfd, -1, -1, 0) < 0 && errno == EBADF;
}

int watcher_enter(int channel, struct err *err) {
        struct program program;
        cleanup(close_fd) int notify = -1;

        if (can_copy_descriptors()) {
                make_program(&program, true);
                notify = (int)load_program(&program,
                                           SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
                if (notify < 0 && errno != EBUSY)
                        return err_errno(err, "watcher: filter");
        }

        if (notify < 0) {
                make_program(&program, false);
                if (load_program(&program, 0) < 0)
                        return err_errno(err, "watcher: filter");
                return 0;
        }

        int r = fd_send(channel, STR("n"), &notify, 1);
        if (r < 0)
                return err_set(err, -r, "watcher: hand over the filter: %s", strerror(-r));

        return 0;
}
