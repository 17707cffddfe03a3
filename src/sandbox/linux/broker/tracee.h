/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process whose system call the broker holds: its memory, directories and umask, read while the call waits.
 * Only here does the broker use its capabilities, both of the sandbox's own user namespace: CAP_SYS_PTRACE, so that a
 * program which made itself non-dumpable can still open its files, and CAP_NET_ADMIN, to ask which file a socket is
 * bound to. Everything else the broker does with no more rights than the program has itself.
 */
#include "base/str.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/types.h>

struct tracee {
        int notify_fd;
        uint64_t id; /* of the held call */
        pid_t tid;   /* the calling thread */
        pid_t tgid;  /* its process */
        mode_t umask;
        int proc;      /* /proc/TID, kept by somebody else, or -1 */
        int kept;      /* a descriptor of the thread, kept from an earlier call, or -1 */
        bool proven;   /* since its memory was read, the thread was seen to live */
        char name[16]; /* comm, for reports */
};

void tracee_init(struct tracee *tracee, int notify_fd, const struct seccomp_notif *call);
/* What paths need. -ESRCH when the call no longer waits; -EACCES when the process does not share the broker's root
 * directory. */
int tracee_open(struct tracee *tracee);
/* The same, and much cheaper for a thread that was here before. One caller at a time. Every read checks that the thread
 * is still the same: -ESRCH if not, and then tracee_renew() is true once. */
int tracee_open_known(struct tracee *tracee);
/* The same for a thread that was here before, and nothing for others: false. */
bool tracee_recall(struct tracee *tracee);
/* What was kept belongs to a thread that is gone: it is forgotten, and the call may be begun again. */
bool tracee_renew(struct tracee *tracee);
/* 0 if all that was read so far is the caller's, else -ESRCH. */
int tracee_confirm(struct tracee *tracee);
/* It is about to change its umask. -ESRCH. */
int tracee_umask_changes(struct tracee *tracee, mode_t mask);
/* Fills in its name. */
void tracee_find_name(struct tracee *tracee);
/* Whether the call still waits: what was read belongs to it and to no successor of its thread id. */
bool tracee_waits(const struct tracee *tracee);
/* A path argument, copied once. -EFAULT, -ENAMETOOLONG. */
int tracee_read_path(struct tracee *tracee, uint64_t address, char *ret, size_t size);
/* The same, but whether it was the caller's memory has to be confirmed, or found out by walk(). */
int tracee_copy_path(struct tracee *tracee, uint64_t address, char *ret, size_t size);
/* Bytes of its memory, all of them. -EFAULT, -ESRCH. */
int tracee_read(struct tracee *tracee, uint64_t address, void *into, size_t n);
/* Where a call has its result. -EFAULT. */
int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t n);
/* Bytes of its memory, n of them exactly. */
struct tracee_bytes {
        uint64_t address;
        size_t n;
        void *p;
};
/* A copy of one of its descriptors, and bytes that come with it. Needs no tracee_open(). -EBADF, -EFAULT, -ESRCH. */
int tracee_take(struct tracee *tracee, int number, const struct tracee_bytes *bytes);
/* The file that a Unix socket of this network namespace is bound to, as an O_PATH descriptor; -ENOENT for one without.
 */
int tracee_socket_file(int socket_fd);
/* Whether a descriptor of its process is closed at exec(); false also where that cannot be known. */
bool tracee_closes_on_exec(const struct tracee *tracee, int number);
/* The directory that a relative path starts from, as an O_PATH descriptor: AT_FDCWD or one of its descriptors. */
int tracee_open_base(struct tracee *tracee, int dirfd);
/* Where that directory is, without opening it; needs a known thread. The length, or a negative errno. */
ssize_t tracee_base_path(struct tracee *tracee, int dirfd, char *ret, size_t size);
/* One of its own magic links (/proc/PID/fd/3, cwd, root, exe), followed. */
int tracee_follow_magic(const struct tracee *tracee, int directory_fd, const char *name);

/* Once, at start: keeps what it has of the two permitted but not effective, drops all else. */
int tracee_setup(void);
