/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

void tool_die(const char *format, ...) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%s: ", program_invocation_short_name);
        vfprintf(stderr, format, args);
        fprintf(stderr, "\n");
        va_end(args);
        exit(1);
}

uint64_t tool_number(const char *text, uint64_t max) {
        char *end;
        errno = 0;
        unsigned long long value = strtoull(text, &end, 10);
        if (errno || end == text || *end || value > max)
                tool_die("%s is not a number up to %llu", text, (unsigned long long)max);
        return value;
}

struct sockaddr_in tool_address(const char *text) {
        struct sockaddr_in at = { .sin_family = AF_INET };
        const char *colon = strrchr(text, ':');
        char host[INET_ADDRSTRLEN];
        if (!colon || (size_t)(colon - text) >= sizeof host)
                tool_die("%s is not ADDRESS:PORT", text);
        memcpy(host, text, (size_t)(colon - text));
        host[colon - text] = 0;
        at.sin_port = htons((uint16_t)tool_number(colon + 1, UINT16_MAX));
        if (inet_pton(AF_INET, host, &at.sin_addr) != 1 || ntohl(at.sin_addr.s_addr) >> 24 != 127)
                tool_die("%s is not a loopback address", host);
        return at;
}

int tool_socket(void) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
        if (fd < 0)
                tool_die("socket: %s", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
}

int tool_listen(const struct sockaddr_in *at) {
        int fd = tool_socket(), one = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (const struct sockaddr *)at, sizeof *at) < 0 || listen(fd, 4096) < 0)
                tool_die("cannot listen on port %u: %s", ntohs(at->sin_port), strerror(errno));
        return fd;
}

void tool_raise_limits(void) {
        struct rlimit files;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
}

int tool_epoll(void) {
        int fd = epoll_create1(EPOLL_CLOEXEC);
        if (fd < 0)
                tool_die("epoll: %s", strerror(errno));
        return fd;
}

void tool_watch(int epoll, int fd, void *owner) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = owner };
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
                tool_die("epoll: %s", strerror(errno));
}
