/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/names.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SIZE_SMALL = 4096, SIZE_LARGE = 16384, LISTING = 8192, NON_ASCII = 0x80 };

static bool lists_all(int fd) {
        static const long known[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                                      TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC };
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if ((long)fs.f_type == known[i])
                        return true;

        return false;
}

/* FNV-1a of the name in lower case. False: not ASCII. */
static bool place_of(const char *name, unsigned *ret) {
        uint32_t hash = 2166136261U;

        for (; *name; name++) {
                unsigned char c = (unsigned char)*name;
                if (c >= NON_ASCII)
                        return false;
                hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c)) * 16777619U;
        }

        *ret = (hash ^ hash >> 16) % (64 * 64);
        return true;
}

static bool add_all(struct names *names, const char *listing, size_t size) {
        for (size_t at = 0; at < size;) {
                const struct dirent64 *entry = (const struct dirent64 *)(const void *)(listing + at);
                unsigned place;

                if (!place_of(entry->d_name, &place))
                        return false;

                names->seen[place / 64] |= 1ULL << place % 64;
                at += entry->d_reclen;
        }

        return true;
}

static void read_up_to(struct names *names, int dir, off_t size_max) {
        _Alignas(struct dirent64) char listing[LISTING];
        struct stat st;

        *names = (struct names){ .read = false };
        cleanup(close_fd) int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > size_max || !lists_all(fd))
                return;

        /* The size says little where directories are not kept in blocks: as many pieces as one of this size can have.
         */
        long got = 1;
        for (off_t left = 2 * size_max / LISTING + 1; got > 0 && left > 0; left--) {
                got = syscall(SYS_getdents64, fd, listing, sizeof listing);
                if (got > 0 && !add_all(names, listing, (size_t)got))
                        return;
        }

        names->read = got == 0;
}

void names_read(struct names *names, int dir) {
        read_up_to(names, dir, SIZE_SMALL);
}

void names_look(struct names *names, int dir, unsigned looks) {
        if (looks == NAMES_WORTH)
                read_up_to(names, dir, SIZE_SMALL);
        else if (looks == NAMES_WORTH_LARGE && !names->read)
                read_up_to(names, dir, SIZE_LARGE);
}

bool names_lack(const struct names *names, const char *name) {
        unsigned place;
        return names->read && place_of(name, &place) && !(names->seen[place / 64] >> place % 64 & 1);
}
