/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * POSIX access lists, as the kernel keeps them in extended attributes: entries of one file, by user. Parsed and written
 * here; no library, no other program.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LIST_ENTRIES_MAX = 64 };

struct list_entry {
        uint16_t tag, permissions;
        uint32_t id;
};
struct access_list {
        struct list_entry entries[LIST_ENTRIES_MAX];
        size_t n;
};

/* The list that a mode stands for. */
void access_list_of_mode(mode_t mode, struct access_list *ret);
/* -EINVAL: these bytes are no list; -E2BIG: more entries than fit. */
int access_list_parse(const void *bytes, size_t n, struct access_list *ret);
/* The length; `bytes` has room for 4 + 8 * LIST_ENTRIES_MAX. */
size_t access_list_write(const struct access_list *list, void *bytes);
/* This user has these permissions (4 read, 2 write, 1 search), and the mask lets them through; nobody else gets more
 * than before. -E2BIG. */
int access_list_give(struct access_list *list, uint32_t uid, uint16_t permissions);
/* This user and this group are not named any more. Without anybody named, the owner's group keeps what the mask let
 * through. */
void access_list_take(struct access_list *list, uint32_t uid, uint32_t gid);
/* Nobody is named any more, others may not write, and the owner may read and write (and search, if anybody may). True:
 * that is a change. */
bool access_list_narrow(struct access_list *list);
/* Whether this user is named. */
bool access_list_names(const struct access_list *list, uint32_t uid);
/* Marks a list as made by us: this group is named, with no permissions. New entries of a directory inherit the mark.
 * -E2BIG. */
int access_list_mark(struct access_list *list, uint32_t gid);
/* True: it has the mark, and names nobody else but this user. Then it is without both. */
bool access_list_unmark(struct access_list *list, uint32_t uid, uint32_t gid);

/* Of an open file or directory, also one with O_PATH; `standard`: the list that new entries of a directory get. Without
 * a list *ret is that of the mode (or empty for the standard). */
int access_list_read(int fd, bool standard, mode_t mode, struct access_list *ret);
int access_list_set(int fd, bool standard, const struct access_list *list);
