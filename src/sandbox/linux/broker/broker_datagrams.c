/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix datagram sockets. Each of their messages may name a receiver, behind a pointer that no filter can look at. So no
 * program inside ever has one that can send: the broker makes them and shuts them down for sending, which cannot be
 * undone. The kernel alone handles receiving, with message bounds, queue and sender. Sending is done here:
 *
 *   sendto()            with a receiver is handed over. It is judged as for connect(), and sent by a socket of the
 *                       broker's, once for each that has a name.
 *   connect()           puts one end of a pair of packet sockets in the socket's place, which cannot leave its pair.
 *                       A thread carries packets between the other end and the receiver, both ways.
 *   sendmsg()           with a receiver is not seen, and fails with EPIPE on such a socket, as it is shut.
 *
 * A receiver sees a name to reply to: one that the kernel gave to the broker's own sending socket. A message or a
 * connection to that name goes to the socket that it stands for. Descriptors and credentials are not passed.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MESSAGE_MAX = 212992, SENDERS_MAX = 256, CARRIERS_MAX = 64, CARRIER_STACK = 64 << 10 };
enum { ABSTRACT_HEAD = offsetof(struct sockaddr_un, sun_path) };

struct address {
        struct sockaddr_un un;
        socklen_t n;
};

/* A sending socket for a named socket inside, and the name that it has for receivers. */
struct sender {
        uint64_t cookie; /* of the socket inside; 0: free */
        int fd;
        int file; /* that the socket inside is bound to; -1: its name is abstract */
        struct address own, alias;
};
static struct sender senders[SENDERS_MAX];
static size_t next_sender;
static pthread_mutex_t senders_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int carriers;

static bool socket_is(int fd, int domain, int type) {
        int has = -1;
        socklen_t n = sizeof has;

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &has, &n) < 0 || has != domain)
                return false;
        n = sizeof has;
        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &has, &n) == 0 && has == type;
}

bool datagram_is(int fd) {
        return socket_is(fd, AF_UNIX, SOCK_DGRAM);
}

/* Sockets for packets of any kind, which the kernel keeps for those who may. Nobody may, inside. */
static const char *raw_socket(int family, int kind) {
        if (family == AF_PACKET || kind == SOCK_PACKET)
                return "packet socket";
        if ((family == AF_INET || family == AF_INET6) && kind == SOCK_RAW)
                return "raw socket";

        return NULL;
}

int op_socket(struct held *held) {
        int family = (int)held->args[0], type = (int)held->args[1], kind = type & 0xf;

        held->raw = raw_socket(family, kind);
        if (held->raw)
                (void)tracee_open(&held->tracee); /* for the number of its process in the record */
        if (family != AF_UNIX || (kind != SOCK_DGRAM && kind != SOCK_RAW))
                return -EPERM; /* those, and what the main filter refuses, in a trace */

        cleanup(close_fd) int fd =
            socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | (type & SOCK_NONBLOCK), (int)held->args[2]);
        if (fd < 0 || shutdown(fd, SHUT_WR) < 0)
                return -errno;

        return broker_give_fd(&held->tracee, &fd, type & SOCK_CLOEXEC);
}

/* --- senders ----------------------------------------------------------------------------------------------------- */

static bool address_of(int fd, struct address *ret) {
        ret->n = sizeof ret->un;
        return getsockname(fd, (struct sockaddr *)&ret->un, &ret->n) == 0 && ret->n > ABSTRACT_HEAD;
}

static bool address_is(const struct address *address, const struct sockaddr_un *un, size_t n) {
        return address->n == n && memcmp(&address->un, un, n) == 0;
}

static void sender_forget(struct sender *sender) {
        if (sender->cookie) {
                close_fd(&sender->fd);
                close_fd(&sender->file);
        }
        *sender = (struct sender){ .fd = -1, .file = -1 };
}

static int sender_make(int inside, uint64_t cookie, const struct address *own, struct sender *ret) {
        const struct sockaddr_un any = { .sun_family = AF_UNIX };
        struct sender sender = { .cookie = cookie, .own = *own, .file = -1 };

        sender.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sender.fd < 0)
                return -errno;

        /* The kernel chooses the name. Messages that arrive there did not come through the broker. */
        if (bind(sender.fd, (const struct sockaddr *)&any, sizeof any.sun_family) < 0 ||
            !address_of(sender.fd, &sender.alias)) {
                int r = -errno;

                close_fd(&sender.fd);
                return r;
        }

        (void)shutdown(sender.fd, SHUT_RD);
        if (own->un.sun_path[0])
                sender.file = tracee_socket_file(inside);

        *ret = sender;
        return 0;
}

