/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets. A name in the file system leads to its listener in any network namespace, and neither a read-only mount
 * nor Landlock before ABI 9 stops connect(). So connect() is performed here: the address is copied once, the file that
 * it names is held, and the connection is made through the held file, only if a socket of this sandbox is bound to it.
 *
 * The broker learns those files when a socket starts to listen. The kernel says which file a socket is bound to, and
 * only for sockets of the sandbox's own network namespace. Binding always makes a new file, so a file that was ours
 * once can never become somebody else's; it is held open so that its number is not used again. A listener that was
 * missed cannot be reached: the error is on the safe side.
 *
 * Datagram sockets need no connect(): broker_datagrams.c makes them, so that they can receive and nothing else. Pairs
 * of them, which programs use among their own processes, are pairs of packet sockets.
 *
 * Connections by TCP pay for this (`bench/run --experiment connect` says what), because a filter sees the number of a
 * descriptor and not its family, a number can be moved to any socket (dup2, SCM_RIGHTS), and a length that looks like
 * TCP's fits a short name just as well. No mount option refuses sockets either. Landlock ABI 9 ends it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"
#include "plan/engines.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { OWN_MAX = 4096, CROWDED_MS = 20 };

struct own {
        dev_t dev;
        ino_t ino;
        int file; /* O_PATH */
};
static VEC(struct own) owned;
static pthread_mutex_t owned_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_owned(const struct stat *st) {
        for (size_t i = 0; i < owned.n; i++)
                if (owned.p[i].dev == st->st_dev && owned.p[i].ino == st->st_ino)
                        return true;
        return false;
}

/* Makes room: first what has no name any more and cannot be reached, else the oldest. */
static void forget_some(void) {
        size_t kept = 0;

        for (size_t i = 0; i < owned.n; i++) {
                struct stat st;

                if (fstat(owned.p[i].file, &st) == 0 && st.st_nlink > 0)
                        owned.p[kept++] = owned.p[i];
                else
                        close_fd(&owned.p[i].file);
        }

        size_t oldest = kept == owned.n && kept > 0 ? kept / 4 + 1 : 0;
        for (size_t i = 0; i < oldest; i++)
                close_fd(&owned.p[i].file);

        for (size_t i = oldest; i < kept; i++)
                owned.p[i - oldest] = owned.p[i];

        owned.n = kept - oldest;
}

/* Takes the descriptor. */
static void sockets_remember(int taken) {
        cleanup(close_fd) int file = taken;
        struct stat st;

        if (fstat(file, &st) < 0 || !S_ISSOCK(st.st_mode))
                return;

        pthread_mutex_lock(&owned_lock);
        if (owned.n >= OWN_MAX)
                forget_some();
        if (!is_owned(&st) && vec_push(&owned, ((struct own){ st.st_dev, st.st_ino, file })) == 0)
                (void)take_fd(&file);

        pthread_mutex_unlock(&owned_lock);
}

