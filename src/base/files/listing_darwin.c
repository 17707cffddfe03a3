/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/listing.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct listing {
        DIR *dir;
        int error;
};

struct listing *listing_open(int dir, const char *name) {
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        return fd < 0 ? NULL : listing_take(fd);
}

struct listing *listing_take(int fd) {
        struct listing *made = calloc(1, sizeof *made);

        if (made)
                made->dir = fdopendir(fd);
        if (made && made->dir)
                return made;

        close_fd(&fd);
        free(made);
        errno = ENOMEM;
        return NULL;
}

const struct dirent64 *listing_next(struct listing *listing) {
        for (;;) {
                errno = 0;
                const struct dirent64 *entry = readdir(listing->dir);

                if (!entry)
                        listing->error = errno;
                if (!entry || (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0))
                        return entry;
        }
}

int listing_error(const struct listing *listing) {
        return listing->error;
}

int listing_fd(const struct listing *listing) {
        return dirfd(listing->dir);
}

void listing_close(struct listing **listing) {
        if (!*listing)
                return;

        closedir((*listing)->dir);
        free(*listing);
        *listing = NULL;
}
