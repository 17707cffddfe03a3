/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets without a network namespace. The address is copied once and judged as a whole, and the call is performed on a
 * copy of the descriptor, so that neither can change meanwhile.
 *
 * A Unix socket is the sandbox's own if it started to listen here: its inode number is kept, and the kernel is asked
 * which number listens at a file or name. Files and their numbers come and go; a number of a socket is not used again.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"
#include "sandbox/linux/broker/unix_listeners.h"
#include "sandbox/linux/watcher/watcher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { OWN_MAX = 65536 };

static VEC(uint32_t) own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `own`, and of the netlink socket */

static int socket_domain(int fd) {
        int domain = -1;
        socklen_t n = sizeof domain;

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) != 0)
                return -1;

        return domain;
}

static void own_remember(int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return;

        pthread_mutex_lock(&lock);
        if (own.n < OWN_MAX)
                (void)vec_push(&own, (uint32_t)st.st_ino); /* forgotten: then it cannot be connected to */

        pthread_mutex_unlock(&lock);
}

/* Whether what listens there started to do so in this sandbox. *ret_somebody: there is a listener at all. */
static bool own_listens(const struct watcher *watcher, const struct stat *file, struct str name, bool *ret_somebody) {
        bool found = false;

        pthread_mutex_lock(&lock);
        uint32_t number = unix_listener_at(watcher->diag, file, name);
        for (size_t i = 0; number && i < own.n && !found; i++)
                found = own.p[i] == number;

        pthread_mutex_unlock(&lock);

        *ret_somebody = number != 0;
        return found;
}

static bool is_granted(const struct plan *plan, const char *path) {
        for (size_t i = 0; i < plan->sockets.n; i++)
                if (strcmp(plan->sockets.p[i], path) == 0)
                        return true;
        return false;
}

static int connect_file(struct watched *watched, int fd, const struct sockaddr_un *to, size_t n) {
        char name[sizeof to->sun_path + 1] = { 0 };
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct stat st;
        bool somebody = false;

        memcpy(name, to->sun_path, n - offsetof(struct sockaddr_un, sun_path)); /* the kernel needs no NUL either */
        int r = tracee_open(&watched->tracee);
        if (r == 0)
                r = walk(&watched->tracee, AT_FDCWD, name, WALK_FOLLOW, &place);
        if (r < 0)
                return r;
        if (place.object < 0 || fstat(place.object, &st) < 0)
                return -ENOENT;
        if (!S_ISSOCK(st.st_mode))
                return -ECONNREFUSED;

        if (!own_listens(watched->watcher, &st, STR(""), &somebody) &&
            !is_granted(watched->watcher->plan, place.path)) {
                if (!somebody)
                        return -ECONNREFUSED; /* so servers find the file of one that has ended */
                watched_refused_file(watched, "connect", place.path);
                return -EACCES;
        }

        struct sockaddr_un held = { .sun_family = AF_UNIX };
        snprintf(held.sun_path, sizeof held.sun_path, "/proc/self/fd/%d", place.object);

        if (connect(fd, (struct sockaddr *)&held, sizeof held) < 0)
                return -errno;

        return 0;
}

static int connect_unix(struct watched *watched, int fd, const struct sockaddr_un *to, size_t n) {
        size_t head = offsetof(struct sockaddr_un, sun_path);
        bool somebody = false;

        if (to->sun_family != AF_UNIX || n <= head) {
                if (connect(fd, (const struct sockaddr *)to, (socklen_t)n) < 0)
                        return -errno;
                return 0;
        }
        if (n > sizeof *to)
                return -EINVAL;
        if (to->sun_path[0])
                return connect_file(watched, fd, to, n);

        if (!own_listens(watched->watcher, NULL, str_n(to->sun_path, n - head), &somebody)) {
                if (somebody)
                        watched_refused_file(watched, "connect", "/abstract");
                if (somebody)
                        return -EACCES;

                return -ECONNREFUSED;
        }

        if (connect(fd, (const struct sockaddr *)to, (socklen_t)n) < 0)
                return -errno;

        return 0;
}

/* The address as IPv4, if it is, in either form. */
static bool address_v4(const struct sockaddr *sa, uint32_t *ret, uint16_t *ret_port) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;

        if (sa->sa_family == AF_INET) {
                *ret = ntohl(v4->sin_addr.s_addr);
                *ret_port = ntohs(v4->sin_port);
                return true;
        }

        if (sa->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
                return false;

        memcpy(ret, v6->sin6_addr.s6_addr + 12, 4);
        *ret = ntohl(*ret);
        *ret_port = ntohs(v6->sin6_port);

        return true;
}

/* The gateway listens on 127.0.0.1 and nowhere else. */
static bool is_gateway(const struct plan *plan, const struct sockaddr *to) {
        uint32_t address;
        uint16_t port;

        if (!address_v4(to, &address, &port) || address != INADDR_LOOPBACK)
                return false;

        for (size_t i = 0; i < plan->landlock.ports.n; i++)
                if (plan->landlock.ports.p[i].port == port)
                        return true;

        return false;
}

