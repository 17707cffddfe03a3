/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/processes/rest.h"
#include "ipc/event.h"
#include "sandbox/linux/broker/broker_asks.h"
#include "sandbox/linux/broker/broker_named.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 256, WORKER_STACK = 256 << 10 };
enum { LATER_NS = 50000000, LATER_MAX = 30 };
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define NOTIFY_SET_FLAGS _IOW('!', 4, uint64_t) /* SECCOMP_IOCTL_NOTIF_SET_FLAGS, newer than some headers */
#define NOTIFY_SYNC_WAKE_UP 1UL

/* --- answers ---------------------------------------------------------------------------------------------------------
 */

int broker_answer(const struct tracee *tracee, int result) {
        struct seccomp_notif_resp answer = { .id = tracee->id, .error = result < 0 ? result : 0 };
        if (result == OP_CONTINUE)
                answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        return ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ? 0 : -errno;
}

int broker_pass_fd(const struct tracee *tracee, int fd, bool close_on_exec) {
        struct seccomp_notif_addfd pass = {
                .id = tracee->id,
                .flags = SECCOMP_ADDFD_FLAG_SEND,
                .srcfd = (unsigned)fd,
                .newfd_flags = close_on_exec ? O_CLOEXEC : 0,
        };
        if (ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass) >= 0)
                return OP_ANSWERED;
        if (errno != EINVAL)
                return -errno;

        pass.flags = 0; /* before Linux 5.14: in two steps */
        int number = ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass);
        if (number < 0)
                return -errno;

        struct seccomp_notif_resp answer = { .id = tracee->id, .val = number };
        return ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ? OP_ANSWERED : -errno;
}

/* Linux 5.19: a call that was received is interrupted by nothing but the end of its process. */
static bool calls_wait(void) {
        static _Atomic int known = -1; /* two workers may both find it out */
        int answer = atomic_load_explicit(&known, memory_order_relaxed);

        if (answer < 0) {
                unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

                answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL) < 0 && errno == EFAULT;
                atomic_store_explicit(&known, answer, memory_order_relaxed);
        }

        return answer;
}

int broker_give_fd(const struct tracee *tracee, int *fd, bool close_on_exec) {
        struct seccomp_notif_addfd pass = {
                .id = tracee->id,
                .srcfd = (unsigned)*fd,
                .newfd_flags = close_on_exec ? O_CLOEXEC : 0,
        };
        struct seccomp_notif_resp answer = { .id = tracee->id };
        int number;

        if (!calls_wait())
                return broker_pass_fd(tracee, *fd, close_on_exec);

        number = ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass);
        if (number < 0)
                return -errno;

        close_fd(fd);
        answer.val = number;

        return ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ? OP_ANSWERED : -errno;
}

/* --- reports ---------------------------------------------------------------------------------------------------------
 */

enum { REMEMBERED = 256 };

/* A program that asks a thousand times is reported once in a while, not a thousand times. */
static bool said_lately(const struct held *held, const char *what, int result) {
        static uint64_t said[REMEMBERED];
        char key[PATH_MAX + 64];
        int n = snprintf(key, sizeof key, "%s %d %d %s", what, result, held->writes, held->path);
        uint64_t hash = hash_bytes(hash_seed(), key, (size_t)n < sizeof key ? (size_t)n : sizeof key - 1);
        uint64_t *slot = &said[hash % REMEMBERED];
        bool known = *slot == hash;

        *slot = hash;
        return known;
}

static bool worth_a_report(const struct held *held, int result) {
        if (held->broker->events_fd < 0)
                return false;
        bool refused = result == -EACCES || result == -EPERM || result == -EROFS;
        return held->glob || held->stranger || held->raw || held->broker->report_all ||
               (held->broker->report_refused && refused);
}

