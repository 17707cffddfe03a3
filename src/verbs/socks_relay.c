/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread per direction, each with blocking calls: neither can hold the other up, and the descriptors that came from
 * the caller keep their flags. Each direction ends by itself: the end of the input is passed on as a half-close, and
 * the far end's is passed on by closing the output.
 */
#include "verbs/socks_relay.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "policy/match/host.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The greeting is answered at once; the request may wait for a person's answer. */
enum { GREETING_SECONDS = 10, REQUEST_SECONDS = 900 };
enum { CONNECT_MS = 10000, LINGER_SECONDS = 10, CHUNK = 65536 };

/* RFC 1928. */
enum { SOCKS_VERSION = 5, SOCKS_CONNECT = 1, SOCKS_V4 = 1, SOCKS_NAME = 3, SOCKS_V6 = 4, SOCKS_REPLIES = 9 };

static const struct {
        enum err_kind kind;
        const char *text;
} replies[SOCKS_REPLIES] = {
        [1] = { ERR_NO, "the name does not resolve, or the gateway failed" },
        [2] = { ERR_REFUSED, "policy refuses it (\"bailey log --denied\" says why)" },
        [3] = { ERR_NO, "its network is unreachable" },
        [4] = { ERR_NO, "it is unreachable" },
        [5] = { ERR_NO, "it refuses the connection" },
        [6] = { ERR_NO, "it does not answer" },
        [7] = { ERR_UNAVAILABLE, "the proxy cannot CONNECT" },
        [8] = { ERR_UNAVAILABLE, "the proxy does not know this kind of address" },
};

/* The proxy is named by address: this program resolves no names. */
static int parse_via(const char *text, struct endpoint *ret, struct err *err) {
        struct str s = str_of(text);
        static const char *const prefixes[] = { "socks5h://", "socks5://" };
        struct authority authority;

        for (size_t i = 0; i < 2; i++)
                if (str_starts(s, str_of(prefixes[i])))
                        s = str_skip(s, strlen(prefixes[i]));

        if (s.n && s.p[s.n - 1] == '/')
                s = str_first(s, s.n - 1);
        if (authority_parse(s, 1080, &authority, NULL) < 0)
                return err_set(err, EINVAL, "the proxy \"%s\" is not socks5h://ADDRESS:PORT", text);

        if (authority.host.kind == HOST_ADDR)
                ret->addr = authority.host.addr;
        else if (str_is(host_str(&authority.host), "localhost"))
                ret->addr = (struct addr){ ADDR_V4, { 127, 0, 0, 1 } };
        else
                return err_set(err, EINVAL, "the proxy \"%s\" must be given by its address", text);

        ret->port = authority.port;
        return 0;
}

static int parse_target(const char *host, const char *port, struct authority *ret, struct err *err) {
        uint64_t number;
        struct addr literal;

        if (!str_to_u64(str_of(port), 65535, &number) || number == 0)
                return err_set(err, EINVAL, "\"%s\" is not a port", port);

        if (addr_parse(str_of(host), &literal)) /* ssh gives IPv6 without brackets */
                host_from_addr(&literal, &ret->host);
        else {
                int r = host_parse(str_of(host), &ret->host, err);
                if (r < 0)
                        return r;
        }

        ret->port = (uint16_t)number;
        return 0;
}

static int relay_dial(const struct endpoint *via, int *ret_fd, struct err *err) {
        struct sockaddr_storage sa;
        socklen_t n = addr_to_sockaddr(&via->addr, via->port, &sa);
        const int on = 1;
        cleanup(close_fd) int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_errno(err, "cannot create a socket");

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        int failed = connect(fd, (struct sockaddr *)&sa, n) < 0 ? errno : 0;
        if (failed == EINPROGRESS) {
                struct pollfd pollfd = { .fd = fd, .events = POLLOUT };
                socklen_t size = sizeof failed;

                if (poll(&pollfd, 1, CONNECT_MS) != 1)
                        failed = ETIMEDOUT;
                else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)
                        failed = errno;
        }

        if (failed)
                return err_set(err, failed, "the gateway's SOCKS5 port cannot be reached: %s", strerror(failed));

        int r = fd_set_nonblocking(fd, false);
        if (r < 0)
                return err_set(err, -r, "cannot use the socket");

        *ret_fd = take_fd(&fd);
        return 0;
}

static size_t write_request(const struct authority *authority, unsigned char out[static 300]) {
        size_t n = 0;

        out[n++] = SOCKS_VERSION;
        out[n++] = SOCKS_CONNECT;
        out[n++] = 0;

        if (authority->host.kind == HOST_NAME) {
                out[n++] = SOCKS_NAME;
                out[n++] = authority->host.name_n;
                memcpy(out + n, authority->host.name, authority->host.name_n);
                n += authority->host.name_n;
        } else {
                size_t bytes = authority->host.addr.family == ADDR_V4 ? 4 : 16;

                out[n++] = bytes == 4 ? SOCKS_V4 : SOCKS_V6;
                memcpy(out + n, authority->host.addr.bytes, bytes);
                n += bytes;
        }

        out[n++] = (unsigned char)(authority->port >> 8);
        out[n++] = (unsigned char)authority->port;

        return n;
}

