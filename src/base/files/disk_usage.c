/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk holds one descriptor. It notes the names of a directory's directories, goes into them one after the other,
 * and comes back by "..", where it must find the directory it came from: who moves directories about meanwhile is told
 * from who does not.
 *
 * What is mounted below does not count. That is told by the mount, not by the device: the files of an overlay and the
 * subvolumes of btrfs have other devices than the directory that they are in.
 */
#include "base/files/disk_usage.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { BLOCK = 512, NAMES_MAX = 256 << 20, LINKED_MAX = 4 << 20, LEVELS_MAX = 1 << 20 };

/* A file that may be seen again. */
struct linked {
        dev_t device;
        uint64_t inode, bytes;
};
typedef VEC(struct linked) linked_list;

struct level {
        struct buf names; /* of directories that are still to be seen, each with its NUL */
        size_t at;
        dev_t device;
        uint64_t inode;
};

struct walk {
        int here;
        uint64_t mount;
        VEC(struct level) levels;
        linked_list linked;
        struct disk_usage usage;
};

static void walk_done(struct walk *walk) {
        for (size_t i = 0; i < walk->levels.n; i++)
                buf_done(&walk->levels.p[i].names);

        vec_done(&walk->levels);
        vec_done(&walk->linked);
        close_fd(&walk->here);
}

static int linked_compare(const void *left, const void *right) {
        const struct linked *a = left, *b = right;

        if (a->device != b->device)
                return a->device < b->device ? -1 : 1;

        return (a->inode > b->inode) - (a->inode < b->inode);
}

static void linked_add_each_once(linked_list *list, struct disk_usage *usage) {
        if (list->n)
                qsort(list->p, list->n, sizeof *list->p, linked_compare);

        for (size_t i = 0; i < list->n; i++)
                if (i == 0 || linked_compare(&list->p[i], &list->p[i - 1]) != 0) {
                        usage->bytes += list->p[i].bytes;
                        usage->entries++;
                }
}

/* More than can be remembered count for each of their names: too much is said, never too little. */
static int linked_note(linked_list *list, const struct statx *st, struct disk_usage *usage) {
        uint64_t bytes = st->stx_blocks * BLOCK;
        dev_t device = makedev(st->stx_dev_major, st->stx_dev_minor);

        if (list->n < LINKED_MAX)
                return vec_push(list, ((struct linked){ device, st->stx_ino, bytes }));

        usage->bytes += bytes;
        usage->entries++;

        return 0;
}

static int walk_stat(int dir, const char *name, struct statx *ret) {
        int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name[0] ? 0 : AT_EMPTY_PATH);

        if (statx(dir, name, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret) < 0)
                return -errno;

        return 0;
}

static int walk_entry(struct walk *walk, struct level *level, const char *name) {
        struct statx st;
        int r = walk_stat(walk->here, name, &st);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        if (st.stx_mnt_id != walk->mount)
                return 0;
        if (!S_ISDIR(st.stx_mode) && st.stx_nlink > 1)
                return linked_note(&walk->linked, &st, &walk->usage);

        walk->usage.bytes += st.stx_blocks * BLOCK;
        walk->usage.entries++;

        if (S_ISDIR(st.stx_mode))
                return buf_append(&level->names, str_n(name, strlen(name) + 1));

        return 0;
}

