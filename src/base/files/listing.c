/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/listing.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READ_SIZE = 32 << 10 };

struct listing {
        int fd, error;
        size_t at, size;
        alignas(struct dirent64) char bytes[READ_SIZE];
};

struct listing *listing_open(int dir, const char *name) {
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                return NULL;

        return listing_take(fd);
}

struct listing *listing_take(int fd) {
        struct listing *made = malloc(sizeof *made);
        if (!made) {
                close_fd(&fd);
                errno = ENOMEM;
                return NULL;
        }

        made->fd = fd;
        made->at = made->size = 0;
        made->error = 0;
        return made;
}

static bool is_dots(const char *name) {
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

const struct dirent64 *listing_next(struct listing *listing) {
        for (;;) {
                if (listing->at >= listing->size) {
                        long got = syscall(SYS_getdents64, listing->fd, listing->bytes, sizeof listing->bytes);
                        if (got < 0)
                                listing->error = errno;
                        if (got <= 0)
                                return NULL;
                        listing->at = 0;
                        listing->size = (size_t)got;
                }

                const void *next = listing->bytes + listing->at;
                const struct dirent64 *entry = next;
                listing->at += entry->d_reclen;
                if (!is_dots(entry->d_name))
                        return entry;
        }
}

int listing_error(const struct listing *listing) {
        return listing->error;
}

int listing_fd(const struct listing *listing) {
        return listing->fd;
}

void listing_close(struct listing **listing) {
        if (!*listing)
                return;

        close_fd(&(*listing)->fd);
        free(*listing);
        *listing = NULL;
}
