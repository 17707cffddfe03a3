/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The watcher: degraded mode's broker. Without namespaces Landlock is all that holds, and it does not look at where a
 * connection goes (only at its port), at Unix sockets (before ABI 9), at who may reach a listener, and at modes,
 * owners, times and attributes of files. A filter hands these calls to a thread of init, which copies the arguments,
 * judges the copy and performs the call on the judged object:
 *
 *   connect     to the gateway's own address and port, and to Unix sockets of this sandbox or that a rule names
 *   bind        of TCP to loopback only; listen() too, since a socket that was never bound listens everywhere
 *   attributes  of files in a place that may be written to
 *   scheduling  of the caller's own threads
 *
 * It needs no namespace and no capability, but it must be an ancestor of whom it looks at (Yama), and so it is in init.
 * A program that makes itself non-dumpable cannot be looked at: its calls are refused. If the kernel allows no watcher,
 * or an outer filter forbids copying descriptors, the calls are refused altogether, and there are no sockets of the
 * internet and no Unix sockets but pairs.
 *
 * What it trusts: the kernel. What it does not trust: anything the caller says, before and after.
 */
#include "plan/plan.h"
#include "sandbox/linux/broker/path_walk.h"

struct watcher {
        const struct plan *plan;
        int notify;  /* of the command's filter */
        int reports; /* SOCK_SEQPACKET to the supervisor, ipc/event.h records */
        int diag;    /* netlink: asks the kernel which sockets there are; -1: then none is known as the sandbox's own */
};

/* In init, before its own filter: what the filter would not let it have. */
void watcher_prepare(struct watcher *watcher);
/* In init, before the command starts: a thread that serves until nobody is left. *ret_channel is for the command. */
int watcher_start(struct watcher *watcher, int control, int *ret_channel, struct err *err);
/* In the command, before exec: under the filter, whose descriptor goes to the watcher. */
int watcher_enter(int channel, struct err *err);

/* One held call. */
struct watched {
        struct watcher *watcher;
        struct tracee tracee;
        int nr;
        __u64 args[6];
};

/* What an operation returns besides 0 and a negative errno: the kernel shall perform the call as it was asked for.
 * Never a judgement. */
#define WATCHED_CONTINUE 2

struct watched_op {
        int nr;
        int (*run)(struct watched *w);
        bool waits; /* it may take long: in a thread of its own */
};
extern const struct watched_op watched_sockets[], watched_attributes[];
extern const size_t watched_sockets_n, watched_attributes_n;

/* Bytes of the caller's memory, all of them. -EFAULT, -ESRCH. */
int watched_read(const struct watched *watched, uint64_t address, void *into, size_t n);
/* On record: an access to a file (`what` is its name), or to an address. */
void watched_refused_file(struct watched *watched, const char *what, const char *path);
struct sockaddr;
void watched_refused_address(struct watched *watched, const struct sockaddr *to);
