/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/access_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* As linux/posix_acl_xattr.h has them: a version, then entries in the order of tags, users by number. */
enum { LIST_VERSION = 2, HEAD_BYTES = 4, ENTRY_BYTES = 8 };
enum { TAG_OWNER = 1, TAG_USER = 2, TAG_GROUP_OWNER = 4, TAG_GROUP = 8, TAG_MASK = 16, TAG_OTHER = 32 };
#define NO_ID UINT32_MAX

static const char *const names[] = { "system.posix_acl_access", "system.posix_acl_default" };

static uint16_t list_get16(const unsigned char *p) {
        return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t list_get32(const unsigned char *p) {
        return (uint32_t)list_get16(p) | (uint32_t)list_get16(p + 2) << 16;
}

static void list_put16(unsigned char *p, uint16_t value) {
        p[0] = (unsigned char)value;
        p[1] = (unsigned char)(value >> 8);
}

static void list_put32(unsigned char *p, uint32_t value) {
        list_put16(p, (uint16_t)value);
        list_put16(p + 2, (uint16_t)(value >> 16));
}

void access_list_of_mode(mode_t mode, struct access_list *ret) {
        *ret = (struct access_list){ .n = 3,
                                     .entries = { { TAG_OWNER, (mode >> 6) & 7, NO_ID },
                                                  { TAG_GROUP_OWNER, (mode >> 3) & 7, NO_ID },
                                                  { TAG_OTHER, mode & 7, NO_ID } } };
}

int access_list_parse(const void *bytes, size_t n, struct access_list *ret) {
        const unsigned char *p = bytes;
        struct access_list list = { 0 };

        if (n < HEAD_BYTES || list_get32(p) != LIST_VERSION || (n - HEAD_BYTES) % ENTRY_BYTES)
                return -EINVAL;
        if ((n - HEAD_BYTES) / ENTRY_BYTES > LIST_ENTRIES_MAX)
                return -E2BIG;

        for (p += HEAD_BYTES; list.n < (n - HEAD_BYTES) / ENTRY_BYTES; p += ENTRY_BYTES)
                list.entries[list.n++] = (struct list_entry){ list_get16(p), list_get16(p + 2), list_get32(p + 4) };

        *ret = list;
        return 0;
}

size_t access_list_write(const struct access_list *list, void *bytes) {
        unsigned char *p = bytes;

        list_put32(p, LIST_VERSION);
        p += HEAD_BYTES;
        for (size_t i = 0; i < list->n; i++, p += ENTRY_BYTES) {
                list_put16(p, list->entries[i].tag);
                list_put16(p + 2, list->entries[i].permissions);
                list_put32(p + 4, list->entries[i].id);
        }

        return HEAD_BYTES + list->n * ENTRY_BYTES;
}

static struct list_entry *list_find(struct access_list *list, uint16_t tag, uint32_t id) {
        for (size_t i = 0; i < list->n; i++)
                if (list->entries[i].tag == tag && (tag != TAG_USER || list->entries[i].id == id))
                        return &list->entries[i];
        return NULL;
}

static int list_order(const void *a, const void *b) {
        const struct list_entry *first = a, *second = b;

        if (first->tag != second->tag)
                return first->tag < second->tag ? -1 : 1;
        if (first->id < second->id)
                return -1;

        return first->id > second->id;
}

/* The kernel wants them sorted. */
static int list_add(struct access_list *list, struct list_entry entry) {
        if (list->n == LIST_ENTRIES_MAX)
                return -E2BIG;
        list->entries[list->n++] = entry;
        qsort(list->entries, list->n, sizeof *list->entries, list_order);
        return 0;
}

/* What the mask kept back from the others it still does when it becomes wider for one. */
static void list_trim(struct access_list *list, uint32_t uid, uint16_t mask) {
        for (size_t i = 0; i < list->n; i++) {
                struct list_entry *entry = &list->entries[i];
                bool other_user = entry->tag == TAG_USER && entry->id != uid;

                if (other_user || entry->tag == TAG_GROUP || entry->tag == TAG_GROUP_OWNER)
                        entry->permissions &= mask;
        }
}

int access_list_give(struct access_list *list, uint32_t uid, uint16_t permissions) {
        struct list_entry *entry = list_find(list, TAG_USER, uid);
        struct list_entry *group, *mask;
        int r = 0;

        if (entry)
                entry->permissions = permissions;
        else
                r = list_add(list, (struct list_entry){ TAG_USER, permissions, uid });

        if (r < 0)
                return r;

        /* The group's permissions were its own until now; with a mask they stay so. */
        mask = list_find(list, TAG_MASK, 0);
        group = list_find(list, TAG_GROUP_OWNER, 0);

        if (mask) {
                list_trim(list, uid, mask->permissions);
                mask->permissions |= permissions;
                return 0;
        }

        return list_add(list, (struct list_entry){ TAG_MASK, permissions | (group ? group->permissions : 0), NO_ID });
}

/* Without anybody named a mask is nothing but the group's permissions, of which it lets some through. */
static void list_fold_mask(struct access_list *list) {
        struct list_entry *mask = list_find(list, TAG_MASK, 0), *group = list_find(list, TAG_GROUP_OWNER, 0);

        for (size_t i = 0; i < list->n; i++)
                if (list->entries[i].tag == TAG_USER || list->entries[i].tag == TAG_GROUP)
                        return;
        if (!mask)
                return;
        if (group)
                group->permissions &= mask->permissions;

        size_t at = (size_t)(mask - list->entries);
        memmove(mask, mask + 1, (list->n - at - 1) * sizeof *mask);
        list->n--;
}

static void list_drop(struct access_list *list, uint16_t tag, uint32_t id) {
        size_t kept = 0;

        for (size_t i = 0; i < list->n; i++)
                if (list->entries[i].tag != tag || list->entries[i].id != id)
                        list->entries[kept++] = list->entries[i];

        list->n = kept;
}

void access_list_take(struct access_list *list, uint32_t uid, uint32_t gid) {
        list_drop(list, TAG_USER, uid);
        list_drop(list, TAG_GROUP, gid);
        list_fold_mask(list);
}

static uint16_t list_permissions(struct access_list *list, uint16_t tag) {
        const struct list_entry *entry = list_find(list, tag, 0);

        if (entry)
                return entry->permissions;

        return 0;
}

bool access_list_narrow(struct access_list *list) {
        uint16_t owner = list_permissions(list, TAG_OWNER), group = list_permissions(list, TAG_GROUP_OWNER);
        uint16_t other = list_permissions(list, TAG_OTHER);
        struct access_list narrow;

        if (list_find(list, TAG_MASK, 0))
                group &= list_permissions(list, TAG_MASK);
        owner |= 6 | ((group | other) & 1);

        access_list_of_mode((mode_t)(owner << 6 | group << 3 | (other & 5)), &narrow);
        bool same = list->n == narrow.n;
        for (size_t i = 0; i < narrow.n && same; i++)
                same = list->entries[i].permissions == narrow.entries[i].permissions;

        *list = narrow;
        return !same;
}

bool access_list_names(const struct access_list *list, uint32_t uid) {
        for (size_t i = 0; i < list->n; i++)
                if (list->entries[i].tag == TAG_USER && list->entries[i].id == uid)
                        return true;
        return false;
}

int access_list_mark(struct access_list *list, uint32_t gid) {
        return list_add(list, (struct list_entry){ TAG_GROUP, 0, gid });
}

bool access_list_unmark(struct access_list *list, uint32_t uid, uint32_t gid) {
        bool marked = false;

        for (size_t i = 0; i < list->n; i++) {
                const struct list_entry *entry = &list->entries[i];

                if (entry->tag == TAG_GROUP && entry->id == gid && entry->permissions == 0)
                        marked = true;
                else if (entry->tag == TAG_GROUP || (entry->tag == TAG_USER && entry->id != uid))
                        return false;
        }
        if (!marked)
                return false;

        list_drop(list, TAG_GROUP, gid);
        list_drop(list, TAG_USER, uid);
        list_fold_mask(list);
        return true;
}

enum { FD_PATH_MAX = 32 };

static const char *list_path(int fd, char ret[static FD_PATH_MAX]) {
        snprintf(ret, FD_PATH_MAX, "/proc/self/fd/%d", fd);
        return ret;
}

int access_list_read(int fd, bool standard, mode_t mode, struct access_list *ret) {
        unsigned char bytes[HEAD_BYTES + ENTRY_BYTES * LIST_ENTRIES_MAX];
        char path[FD_PATH_MAX];
        ssize_t n = getxattr(list_path(fd, path), names[standard], bytes, sizeof bytes);

        if (n < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) {
                *ret = (struct access_list){ 0 };
                if (!standard)
                        access_list_of_mode(mode, ret);
                return 0;
        }

        if (n < 0 && errno == ERANGE)
                return -E2BIG;
        if (n < 0)
                return -errno;

        return access_list_parse(bytes, (size_t)n, ret);
}

int access_list_set(int fd, bool standard, const struct access_list *list) {
        unsigned char bytes[HEAD_BYTES + ENTRY_BYTES * LIST_ENTRIES_MAX];
        char path[FD_PATH_MAX];
        size_t n = access_list_write(list, bytes);

        if (list->n == 0) {
                if (removexattr(list_path(fd, path), names[standard]) < 0 && errno != ENODATA)
                        return -errno;
                return 0;
        }
        if (setxattr(list_path(fd, path), names[standard], bytes, n, 0) < 0)
                return -errno;

        return 0;
}