/* The directory that the walk is in: what is in it counts. */
static int walk_level(struct walk *walk) {
        struct level level = { .names = BUF(NAMES_MAX) };
        struct stat st;
        int r = 0;

        if (walk->levels.n >= LEVELS_MAX)
                return -E2BIG;
        if (fstat(walk->here, &st) < 0)
                return -errno;

        level.device = st.st_dev;
        level.inode = st.st_ino;
        int copy = openat(walk->here, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        if (!dir) {
                r = -errno;
                close_fd(&copy);
                return r;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = walk_entry(walk, &level, entry->d_name);

        closedir(dir);
        if (r == 0)
                r = vec_push(&walk->levels, level);
        if (r < 0)
                buf_done(&level.names);

        return r;
}

static int walk_up(struct walk *walk) {
        struct stat st;

        buf_done(&walk->levels.p[--walk->levels.n].names);
        if (walk->levels.n == 0)
                return 0;

        cleanup(close_fd) int up = openat(walk->here, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (up < 0 || fstat(up, &st) < 0)
                return -errno;

        const struct level *above = &walk->levels.p[walk->levels.n - 1];
        if (st.st_ino != above->inode || st.st_dev != above->device)
                return -ESTALE;

        close_fd(&walk->here);
        walk->here = take_fd(&up);

        return 0;
}

/* Into the next directory of this level, or back to the one above. */
static int walk_step(struct walk *walk) {
        struct level *level = &walk->levels.p[walk->levels.n - 1];

        if (level->at >= level->names.n)
                return walk_up(walk);

        const char *name = level->names.p + level->at;
        level->at += strlen(name) + 1;
        cleanup(close_fd) int down = openat(walk->here, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (down < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
                return 0; /* it is gone */
        if (down < 0)
                return -errno;

        close_fd(&walk->here);
        walk->here = take_fd(&down);

        return walk_level(walk);
}

int disk_usage_of_tree(int dir, struct disk_usage *ret) {
        cleanup(walk_done) struct walk walk = { .here = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
        struct statx st;

        if (walk.here < 0)
                return -errno;

        int r = walk_stat(walk.here, "", &st);
        if (r < 0)
                return r;

        walk.mount = st.stx_mnt_id;
        walk.usage = (struct disk_usage){ .bytes = st.stx_blocks * BLOCK, .entries = 1 };
        r = walk_level(&walk);

        while (r == 0 && walk.levels.n)
                r = walk_step(&walk);
        if (r < 0)
                return r;

        linked_add_each_once(&walk.linked, &walk.usage);
        *ret = walk.usage;

        return 0;
}

/*
 * Room.
 */
int disk_room(int dir, struct disk_room *ret) {
        struct statvfs st;

        if (fstatvfs(dir, &st) < 0)
                return -errno;

        *ret = (struct disk_room){ .bytes = st.f_bavail * st.f_frsize,
                                   .bytes_total = st.f_blocks * st.f_frsize,
                                   .entries = st.f_favail,
                                   .entries_total = st.f_files };
        return 0;
}

struct disk_usage disk_floor(const struct disk_room *room) {
        struct disk_usage floor = { .bytes = room->bytes_total / DISK_FLOOR_PART,
                                    .entries = room->entries_total / DISK_FLOOR_PART };

        if (floor.bytes > DISK_FLOOR_BYTES)
                floor.bytes = DISK_FLOOR_BYTES;
        if (floor.entries > DISK_FLOOR_ENTRIES)
                floor.entries = DISK_FLOOR_ENTRIES;

        return floor;
}

bool disk_is_low(const struct disk_room *room) {
        struct disk_usage floor = disk_floor(room);

        return room->bytes < floor.bytes || room->entries < floor.entries;
}

const char *disk_text(uint64_t bytes, char room[static DISK_TEXT_MAX]) {
        static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
        size_t unit = 0;
        uint64_t tenths = bytes % 1024 * 10 / 1024;

        if (bytes < 1024) {
                snprintf(room, DISK_TEXT_MAX, "%" PRIu64 " bytes", bytes);
                return room;
        }

        for (; bytes >= 1024; unit++) {
                tenths = bytes % 1024 * 10 / 1024;
                bytes /= 1024;
        }

        if (tenths && bytes < 100)
                snprintf(room, DISK_TEXT_MAX, "%" PRIu64 ".%" PRIu64 " %s", bytes, tenths, units[unit]);
        else
                snprintf(room, DISK_TEXT_MAX, "%" PRIu64 " %s", bytes, units[unit]);

        return room;
}