static bool is_loopback(const struct sockaddr *at) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;
        uint32_t address;
        uint16_t port;

        if (address_v4(at, &address, &port))
                return address >> 24 == IN_LOOPBACKNET;
        return at->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

struct copied {
        int fd;
        size_t n;
        union {
                struct sockaddr sa;
                struct sockaddr_un un;
                struct sockaddr_storage any;
        } address;
};

static void copied_done(struct copied *copied) {
        close_fd(&copied->fd);
}

/* Descriptor and address, each once. */
static int copied_take(struct watched *watched, struct copied *ret) {
        int length = (int)watched->args[2];
        bool fits = length >= 0 && (size_t)length <= sizeof ret->address;

        *ret = (struct copied){ .n = fits ? (size_t)length : 0 };
        ret->fd = tracee_take(&watched->tracee, (int)watched->args[0],
                              &(struct tracee_bytes){ watched->args[1], ret->n, &ret->address });
        if (ret->fd < 0)
                return ret->fd;

        if (!fits)
                return -EINVAL;

        return 0;
}

static int op_connect(struct watched *watched) {
        cleanup(copied_done) struct copied copied = { .fd = -1 };
        int r = copied_take(watched, &copied);
        if (r < 0)
                return r;

        int domain = socket_domain(copied.fd);
        if (domain == AF_UNIX)
                return connect_unix(watched, copied.fd, &copied.address.un, copied.n);
        if (domain != AF_INET && domain != AF_INET6)
                return -EACCES;

        if (copied.n >= sizeof copied.address.sa.sa_family && copied.address.sa.sa_family != AF_UNSPEC &&
            !is_gateway(watched->watcher->plan, &copied.address.sa)) {
                watched_refused_address(watched, &copied.address.sa);
                return -EACCES;
        }

        if (connect(copied.fd, &copied.address.sa, (socklen_t)copied.n) < 0)
                return -errno;

        return 0;
}

/* A name in the file system is made by the caller, whom Landlock holds. If the descriptor is another one by then, it
 * still has to listen. */
static int op_bind(struct watched *watched) {
        cleanup(copied_done) struct copied copied = { .fd = -1 };
        int r = copied_take(watched, &copied);
        if (r < 0)
                return r;

        int domain = socket_domain(copied.fd);
        if (domain != AF_INET && domain != AF_INET6)
                return WATCHED_CONTINUE;

        if (copied.n < sizeof copied.address.sa.sa_family || !is_loopback(&copied.address.sa)) {
                watched_refused_address(watched, &copied.address.sa);
                return -EACCES;
        }

        if (bind(copied.fd, &copied.address.sa, (socklen_t)copied.n) < 0)
                return -errno;

        return 0;
}

static bool is_at_loopback(int fd, struct sockaddr_storage *ret) {
        socklen_t n = sizeof *ret;

        *ret = (struct sockaddr_storage){ 0 };
        return getsockname(fd, (struct sockaddr *)ret, &n) == 0 && is_loopback((struct sockaddr *)ret);
}

/* Once: to set it again is a privilege, though it be the same. */
static int bind_to_loopback_device(int fd) {
        static const char device[] = "lo";
        char now[IFNAMSIZ] = "";
        socklen_t n = sizeof now;

        if (getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, now, &n) == 0 && n == sizeof device &&
            memcmp(now, device, sizeof device) == 0)
                return 0;
        if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof device) < 0)
                return -errno;

        return 0;
}

/* The caller has the same socket. One that is connected to the gateway has an address of loopback, and has none any
 * more when another thread disconnects it before listen(): it would listen everywhere. So it listens at the loopback's
 * device alone, which the caller cannot undo without a privilege, and is looked at once more. */
static int listen_internet(struct watched *watched, int fd) {
        struct sockaddr_storage at;

        if (!is_at_loopback(fd, &at)) {
                watched_refused_address(watched, (struct sockaddr *)&at);
                return -EACCES;
        }

        int r = bind_to_loopback_device(fd);
        if (r < 0)
                return r;
        if (listen(fd, (int)watched->args[1]) < 0)
                return -errno;

        if (is_at_loopback(fd, &at))
                return 0;

        (void)shutdown(fd, SHUT_RDWR);
        watched_refused_address(watched, (struct sockaddr *)&at);
        return -EACCES;
}

static int op_listen(struct watched *watched) {
        cleanup(close_fd) int fd = tracee_take(&watched->tracee, (int)watched->args[0], &(struct tracee_bytes){ 0 });
        if (fd < 0)
                return fd;

        if (socket_domain(fd) != AF_UNIX)
                return listen_internet(watched, fd);

        own_remember(fd);
        if (listen(fd, (int)watched->args[1]) < 0)
                return -errno;

        return 0;
}

const struct watched_op watched_sockets[] = {
        { SYS_connect, op_connect, true },
        { SYS_bind, op_bind, false },
        { SYS_listen, op_listen, false },
};
const size_t watched_sockets_n = sizeof watched_sockets / sizeof *watched_sockets;
