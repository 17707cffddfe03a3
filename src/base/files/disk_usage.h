/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much room there is on a file system, and how much of it a directory or the processes of a sandbox hold. Nothing
 * that is looked at is trusted: links are not followed, nesting costs no stack and no descriptors, and every list has a
 * bound.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Blocks that are allocated, not lengths of files; an entry is a file, a directory, a link. */
struct disk_usage {
        uint64_t bytes, entries;
};

/* Everything below the directory, and itself. What has several names counts once. -ESTALE: it was changed meanwhile,
 * so that not all of it was seen; -EACCES; -E2BIG. */
int disk_usage_of_tree(int dir, struct disk_usage *ret);

/* Adds files that these processes (root and all below it) have open, run or have mapped, on the file system of `dir`,
 * and that have no name any more. What is only mapped counts as far as it is mapped, unless this process is root of the
 * machine, who sees how much it is. enter() (may be NULL) is called after what only such a root can do: it gets the
 * rights to look at these processes, and may lose others. -E2BIG: there are too many to look at. */
typedef void disk_on_enter(pid_t root);
int disk_usage_add_nameless(pid_t root, int dir, disk_on_enter *enter, struct disk_usage *usage);

struct disk_room {
        uint64_t bytes, bytes_total; /* that this user may still take */
        uint64_t entries, entries_total;
};
int disk_room(int dir, struct disk_room *ret);

/* What must stay free for others: a twentieth, but no more than so much. */
enum { DISK_FLOOR_PART = 20, DISK_FLOOR_ENTRIES = 20000 };
#define DISK_FLOOR_BYTES (2ULL << 30)
struct disk_usage disk_floor(const struct disk_room *room);
bool disk_is_low(const struct disk_room *room);

/* "1.5 GiB", "12 MiB", "512 bytes": for people. */
enum { DISK_TEXT_MAX = 32 };
const char *disk_text(uint64_t bytes, char room[static DISK_TEXT_MAX]);