static int not_a_gateway(int r, struct err *err) {
        err_blame(err, ERR_UNAVAILABLE);
        return err_set(err, r < 0 ? -r : EPROTO, "what listens at the proxy's address does not answer as SOCKS5");
}

static int set_patience(int fd, time_t seconds) {
        const struct timeval limit = { .tv_sec = seconds };
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0)
                return -errno;

        return 0;
}

static int relay_handshake(int fd, const struct authority *target, struct err *err) {
        unsigned char request[300], answer[300] = { 0 };
        const unsigned char greeting[] = { SOCKS_VERSION, 1, 0 };
        int r = set_patience(fd, GREETING_SECONDS);

        if (r >= 0)
                r = fd_write_all(fd, greeting, sizeof greeting);
        if (r >= 0)
                r = fd_read_exact(fd, answer, 2);
        if (r < 0 || answer[0] != SOCKS_VERSION || answer[1] != 0)
                return not_a_gateway(r, err);

        r = set_patience(fd, REQUEST_SECONDS);
        if (r >= 0)
                r = fd_write_all(fd, request, write_request(target, request));
        if (r >= 0)
                r = fd_read_exact(fd, answer, 4);
        if (r < 0 || answer[0] != SOCKS_VERSION)
                return not_a_gateway(r, err);

        if (answer[1] != 0) {
                unsigned code = answer[1] < SOCKS_REPLIES ? answer[1] : 1;
                char text[AUTHORITY_TEXT_MAX];

                authority_text(target, text);
                err_blame(err, replies[code].kind);
                return err_set(err, EHOSTUNREACH, "%s: %s", text, replies[code].text);
        }

        size_t rest;
        if (answer[3] == SOCKS_V4)
                rest = 4;
        else if (answer[3] == SOCKS_V6)
                rest = 16;
        else
                rest = 0;

        if (answer[3] == SOCKS_NAME) {
                r = fd_read_exact(fd, answer, 1);
                rest = answer[0];
        }

        if (r >= 0)
                r = fd_read_exact(fd, answer, rest + 2);
        if (r >= 0)
                r = set_patience(fd, 0);

        if (r < 0)
                return not_a_gateway(r, err);

        return 0;
}

/* Until the end or an error: 0 or a negative errno. splice() would save a copy, but it waits for the socket with the
 * pipe's lock held, and ssh, whose reads do not block, would hang on that lock. */
static int relay_copy(int from, int to) {
        cleanup(free_ptr) char *buffer = malloc(CHUNK);
        if (!buffer)
                return -ENOMEM;

        for (;;) {
                ssize_t n = read(from, buffer, CHUNK);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n <= 0)
                        return 0;

                int r = fd_write_all(to, buffer, (size_t)n);
                if (r < 0)
                        return r;
        }
}

/* The thread may outlive the call (see below), so what it uses is its own. */
struct outward {
        int in, fd;
};

static void *copy_outward(void *arg) {
        cleanup(free_ptr) struct outward *outward = arg;
        (void)relay_copy(outward->in, outward->fd);
        (void)shutdown(outward->fd, SHUT_WR);
        close(outward->fd);
        return NULL;
}

static int relay_bytes(int fd, int in, int out, struct err *err) {
        cleanup(free_ptr) struct outward *outward = malloc(sizeof *outward);
        pthread_t thread;

        if (!outward)
                return err_memory(err);

        *outward = (struct outward){ in, fcntl(fd, F_DUPFD_CLOEXEC, 3) };
        if (outward->fd < 0)
                return err_errno(err, "cannot share the connection");

        int r = pthread_create(&thread, NULL, copy_outward, outward);
        if (r != 0) {
                close(outward->fd);
                return err_set(err, r, "cannot start a thread");
        }

        outward = NULL;
        int inward = relay_copy(fd, out);
        close(out); /* the reader sees the end at once */

        /* The far end may still read. Who keeps the input open and silent is not waited for long. */
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += inward < 0 ? 0 : LINGER_SECONDS;
        if (pthread_timedjoin_np(thread, NULL, &end) != 0)
                pthread_detach(thread); /* ends with the process */

        if (inward < 0 && inward != -EPIPE)
                return err_set(err, -inward, "the connection broke: %s", strerror(-inward));

        return 0;
}

int relay_run(const struct relay_settings *settings, struct err *err) {
        struct endpoint via;
        struct authority target;
        cleanup(close_fd) int fd = -1;

        err_blame(err, ERR_USAGE);
        int r = parse_via(settings->via, &via, err);
        if (r == 0)
                r = parse_target(settings->host, settings->port, &target, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_UNAVAILABLE);
        r = relay_dial(&via, &fd, err);
        if (r == 0)
                r = relay_handshake(fd, &target, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        return relay_bytes(fd, settings->in, settings->out, err);
}
