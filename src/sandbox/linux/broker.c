/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "ipc/event.h"
#include "sandbox/linux/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- answers ---------------------------------------------------------------------------------------------------------
 */

int broker_answer(const struct tracee *t, int result) {
        struct seccomp_notif_resp answer = { .id = t->id,
                                             .error = result < 0 ? result : 0,
                                             .val = result > 0 ? result : 0 };
        return ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ? 0 : -errno;
}

int broker_pass_fd(const struct tracee *t, int fd, bool close_on_exec) {
        struct seccomp_notif_addfd pass = {
                .id = t->id,
                .flags = SECCOMP_ADDFD_FLAG_SEND,
                .srcfd = (unsigned)fd,
                .newfd_flags = close_on_exec ? O_CLOEXEC : 0,
        };
        if (ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass) >= 0)
                return OP_ANSWERED;
        if (errno != EINVAL)
                return -errno;
        pass.flags = 0; /* before Linux 5.14: in two steps */
        int number = ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass);
        if (number < 0)
                return -errno;
        struct seccomp_notif_resp answer = { .id = t->id, .val = number };
        return ioctl(t->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ? OP_ANSWERED : -errno;
}

/* --- reports ---------------------------------------------------------------------------------------------------------
 */

enum { REMEMBERED = 256 };

/* A program that asks a thousand times is reported once in a while, not a thousand times. */
static bool said_lately(const struct held *h, const char *what, int result) {
        static uint64_t said[REMEMBERED];
        char key[PATH_MAX + 64];
        int n = snprintf(key, sizeof key, "%s %d %d %s", what, result, h->writes, h->path);
        uint64_t hash = hash_bytes(hash_seed(), key, (size_t)n < sizeof key ? (size_t)n : sizeof key - 1);
        uint64_t *slot = &said[hash % REMEMBERED];
        bool known = *slot == hash;
        *slot = hash;
        return known;
}

static bool worth_a_report(const struct held *h, int result) {
        if (h->broker->events_fd < 0)
                return false;
        bool refused = result == -EACCES || result == -EPERM || result == -EROFS;
        return h->glob || h->broker->report_all || (h->broker->report_refused && refused);
}

static void report(const struct held *h, enum event_kind kind, const char *what, int result) {
        if (!worth_a_report(h, result) || said_lately(h, what, result))
                return;
        char detail[128];
        int n = snprintf(detail, sizeof detail, "%s[%d]", h->tracee.name, h->tracee.tgid);
        struct event ev = {
                .wall_us = clock_wall_us(),
                .kind = (uint16_t)kind,
                .rule = RULE_NONE,
                .allowed = result >= 0,
                .status = (uint16_t)(result < 0 ? -result : 0),
                .reason = h->glob ? REASON_DENY_RULE : REASON_NONE,
                .method = str_of(h->writes && strcmp(what, "open") == 0 ? "open-write" : what),
                .path = str_of(h->path),
                .swapped = str_of(h->glob ? h->glob : ""),
                .detail = str_n(detail, (size_t)n),
        };
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        if (event_encode(&batch, &ev) == 0)
                send(h->broker->events_fd, batch.p, batch.n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- the loop --------------------------------------------------------------------------------------------------------
 */

/* A call that the main filter refuses and hands over only to be told: the answer is the filter's own. */
static int refuse_syscall(struct held *h, int nr) {
        snprintf(h->path, sizeof h->path, "%d", nr);
        int result = nr == SYS_clone3 ? -ENOSYS : -EPERM;
        report(h, EVENT_SYSCALL, "syscall", result);
        return result;
}

static void serve(const struct broker *b, const struct seccomp_notif *call) {
        struct held h = { .broker = b, .args = call->data.args };
        const struct broker_op *op = broker_op_find(call->data.nr);
        int r = tracee_open(&h.tracee, b->notify_fd, call);
        if (r == -ESRCH)
                return; /* it is gone, and its call with it */
        if (r == 0) {
                r = op ? op->run(&h) : refuse_syscall(&h, call->data.nr);
                if (op)
                        report(&h, EVENT_FILE, op->name, r);
        }
        if (r != OP_ANSWERED)
                broker_answer(&h.tracee, r);
        tracee_close(&h.tracee);
}

int broker_serve(const struct broker *b) {
        struct seccomp_notif_sizes sizes;
        if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
                return -errno;
        size_t size =
            sizes.seccomp_notif > sizeof(struct seccomp_notif) ? sizes.seccomp_notif : sizeof(struct seccomp_notif);
        cleanup(free_ptr) struct seccomp_notif *call = malloc(size);
        if (!call)
                return -ENOMEM;
        int r = tracee_setup();
        if (r < 0)
                return r;
        umask(0); /* the caller's is applied instead */
        for (;;) {
                struct pollfd ready = { .fd = b->notify_fd, .events = POLLIN };
                if (poll(&ready, 1, -1) < 0 && errno != EINTR)
                        return -errno;
                if (ready.revents & (POLLHUP | POLLERR | POLLNVAL))
                        return 0; /* nobody is left under the filter */
                memset(call, 0, size);
                if (!(ready.revents & POLLIN))
                        continue;
                if (ioctl(b->notify_fd, SECCOMP_IOCTL_NOTIF_RECV, call) == 0)
                        serve(b, call);
                else if (errno != EINTR && errno != ENOENT)
                        return -errno;
        }
}