/* A descriptor to send by for this socket of the sandbox's. One without a name needs nobody to answer to. */
static int sender_for(int inside) {
        struct address own = { 0 };
        uint64_t cookie = 0;
        socklen_t n = sizeof cookie;
        struct sender *sender = NULL;
        int r = 0;

        if (!address_of(inside, &own)) {
                int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (fd < 0)
                        return -errno;

                return fd;
        }

        if (getsockopt(inside, SOL_SOCKET, SO_COOKIE, &cookie, &n) < 0)
                return -errno;

        pthread_mutex_lock(&senders_lock);
        for (size_t i = 0; i < SENDERS_MAX && !sender; i++)
                sender = senders[i].cookie == cookie ? &senders[i] : NULL;

        if (!sender) {
                sender = &senders[next_sender++ % SENDERS_MAX];
                sender_forget(sender);
                r = sender_make(inside, cookie, &own, sender);
        }

        int fd = r < 0 ? r : fcntl(sender->fd, F_DUPFD_CLOEXEC, 3);
        pthread_mutex_unlock(&senders_lock);

        if (fd < 0 && r == 0)
                return -errno;

        return fd;
}

/* The target of a name that stands for a socket inside. *ret_file keeps *ret valid. */
static bool alias_follow(const struct sockaddr_un *to, size_t n, struct address *ret, int *ret_file) {
        bool found = false;

        pthread_mutex_lock(&senders_lock);

        for (size_t i = 0; i < SENDERS_MAX && !found; i++) {
                const struct sender *sender = &senders[i];

                if (!sender->cookie || !address_is(&sender->alias, to, n))
                        continue;

                found = true;
                *ret = sender->own;

                if (sender->file >= 0) {
                        *ret_file = fcntl(sender->file, F_DUPFD_CLOEXEC, 3);
                        ret->un = (struct sockaddr_un){ .sun_family = AF_UNIX };
                        snprintf(ret->un.sun_path, sizeof ret->un.sun_path, "/proc/self/fd/%d", *ret_file);
                        ret->n = sizeof ret->un;
                }
        }

        pthread_mutex_unlock(&senders_lock);
        return found;
}

/* --- receivers --------------------------------------------------------------------------------------------------- */

/* What the address leads to, held while it is used. Abstract names are those of the sandbox's own network. */
struct receiver {
        struct address to;
        struct place place;
        int file;
};

static void receiver_done(struct receiver *receiver) {
        place_done(&receiver->place);
        close_fd(&receiver->file);
}

static int receiver_find(struct held *held, const struct sockaddr_un *to, size_t n, struct receiver *ret) {
        int r;

        if (n <= ABSTRACT_HEAD || n > sizeof *to || to->sun_family != AF_UNIX)
                return -EINVAL;

        if (!to->sun_path[0]) {
                memcpy(&ret->to.un, to, n);
                ret->to.n = (socklen_t)n;
                (void)alias_follow(to, n, &ret->to, &ret->file);
                return 0;
        }

        r = tracee_open(&held->tracee);
        ret->to.n = sizeof ret->to.un;
        if (r < 0)
                return r;

        return broker_judge_named(held, to, n, &ret->place, &ret->to.un);
}

/* --- sendto() ---------------------------------------------------------------------------------------------------- */

static int answer_length(const struct tracee *tracee, size_t n) {
        struct seccomp_notif_resp answer = { .id = tracee->id, .val = (__s64)n };

        if (ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0)
                return -errno;

        return OP_ANSWERED;
}

/* The caller's socket is closed here before the caller goes on: one that it closes next is gone. */
static int send_copied(struct held *held, int *inside, const struct receiver *to, const void *bytes, size_t n) {
        int status = fcntl(*inside, F_GETFL);
        bool waits = !((int)held->args[3] & MSG_DONTWAIT) && !(status >= 0 && status & O_NONBLOCK);
        cleanup(close_fd) int by = sender_for(*inside);

        if (by < 0)
                return by;

        if (sendto(by, bytes, n, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT), (const struct sockaddr *)&to->to.un,
                   to->to.n) < 0)
                return -errno;

        close_fd(inside);
        return answer_length(&held->tracee, n);
}

/* Other kinds are left to the kernel: no socket of the sandbox's can send to a name by itself. */
int op_sendto(struct held *held) {
        _Alignas(struct sockaddr_storage) char address[sizeof(struct sockaddr_storage)] = { 0 };
        cleanup(receiver_done) struct receiver to = { .file = -1, .place = { .object = -1, .dir = -1 } };
        int length = (int)held->args[5];
        bool fits = length >= 0 && (size_t)length <= sizeof address;
        size_t n = fits ? (size_t)length : 0, bytes_n = held->args[2];
        cleanup(close_fd) int inside =
            tracee_take(&held->tracee, (int)held->args[0], &(struct tracee_bytes){ held->args[4], n, address });

        if (inside < 0)
                return inside == -ESRCH ? inside : OP_CONTINUE;
        if (!datagram_is(inside))
                return OP_CONTINUE;
        if (!fits || bytes_n > MESSAGE_MAX) {
                if (fits)
                        return -EMSGSIZE;
                return -EINVAL;
        }

        cleanup(free_ptr) char *bytes = malloc(bytes_n + 1);
        if (!bytes)
                return -ENOBUFS;

        int r = receiver_find(held, (const struct sockaddr_un *)address, n, &to);
        if (r == 0 && bytes_n)
                r = tracee_read(&held->tracee, held->args[1], bytes, bytes_n);
        if (r < 0)
                return r;

        return send_copied(held, &inside, &to, bytes, bytes_n);
}

