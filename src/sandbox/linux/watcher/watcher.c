/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/watcher/watcher.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/event.h"
#include "sandbox/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10, WAITING_MAX = 64 };

/*
 * Reports refusals.
 */
static void watched_tell(struct watched *watched, struct event *ev) {
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        char detail[64];

        if (watched->tracee.tgid == 0)
                (void)tracee_open(&watched->tracee); /* for its name */

        snprintf(detail, sizeof detail, "%s[%d]", watched->tracee.name,
                 watched->tracee.tgid ? watched->tracee.tgid : watched->tracee.tid);
        ev->wall_us = clock_wall_us();
        ev->rule = RULE_NONE;
        ev->detail = str_of(detail);

        int r = event_encode(&batch, ev);
        ev->detail = (struct str){ 0 }; /* a text of this function */
        if (r < 0)
                return;

        /* Before the caller hears of it: it waits until there is room. */
        struct pollfd room = { .fd = watched->watcher->reports, .events = POLLOUT };

        while (send(watched->watcher->reports, batch.p, batch.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
               (errno == EAGAIN || errno == EINTR))
                (void)poll(&room, 1, -1);
}

void watched_refused_file(struct watched *watched, const char *what, const char *path) {
        watched_tell(watched, &(struct event){ .kind = EVENT_FILE,
                                               .reason = REASON_NOT_ALLOWED,
                                               .status = EACCES,
                                               .method = str_of(what),
                                               .path = str_of(path) });
}

void watched_refused_address(struct watched *watched, const struct sockaddr *to) {
        struct event ev = { .kind = EVENT_PACKET, .via = VIA_PACKET, .scheme = SCHEME_TCP, .method = STR("TCP") };
        char text[ADDR_TEXT_MAX] = "";

        if (!addr_from_sockaddr(to, &ev.addr, &ev.port))
                return;

        addr_text(&ev.addr, text);
        ev.domain = str_of(text);
        ev.reason = watched->watcher->plan->landlock.ports.n ? REASON_NOT_ALLOWED : REASON_NO_NETWORK;
        watched_tell(watched, &ev);
}

/*
 * Calls.
 */
int watched_read(const struct watched *watched, uint64_t address, void *into, size_t n) {
        struct iovec here = { into, n }, there = { (void *)(uintptr_t)address, n };

        if (n > 0 && process_vm_readv(watched->tracee.tid, &here, 1, &there, 1, 0) != (ssize_t)n)
                return -EFAULT;
        if (!tracee_waits(&watched->tracee))
                return -ESRCH;

        return 0;
}

static void watched_answer(const struct watched *watched, int result) {
        struct seccomp_notif_resp answer = { .id = watched->tracee.id };

        if (result == WATCHED_CONTINUE)
                answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        else
                answer.error = result;
        (void)ioctl(watched->tracee.notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* one that is gone hears nothing */
}

static const struct watched_op *find_op(int nr) {
        for (size_t i = 0; i < watched_sockets_n; i++)
                if (watched_sockets[i].nr == nr)
                        return &watched_sockets[i];
        for (size_t i = 0; i < watched_attributes_n; i++)
                if (watched_attributes[i].nr == nr)
                        return &watched_attributes[i];
        return NULL;
}

static atomic_int waiting;

static void *watched_wait(void *argument) {
        struct watched *watched = argument;
        const struct watched_op *op = find_op(watched->nr);

        watched_answer(watched, op ? op->run(watched) : -ENOSYS);
        free(watched);
        atomic_fetch_sub(&waiting, 1);
        return NULL;
}

/* False: no thread can be made for it. */
static bool watched_apart(const struct watched *watched) {
        pthread_t thread;
        struct watched *own = malloc(sizeof *own);

        if (own && atomic_fetch_add(&waiting, 1) < WAITING_MAX) {
                *own = *watched;
                if (pthread_create(&thread, NULL, watched_wait, own) == 0) {
                        pthread_detach(thread);
                        return true;
                }
        }

        if (own)
                atomic_fetch_sub(&waiting, 1);

        free(own);
        return false;
}

static void watcher_serve(struct watcher *watcher, const struct seccomp_notif *call) {
        struct watched held = { .watcher = watcher, .nr = call->data.nr };
        const struct watched_op *op = find_op(call->data.nr);

        memcpy(held.args, call->data.args, sizeof held.args);
        tracee_init(&held.tracee, watcher->notify, call);

        if (!op)
                watched_answer(&held, -EPERM);
        else if (!op->waits)
                watched_answer(&held, op->run(&held));
        else if (!watched_apart(&held))
                watched_answer(&held, -EAGAIN);
}

static size_t call_size(void) {
        struct seccomp_notif_sizes sizes = { 0 };

        (void)syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
        return sizes.seccomp_notif > sizeof(struct seccomp_notif) ? sizes.seccomp_notif : sizeof(struct seccomp_notif);
}

static void watcher_loop(struct watcher *watcher) {
        size_t size = call_size();
        cleanup(free_ptr) struct seccomp_notif *call = malloc(size);

        while (call) {
                struct pollfd next = { .fd = watcher->notify, .events = POLLIN };
                if (poll(&next, 1, -1) < 0 && errno != EINTR)
                        return;
                if (next.revents & (POLLHUP | POLLERR | POLLNVAL))
                        return; /* nobody is left under the filter */
                if (!(next.revents & POLLIN))
                        continue;

                memset(call, 0, size);

                if (ioctl(watcher->notify, SECCOMP_IOCTL_NOTIF_RECV, call) == 0)
                        watcher_serve(watcher, call);
                else if (errno != EINTR && errno != ENOENT)
                        return;
        }
}

/*
 * Birth.
 */
struct beginning {
        struct watcher *watcher;
        int channel;
};

/* Without a watcher calls that wait would wait for ever: with the descriptor closed they fail. */
static void *watcher_main(void *argument) {
        struct beginning begin = *(struct beginning *)argument;
        size_t n = 0;
        char byte;

        free(argument);
        prctl(PR_SET_NAME, "bailey-watcher", 0, 0, 0);
        if (tracee_setup() == 0 && fd_receive(begin.channel, &byte, 1, &begin.watcher->notify, 1, &n) == 1 && n == 1)
                watcher_loop(begin.watcher);

        close_fd(&begin.channel);
        close_fd(&begin.watcher->notify);

        return NULL;
}

void watcher_prepare(struct watcher *watcher) {
        watcher->diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

static int open_reports(struct watcher *watcher, int control, struct err *err) {
        struct sandbox_event event = { .kind = SANDBOX_EVENTS };
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_errno(err, "watcher: socket");

        int r = fd_send(control, str_n(&event, offsetof(struct sandbox_event, text)), &ends[0], 1);
        close(ends[0]);
        watcher->reports = ends[1];

        if (r < 0)
                return err_set(err, -r, "watcher: hand over its socket: %s", strerror(-r));

        return 0;
}

int watcher_start(struct watcher *watcher, int control, int *ret_channel, struct err *err) {
        int ends[2];
        pthread_t thread;
        pthread_attr_t small;

        int r = open_reports(watcher, control, err);
        if (r < 0)
                return r;

        struct beginning *begin = malloc(sizeof *begin);
        if (!begin)
                return err_set(err, ENOMEM, "out of memory");

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
                free(begin);
                return err_errno(err, "watcher: socket");
        }

        *begin = (struct beginning){ watcher, ends[0] };
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, STACK_BYTES);
        pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
        r = pthread_create(&thread, &small, watcher_main, begin);
        pthread_attr_destroy(&small);

        if (r != 0) {
                free(begin);
                close(ends[0]);
                close(ends[1]);
                return err_set(err, r, "watcher: thread: %s", strerror(r));
        }

        *ret_channel = ends[1];
        return 0;
}
