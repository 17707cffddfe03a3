/* SPDX-License-Identifier: Apache-2.0 */
/* The side of macOS of what the C library has on Linux, and of base/random_linux.c. Built by scripts/macos alone. */
#include "base/os_darwin.h"

/* The library's own. */
#undef socket

#include "base/alloc.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc/malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

void *reallocarray(void *memory, size_t n, size_t size) {
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes)) {
                errno = ENOMEM;
                return NULL;
        }
        return realloc(memory, bytes);
}

void *memrchr(const void *memory, int c, size_t n) {
        const unsigned char *bytes = memory;

        while (n > 0)
                if (bytes[--n] == (unsigned char)c)
                        return (void *)(uintptr_t)(bytes + n);
        return NULL;
}

void explicit_bzero(void *memory, size_t n) {
        memset(memory, 0, n);
        __asm__ volatile("" : : "r"(memory) : "memory"); /* not removed by the optimiser */
}

static int set_flags(int fd, bool close_on_exec, bool nonblocking) {
        if ((close_on_exec && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) ||
            (nonblocking && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)) {
                int saved = errno;
                close(fd);
                errno = saved;
                return -1;
        }

        return fd;
}

/* A child that another thread makes between the two steps has it, too: who starts programs here has one thread. */
int os_socket(int domain, int type, int protocol) {
        int fd = socket(domain, type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), protocol);

        return fd < 0 ? fd : set_flags(fd, type & SOCK_CLOEXEC, type & SOCK_NONBLOCK);
}

int accept4(int fd, struct sockaddr *ret_from, socklen_t *from_n, int flags) {
        int got = accept(fd, ret_from, from_n);

        return got < 0 ? got : set_flags(got, flags & SOCK_CLOEXEC, flags & SOCK_NONBLOCK);
}

int pipe2(int ret_ends[2], int flags) {
        int ends[2];
        if (pipe(ends) < 0)
                return -1;
        if (set_flags(ends[0], flags & O_CLOEXEC, flags & O_NONBLOCK) < 0) {
                close(ends[1]);
                return -1;
        }
        if (set_flags(ends[1], flags & O_CLOEXEC, flags & O_NONBLOCK) < 0) {
                close(ends[0]);
                return -1;
        }

        ret_ends[0] = ends[0];
        ret_ends[1] = ends[1];
        return 0;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, void *limit) {
        unsigned done = 0;

        (void)limit;
        for (; done < n; done++) {
                ssize_t got = recvmsg(fd, &messages[done].msg_hdr, flags);
                if (got < 0)
                        break;
                messages[done].msg_len = (unsigned)got;
        }

        return done > 0 ? (int)done : -1;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags) {
        unsigned done = 0;

        for (; done < n; done++) {
                ssize_t put = sendmsg(fd, &messages[done].msg_hdr, flags);
                if (put < 0)
                        break;
                messages[done].msg_len = (unsigned)put;
        }

        return done > 0 ? (int)done : -1;
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
        return renameatx_np(from_fd, from, to_fd, to, flags ? RENAME_EXCL : 0);
}

ssize_t copy_file_range(int from, void *at, int to, void *to_at, size_t n, unsigned flags) {
        (void)from;
        (void)at;
        (void)to;
        (void)to_at;
        (void)n;
        (void)flags;
        errno = ENOSYS;
        return -1;
}

/* At most 256 bytes at a time; it fails for larger pieces and for nothing else. */
void random_bytes(void *to, size_t n) {
        for (size_t done = 0; done < n;) {
                size_t piece = n - done < 256 ? n - done : 256;

                if (getentropy((char *)to + done, piece) != 0)
                        abort();
                done += piece;
        }
}

/* Its heap has nothing that could be said. */
void alloc_settle(void) {
}

void *alloc_zeroed(size_t n) {
        return calloc(1, n);
}

void alloc_trim(void) {
        (void)malloc_zone_pressure_relief(NULL, 0);
}

size_t alloc_size(const void *p) {
        return malloc_size(p);
}