/* --- connect() --------------------------------------------------------------------------------------------------- */

struct carrier {
        int end;      /* of the pair whose other end is inside */
        int by;       /* connected to the receiver */
        int answered; /* the socket that was inside before, if it has a name; else -1 */
};

static void carrier_free(struct carrier *carrier) {
        close_fd(&carrier->end);
        close_fd(&carrier->by);
        close_fd(&carrier->answered);
        free(carrier);
        atomic_fetch_sub(&carriers, 1);
}

/* One packet. 0: it is the end of the pair, or the receiver is gone. */
static bool datagrams_carry(int from, int to, char *bytes, bool hung_up) {
        ssize_t n = recv(from, bytes, MESSAGE_MAX, MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        if (n == 0 && hung_up)
                return false;

        while (send(to, bytes, (size_t)n, MSG_NOSIGNAL) < 0)
                if (errno != EINTR)
                        return errno == EMSGSIZE;

        return true;
}

static void *carry_all(void *arg) {
        struct carrier *carrier = arg;
        char *bytes = malloc(MESSAGE_MAX);
        bool goes_on = bytes;

        while (goes_on) {
                struct pollfd fds[] = { { .fd = carrier->end, .events = POLLIN },
                                        { .fd = carrier->answered, .events = POLLIN } };

                if (poll(fds, 2, -1) < 0)
                        goes_on = errno == EINTR;
                else if (fds[0].revents)
                        goes_on =
                            datagrams_carry(carrier->end, carrier->by, bytes, fds[0].revents & (POLLHUP | POLLERR));
                else
                        goes_on = datagrams_carry(carrier->answered, carrier->end, bytes, false);
        }

        free(bytes);
        carrier_free(carrier);

        return NULL;
}

static int carrier_start(struct carrier *carrier) {
        pthread_t thread;
        pthread_attr_t small;

        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, CARRIER_STACK);
        pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);

        int r = pthread_create(&thread, &small, carry_all, carrier);
        pthread_attr_destroy(&small);

        return -r;
}

/* The caller's number gets another socket, which is closed at exec() if the one before was. */
static int replace_descriptor(struct held *held, int fd) {
        struct seccomp_notif_addfd pass = { .id = held->tracee.id,
                                            .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                            .srcfd = (unsigned)fd,
                                            .newfd = (unsigned)(int)held->args[0],
                                            .newfd_flags = tracee_closes_on_exec(&held->tracee, (int)held->args[0])
                                                               ? O_CLOEXEC
                                                               : 0 };

        if (ioctl(held->tracee.notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass) < 0)
                return -errno;

        return 0;
}

static int carrier_make(int inside, const struct receiver *to, struct carrier *ret, int *ret_end) {
        struct address own;
        int ends[2], status = fcntl(inside, F_GETFL);

        ret->by = sender_for(inside);
        if (ret->by < 0)
                return ret->by;
        if (connect(ret->by, (const struct sockaddr *)&to->to.un, to->to.n) < 0)
                return -errno;
        if (address_of(inside, &own) && (ret->answered = fcntl(inside, F_DUPFD_CLOEXEC, 3)) < 0)
                return -errno;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;

        ret->end = ends[0];
        *ret_end = ends[1];
        if (status >= 0 && status & O_NONBLOCK && fcntl(*ret_end, F_SETFL, O_NONBLOCK) < 0)
                return -errno;

        return 0;
}

int datagram_connect(struct held *held, int inside, const struct sockaddr_un *to, size_t n) {
        cleanup(receiver_done) struct receiver receiver = { .file = -1, .place = { .object = -1, .dir = -1 } };
        cleanup(close_fd) int end = -1;
        struct carrier *carrier;
        int r = receiver_find(held, to, n, &receiver);

        if (r < 0)
                return r;

        carrier = atomic_fetch_add(&carriers, 1) < CARRIERS_MAX ? calloc(1, sizeof *carrier) : NULL;
        if (!carrier) {
                atomic_fetch_sub(&carriers, 1);
                return -ENOBUFS;
        }

        *carrier = (struct carrier){ .end = -1, .by = -1, .answered = -1 };
        r = carrier_make(inside, &receiver, carrier, &end);
        if (r == 0)
                r = replace_descriptor(held, end);
        if (r == 0)
                r = carrier_start(carrier);
        if (r < 0)
                carrier_free(carrier);

        return r;
}