static bool is_unix(int fd) {
        int domain = 0;
        socklen_t n = sizeof domain;
        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

void broker_own_socket(int fd) {
        int file = tracee_socket_file(fd);

        if (file == -EMFILE || file == -ENFILE) {
                pthread_mutex_lock(&owned_lock);
                forget_some();
                pthread_mutex_unlock(&owned_lock);
                file = tracee_socket_file(fd);
        }

        if (file >= 0)
                sockets_remember(file);
}

/* Nothing is decided here, so the call itself is the caller's own. */
static int op_listen(struct held *held) {
        cleanup(close_fd) int fd = tracee_take(&held->tracee, (int)held->args[0], &(struct tracee_bytes){ 0 });

        if (fd >= 0 && is_unix(fd))
                broker_own_socket(fd);
        return OP_CONTINUE;
}

static bool may_reach(struct held *held, const struct stat *st) {
        pthread_mutex_lock(&owned_lock);
        bool may = is_owned(st);
        pthread_mutex_unlock(&owned_lock);
        for (size_t i = 0; i < held->broker->n_sockets && !may; i++)
                may = strcmp(held->broker->sockets[i], held->path) == 0;
        return may;
}

/* By ECONNREFUSED servers recognise the file of one that has ended, and take it over. The other side, of whatever kind,
 * does not notice a datagram socket that connects. */
static bool somebody_is_there(const struct sockaddr_un *held) {
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        return fd < 0 || connect(fd, (const struct sockaddr *)held, sizeof *held) == 0 || errno != ECONNREFUSED;
}

/* By the address as it is written, in one call. Whatever is not plain there, and every error, is left to the walk. */
static int find_spelled(struct held *held, const char *name, struct place *place, struct stat *ret) {
        int r = walk_spell(&held->tracee, AT_FDCWD, name, place->path);
        if (r < 0)
                return r;

        place->object = walk_open_spelled(AT_FDCWD, place->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (place->object < 0)
                return place->object;

        if (fstat(place->object, ret) < 0 || !S_ISSOCK(ret->st_mode)) {
                close_fd(&place->object);
                return -ELOOP;
        }

        return tracee_confirm(&held->tracee);
}

static int find_walking(struct held *held, const char *name, struct place *place, struct stat *ret) {
        int r = walk(&held->tracee, AT_FDCWD, name, WALK_FOLLOW, place);
        if (r < 0)
                return r;
        if (place->object < 0)
                return -ENOENT;

        if (fstat(place->object, ret) < 0)
                return -errno;
        if (place->wants_directory && !S_ISDIR(ret->st_mode))
                return -ENOTDIR;

        return S_ISSOCK(ret->st_mode) ? 0 : -ECONNREFUSED;
}

/* An engine's client asks whether the daemon runs. It may well: somebody has to say what is the matter. */
static void note_engine(struct held *held, const char *name) {
        if (name[0] != '/' || !engine_socket(name))
                return;

        memcpy(held->path, name, strlen(name) + 1);
        held->writes = held->stranger = true;
}

int broker_judge_named(struct held *held, const struct sockaddr_un *to, size_t n, struct place *place,
                       struct sockaddr_un *ret) {
        char name[sizeof to->sun_path + 1] = { 0 };
        struct stat st;
        int r;

        memcpy(name, to->sun_path, n - offsetof(struct sockaddr_un, sun_path)); /* the kernel needs no NUL either */
        r = find_spelled(held, name, place, &st);
        if (r < 0 && r != -ESRCH)
                r = find_walking(held, name, place, &st);
        if (r == -ENOENT)
                note_engine(held, name);
        if (r < 0)
                return r;

        memcpy(held->path, place->path, strlen(place->path) + 1);
        held->writes = true;
        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d", place->object);

        if (may_reach(held, &st))
                return 0;

        held->stranger = somebody_is_there(ret);
        return held->stranger ? -EACCES : -ECONNREFUSED;
}

static int connect_by_name(struct held *h, int fd, const struct sockaddr_un *to, size_t n) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct sockaddr_un held;
        int r = tracee_open(&h->tracee);

        if (r == 0)
                r = broker_judge_named(h, to, n, &place, &held);
        if (r < 0)
                return r;

        return connect(fd, (struct sockaddr *)&held, sizeof held) < 0 ? -errno : 0;
}

/* The caller's socket, and the address that it gives. */
struct asked {
        _Alignas(struct sockaddr_storage) char address[sizeof(struct sockaddr_storage)];
        size_t n;
        int fd;
        bool named;    /* a Unix socket, by a name in the tree */
        bool datagram; /* a Unix datagram socket, by any name */
};

static void asked_done(struct asked *asked) {
        close_fd(&asked->fd);
}

static int read_asked(struct held *held, struct asked *ret) {
        const struct sockaddr_un *to = (const struct sockaddr_un *)ret->address;
        int length = (int)held->args[2];
        bool fits = length >= 0 && (size_t)length <= sizeof ret->address;

        ret->n = fits ? (size_t)length : 0;
        ret->fd = tracee_take(&held->tracee, (int)held->args[0],
                              &(struct tracee_bytes){ held->args[1], ret->n, ret->address });
        if (ret->fd < 0 || !fits)
                return ret->fd < 0 ? ret->fd : -EINVAL;

        if (ret->n <= offsetof(struct sockaddr_un, sun_path) || to->sun_family != AF_UNIX)
                return 0;

        ret->named = to->sun_path[0] && is_unix(ret->fd);
        ret->datagram = datagram_is(ret->fd);

        return ret->named && ret->n > sizeof *to ? -EINVAL : 0;
}

static int op_connect(struct held *held) {
        cleanup(asked_done) struct asked asked = { .fd = -1 };
        int r = read_asked(held, &asked);

        if (r < 0)
                return r;
        if (asked.datagram)
                return datagram_connect(held, asked.fd, (const struct sockaddr_un *)asked.address, asked.n);
        if (asked.named)
                return connect_by_name(held, asked.fd, (const struct sockaddr_un *)asked.address, asked.n);

        if (connect(asked.fd, (const struct sockaddr *)asked.address, (socklen_t)asked.n) == 0)
                return 0;

        /* Its time is over (SO_SNDTIMEO). It was begun here, not by the caller. */
        return held->begun && errno == EALREADY ? -EINPROGRESS : -errno;
}

/* Over loopback the answer is there before connect() returns, and the second call learns it. */
static int connect_asking_twice(struct held *held, int fd, const struct sockaddr *to, socklen_t n) {
        if (connect(fd, to, n) == 0)
                return 0;
        if (errno != EINPROGRESS)
                return -errno;

        held->begun = true;
        return connect(fd, to, n) < 0 ? -errno : 0;
}

/* The flag belongs to the socket, which another process may share; but a stream that is not connected yet is of no use
 * to it, and the caller itself waits. (Who sets the flag at this very moment loses it.) One that takes the flag back at
 * this very moment makes its own sandbox wait, as it could by stopping every process in it: nobody outside waits for
 * the broker. */
static int connect_without_waiting(struct held *held, int fd, const struct sockaddr *to, socklen_t n) {
        int flags = fcntl(fd, F_GETFL), r;

        if (flags < 0)
                return OP_WAITS;
        if (flags & O_NONBLOCK)
                return connect(fd, to, n) < 0 ? -errno : 0;
        if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return OP_WAITS;

        r = connect_asking_twice(held, fd, to, n);
        if (fcntl(fd, F_SETFL, flags) < 0)
                return -errno;

        return r == -EAGAIN || r == -EALREADY || r == -EINPROGRESS ? OP_WAITS : r;
}

static bool is_by_ip(const struct asked *asked) {
        const struct sockaddr *to = (const struct sockaddr *)asked->address;

        return asked->n >= sizeof to->sa_family && (to->sa_family == AF_INET || to->sa_family == AF_INET6);
}

/* Sockets that others may receive from now, or accept, keep their flag: they are connected without waiting anyway. */
static bool is_idle_stream(int fd) {
        struct sockaddr_storage peer;
        socklen_t n = sizeof(int), peer_n = sizeof peer;
        int type = 0, listens = 1;

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM &&
               getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && !listens &&
               getpeername(fd, (struct sockaddr *)&peer, &peer_n) < 0 && errno == ENOTCONN;
}

static int connect_by_ip(struct held *held, const struct asked *asked) {
        const struct sockaddr *to = (const struct sockaddr *)asked->address;
        int type = 0;
        socklen_t n = sizeof type;

        if (is_idle_stream(asked->fd))
                return connect_without_waiting(held, asked->fd, to, (socklen_t)asked->n);
        if (getsockopt(asked->fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_DGRAM)
                return OP_WAITS;

        return connect(asked->fd, to, (socklen_t)asked->n) < 0 ? -errno : 0;
}

/* A server inside or the gateway, whose queue has room: nobody has to wait. */
static int connect_at_once(struct held *h) {
        cleanup(asked_done) struct asked asked = { .fd = -1 };
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct sockaddr_un held;
        int r;

        (void)tracee_recall(&h->tracee);
        if (read_asked(h, &asked) < 0 || asked.datagram)
                return OP_WAITS;
        if (is_by_ip(&asked))
                return connect_by_ip(h, &asked);
        if (!asked.named || tracee_open_known(&h->tracee) < 0)
                return OP_WAITS;

        r = broker_judge_named(h, (const struct sockaddr_un *)asked.address, asked.n, &place, &held);
        if (r < 0)
                return r == -ESRCH ? OP_WAITS : r;

        return connect_without_waiting(h, asked.fd, (const struct sockaddr *)&held, sizeof held);
}

/* A connection goes to the gateway or stays inside, so it is made in no time. Where it is not, it is given up: somebody
 * else's call waits for this one to end. */
static int connect_soon(const struct held *held, int fd, const struct sockaddr *to, socklen_t n) {
        const struct sockaddr none = { .sa_family = AF_UNSPEC };
        struct pollfd made = { .fd = fd, .events = POLLOUT };
        socklen_t size = sizeof(int);
        int error = 0;

        if (connect(fd, to, n) == 0)
                return 0;
        if (errno != EINPROGRESS && !(held->begun && errno == EALREADY))
                return -errno;

        if (poll(&made, 1, CROWDED_MS) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
                return -error;

        (void)connect(fd, &none, sizeof none);
        return -EAGAIN;
}

/* By TCP, to the gateway or a server inside. */
static int connect_far(const struct held *held, const struct asked *asked) {
        const struct sockaddr *to = (const struct sockaddr *)asked->address;
        int flags = fcntl(asked->fd, F_GETFL), r;

        if (flags < 0 || fcntl(asked->fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        if (flags & O_NONBLOCK)
                return connect(asked->fd, to, (socklen_t)asked->n) < 0 ? -errno : 0;

        r = connect_soon(held, asked->fd, to, (socklen_t)asked->n);
        return fcntl(asked->fd, F_SETFL, flags) < 0 ? -errno : r;
}

static int connect_near(struct held *h, const struct asked *asked) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct sockaddr_un held;
        int r = tracee_open(&h->tracee);

        if (r == 0)
                r = broker_judge_named(h, (const struct sockaddr_un *)asked->address, asked->n, &place, &held);
        if (r == 0)
                r = connect_without_waiting(h, asked->fd, (const struct sockaddr *)&held, sizeof held);

        return r == OP_WAITS ? -EAGAIN : r; /* its server has no room */
}

/* Every worker waits for somebody. What need not wait is done all the same; what is asked for is read once. */
static int connect_crowded(struct held *held) {
        cleanup(asked_done) struct asked asked = { .fd = -1 };
        int r = read_asked(held, &asked);

        if (r < 0)
                return r;
        if (asked.datagram)
                return datagram_connect(held, asked.fd, (const struct sockaddr_un *)asked.address, asked.n);

        return asked.named ? connect_near(held, &asked) : connect_far(held, &asked);
}

static int add_to_caller(const struct tracee *tracee, int fd, bool close_on_exec) {
        struct seccomp_notif_addfd pass = {
                .id = tracee->id,
                .srcfd = (unsigned)fd,
                .newfd_flags = close_on_exec ? O_CLOEXEC : 0,
        };
        int number = ioctl(tracee->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &pass);

        return number < 0 ? -errno : number;
}

/* A pair of datagram sockets could send to any name. Packets keep their bounds as datagrams do, and stay in the pair.
 */
static int op_socketpair(struct held *held) {
        int type = (int)held->args[1], ends[2], numbers[2] = { -1, -1 };
        bool datagrams = (type & 0xf) == SOCK_DGRAM || (type & 0xf) == SOCK_RAW;

        if ((int)held->args[0] != AF_UNIX || !datagrams)
                return -EPERM; /* what the main filter refuses, in a trace */
        if (tracee_write(&held->tracee, held->args[3], numbers, sizeof numbers) < 0)
                return -EFAULT;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (type & SOCK_NONBLOCK), 0, ends) < 0)
                return -errno;

        cleanup(close_fd) int one = ends[0];
        cleanup(close_fd) int other = ends[1];
        numbers[0] = add_to_caller(&held->tracee, one, type & SOCK_CLOEXEC);
        numbers[1] = numbers[0] < 0 ? numbers[0] : add_to_caller(&held->tracee, other, type & SOCK_CLOEXEC);
        if (numbers[1] < 0)
                return numbers[1];

        return tracee_write(&held->tracee, held->args[3], numbers, sizeof numbers);
}

const struct broker_op broker_socket_ops[] = {
        { SYS_connect, "connect", op_connect, .at_once = connect_at_once, .waits = true, .crowded = connect_crowded },
        { SYS_listen, "listen", op_listen },
        { SYS_socketpair, "socketpair", op_socketpair },
        { SYS_socket, "socket", op_socket },
        { SYS_sendto, "sendto", op_sendto, .waits = true },
};
const size_t broker_socket_ops_n = sizeof broker_socket_ops / sizeof broker_socket_ops[0];