/* A refusal is reported before the caller gets its result: the call waits until there is room. */
static void broker_tell(int fd, struct str record) {
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        while (send(fd, record.p, record.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
                (void)poll(&room, 1, -1);
}

/* No packet was sent, so there is no address: the kind of socket is what a record can say. */
static void describe_raw(const struct held *held, struct event *ev) {
        bool icmp = (int)held->args[2] == IPPROTO_ICMP || (int)held->args[2] == IPPROTO_ICMPV6;

        ev->via = VIA_PACKET;
        ev->scheme = icmp ? SCHEME_ICMP : SCHEME_IP;
        ev->reason = REASON_TRANSPORT;
        ev->method = str_of(held->raw);
}

static void broker_report(struct held *held, enum event_kind kind, const char *what, int result) {
        static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

        if (!worth_a_report(held, result))
                return;

        pthread_mutex_lock(&one_at_a_time);
        bool said = said_lately(held, what, result);
        pthread_mutex_unlock(&one_at_a_time);

        if (said)
                return;

        char detail[128];
        tracee_find_name(&held->tracee);
        int n = snprintf(detail, sizeof detail, "%s[%d]", held->tracee.name, held->tracee.tgid);
        struct event ev = {
                .wall_us = clock_wall_us(),
                .kind = (uint16_t)kind,
                .rule = RULE_NONE,
                .allowed = result >= 0,
                .reason = REASON_NONE,
                .method = str_of(what),
                .path = str_of(held->path),
                .detail = str_n(detail, (size_t)n),
        };

        if (result < 0)
                ev.status = (uint16_t)-result;
        if (held->writes && strcmp(what, "open") == 0)
                ev.method = STR("open-write");
        if (held->glob) {
                ev.reason = REASON_DENY_RULE;
                ev.swapped = str_of(held->glob);
        }
        if (held->raw)
                describe_raw(held, &ev);

        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        if (event_encode(&batch, &ev) == 0)
                broker_tell(held->broker->events_fd, buf_str(&batch));
}

/* --- the loop --------------------------------------------------------------------------------------------------------
 */

/* A call that the main filter refuses and hands over only to be told: the answer is the filter's own. */
static int refuse_syscall(struct held *held, int nr) {
        snprintf(held->path, sizeof held->path, "%d", nr);
        int result = nr == SYS_clone3 ? -ENOSYS : -EPERM;
        broker_report(held, EVENT_SYSCALL, "syscall", result);
        return result;
}

static const struct broker_op *find_op(const struct broker_op *ops, size_t n, int nr) {
        for (size_t i = 0; i < n; i++)
                if (ops[i].nr == nr)
                        return &ops[i];
        return NULL;
}

/*
 * One worker has the turn: it alone waits for calls, and serves those about files with the turn in its hand, so that
 * they are served one at a time. (The kernel wakes everyone who waits for a call, and all but one for nothing; two who
 * take turns would wake each other with every call.) A call about sockets may wait: then the turn goes to another
 * worker first. `idle` counts the workers that wait for the turn.
 */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static atomic_int idle, workers;
static int start_worker(const struct broker *broker);

static void take_turn(void) {
        atomic_fetch_add(&idle, 1);
        pthread_mutex_lock(&turn);
        atomic_fetch_sub(&idle, 1);
}

/* False: nobody is there to take it, and nobody can be made. The turn stays here, and the call must not wait: while it
 * did, no call of anybody would be served. */
static bool let_others_serve(const struct broker *broker) {
        if (atomic_load(&idle) == 0 && start_worker(broker) < 0)
                return false;

        pthread_mutex_unlock(&turn);
        return true;
}

static void answer_socket(struct held *held, const struct broker_op *op, int result) {
        if (held->stranger)
                broker_report(held, EVENT_FILE, op->name, result);
        else if (held->raw)
                broker_report(held, EVENT_PACKET, held->raw, result);
        if (result != OP_ANSWERED)
                broker_answer(&held->tracee, result);
}

/* One worker at a time uses the state of callers and files: the one with the turn, or one that returns to a call while
 * another waits for the next. */
static pthread_mutex_t files = PTHREAD_MUTEX_INITIALIZER;

/* With the turn in hand, which nobody can take. */
static int run_crowded(struct held *held, const struct broker_op *op) {
        if (!op->waits)
                return op->run(held);

        return op->crowded ? op->crowded(held) : -EAGAIN;
}

static bool serve_at_once(struct held *held, const struct broker_op *op) {
        int r;

        if (!op->at_once)
                return false;

        pthread_mutex_lock(&files);
        r = op->at_once(held);
        if (r != OP_WAITS)
                answer_socket(held, op, r);
        pthread_mutex_unlock(&files);

        return r != OP_WAITS;
}

/* With the turn in hand, which goes to another worker only if somebody has to wait. */
static void serve_socket(struct held *held, const struct broker_op *op, const struct seccomp_notif *call) {
        if (serve_at_once(held, op))
                return;

        tracee_init(&held->tracee, held->broker->notify_fd, call);
        held->stranger = held->writes = false;
        held->raw = NULL;

        if (let_others_serve(held->broker)) {
                answer_socket(held, op, op->run(held));
                take_turn();
        } else {
                answer_socket(held, op, run_crowded(held, op));
        }
}

/* Everything is read from the caller before anything is done: if the call turns out to come from another thread than
 * the cached one, it can be restarted. */
static int run_file_op(struct held *held, const struct broker_op *op) {
        int r = op->run(held);

        if (r == -ESRCH && tracee_renew(&held->tracee)) {
                held->glob = NULL;
                held->writes = false;
                r = op->run(held);
        }

        if (r != JUDGE_LATER && r != OP_ASKS)
                broker_report(held, EVENT_FILE, op->name, r);

        return r;
}

/* Reading is never judged by what git's configuration names. */
static bool only_reads(const struct broker_op *op, const struct seccomp_notif *call) {
        if (!op)
                return true;

        switch (op->when) {
        case OP_IF_ARG1_WRITES:
                return !(call->data.args[1] & OP_WRITE_FLAGS);
        case OP_IF_ARG2_WRITES:
                return !(call->data.args[2] & OP_WRITE_FLAGS);
        default:
                return false;
        }
}

static int run_at_once(struct held *held, const struct broker_op *op, const struct seccomp_notif *call) {
        int r;

        pthread_mutex_lock(&files);
        tracee_init(&held->tracee, held->broker->notify_fd, call);
        held->glob = NULL;
        held->writes = held->replaces = false;
        r = only_reads(op, call) ? 0 : news_look(held->broker);
        if (r == 0)
                r = tracee_open_known(&held->tracee);
        if (r == 0)
                r = op ? run_file_op(held, op) : refuse_syscall(held, call->data.nr);

        pthread_mutex_unlock(&files);
        return r;
}

/* The call waits, and nobody with it. What was found is found anew then, and so is the caller. */
static int run_later(struct held *held, const struct broker_op *op, const struct seccomp_notif *call) {
        const struct timespec pause = { .tv_nsec = LATER_NS };
        int r = JUDGE_LATER;

        for (int i = 0; i < LATER_MAX && r == JUDGE_LATER; i++) {
                (void)nanosleep(&pause, NULL);
                r = tracee_waits(&held->tracee) ? run_at_once(held, op, call) : -ESRCH;
        }

        return r == JUDGE_LATER ? -EAGAIN : r; /* somebody makes it anew all the time */
}

static int run_opened(struct held *held, const struct broker_op *op, int *fd) {
        int r;

        pthread_mutex_lock(&files);
        r = asks_pass(held, fd);
        broker_report(held, EVENT_FILE, op->name, r);
        pthread_mutex_unlock(&files);

        return r;
}

/* The call waits for a person, and nobody with it. */
static int run_asked(struct held *held, const struct broker_op *op, const struct seccomp_notif *call) {
        cleanup(close_fd) int fd = -1;
        int r;

        switch (asks_await(held, &fd)) {
        case HELD_OPENED:
                return run_opened(held, op, &fd);
        case HELD_AGAIN:
                held->answered = true;
                r = tracee_waits(&held->tracee) ? run_at_once(held, op, call) : -ESRCH;
                return r == JUDGE_LATER ? run_later(held, op, call) : r;
        default:
                pthread_mutex_lock(&files);
                broker_report(held, EVENT_FILE, op->name, held->error);
                pthread_mutex_unlock(&files);
                return held->error;
        }
}

/* The call would have to wait, and cannot. */
static int run_never(struct held *held, const struct broker_op *op, int result) {
        int r = result == OP_ASKS ? held->error : -EAGAIN;

        pthread_mutex_lock(&files);
        broker_report(held, EVENT_FILE, op->name, r);
        pthread_mutex_unlock(&files);

        return r;
}

static int run_waiting(struct held *held, const struct broker_op *op, const struct seccomp_notif *call, int result) {
        int r = result;

        if (r == JUDGE_LATER)
                r = run_later(held, op, call);
        if (r == OP_ASKS)
                r = run_asked(held, op, call);

        return r;
}

static void serve_file(struct held *held, const struct seccomp_notif *call) {
        const struct broker_op *op = find_op(broker_ops, broker_ops_n, call->data.nr);
        int r = run_at_once(held, op, call);
        bool waits = r == JUDGE_LATER || r == OP_ASKS, apart = waits && let_others_serve(held->broker);

        if (apart)
                r = run_waiting(held, op, call, r);
        else if (waits)
                r = run_never(held, op, r);

        if (r != OP_ANSWERED)
                broker_answer(&held->tracee, r); /* one that is gone, and its call with it, hears nothing */
        if (apart)
                take_turn();
}

/*
 * After a while without a call the broker gives back what it does not need at rest. The first thread, which otherwise
 * only waits for the end, sees to that; while it sleeps without a limit (`rests`), the next call wakes it.
 */
static atomic_uint served;
static atomic_bool rests;

static void note_served(const struct broker *broker) {
        const uint64_t one = 1;

        atomic_fetch_add_explicit(&served, 1, memory_order_relaxed);
        if (atomic_load_explicit(&rests, memory_order_relaxed) && atomic_exchange(&rests, false))
                (void)!write(broker->stir_fd, &one, sizeof one);
}

/* With the turn; it is back when this returns. */
static void serve_call(const struct broker *broker, const struct seccomp_notif *call) {
        struct held held = { .broker = broker, .args = call->data.args };
        const struct broker_op *op = find_op(broker_socket_ops, broker_socket_ops_n, call->data.nr);
        tracee_init(&held.tracee, broker->notify_fd, call);
        if (op)
                serve_socket(&held, op, call);
        else
                serve_file(&held, call);
}

size_t broker_call_size(void) {
        struct seccomp_notif_sizes sizes = { 0 };
        (void)syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
        return sizes.seccomp_notif > sizeof(struct seccomp_notif) ? sizes.seccomp_notif : sizeof(struct seccomp_notif);
}

/* Since Linux 6.11 nobody waits for a call that can never come. Where all have ended, each try returns at once. */
static bool nobody_is_left(const struct broker *broker) {
        struct pollfd end = { .fd = broker->notify_fd };

        return poll(&end, 1, 0) == 1;
}

static void *broker_work(void *arg) {
        const struct broker *broker = arg;
        size_t size = broker_call_size();
        struct seccomp_notif *call = malloc(size);

        (void)unshare(CLONE_FS); /* a umask and a working directory of its own */
        take_turn();

        while (call) {
                memset(call, 0, size);

                if (ioctl(broker->notify_fd, SECCOMP_IOCTL_NOTIF_RECV, call) == 0) {
                        note_served(broker);
                        serve_call(broker, call);
                } else if (errno != EINTR && (errno != ENOENT || nobody_is_left(broker)))
                        break;
        }

        pthread_mutex_unlock(&turn);
        free(call);

        return NULL;
}

/* A blocking call must not delay the others: a worker that takes one makes sure that another is left to wait. */
static int start_worker(const struct broker *broker) {
        pthread_t thread;
        pthread_attr_t small;

        if (atomic_fetch_add(&workers, 1) >= WORKERS_MAX) {
                atomic_fetch_sub(&workers, 1);
                return -EAGAIN;
        }

        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, WORKER_STACK);
        pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);

        int r = pthread_create(&thread, &small, broker_work, (void *)broker);
        pthread_attr_destroy(&small);
        if (r != 0)
                atomic_fetch_sub(&workers, 1);

        return -r;
}

