/* SPDX-License-Identifier: Apache-2.0 */
/* The side of macOS of what the C library has on Linux, and of base/random_linux.c. Built by scripts/macos alone. */
#include "base/os_darwin.h"

/* The library's own; its header has been read under the other name. */
#undef socket
int socket(int domain, int type, int protocol);

#include "base/alloc.h"
#include "base/random.h"
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
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
        secret_wipe(memory, n);
}

/* A child that another thread makes between the two steps has it, too: who starts programs here has one thread. */
int os_socket(int domain, int type, int protocol) {
        int fd = socket(domain, type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), protocol);
        if (fd < 0)
                return fd;

        if (((type & SOCK_CLOEXEC) && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) ||
            ((type & SOCK_NONBLOCK) && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)) {
                int saved = errno;
                close(fd);
                errno = saved;
                return -1;
        }

        return fd;
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