/* Until nobody is left under the filter. */
static int await_end(const struct broker *broker) {
        struct pollfd fds[] = { { .fd = broker->notify_fd }, { .fd = broker->stir_fd, .events = POLLIN } };
        uint64_t stirred;

        for (;;) {
                unsigned before = atomic_load_explicit(&served, memory_order_relaxed);
                int n = poll(fds, 2, atomic_load(&rests) ? -1 : REST_AFTER_MS);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0 && fds[0].revents)
                        return 0;
                if (n > 0)
                        (void)!read(broker->stir_fd, &stirred, sizeof stirred);

                if (n == 0 && atomic_load_explicit(&served, memory_order_relaxed) == before) {
                        process_rest();
                        atomic_store(&rests, true);
                        if (atomic_load(&served) != before) /* it may not have seen that */
                                atomic_store(&rests, false);
                }
        }
}

int broker_serve(const struct broker *broker, const struct seccomp_notif *first) {
        int r = tracee_setup();
        if (r < 0)
                return r;

        umask(0); /* the caller's is applied instead */

        /* Questions and answers go to and fro: on one processor, where the kernel can (Linux 6.6). */
        (void)ioctl(broker->notify_fd, NOTIFY_SET_FLAGS, NOTIFY_SYNC_WAKE_UP);

        if (first) {
                take_turn();
                serve_call(broker, first);
                pthread_mutex_unlock(&turn);
        }

        r = start_worker(broker);
        if (r < 0)
                return r;

        return await_end(broker);
}
