/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files without a name: found by the descriptors, programs and mappings that hold them.
 *
 * Only root of the machine may look through a mapping at its file. Whoever is not root learns where the file begins and
 * ends in memory, and takes that for what the file takes of the disk.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/disk_nameless_internal.h"
#include "base/files/disk_usage.h"
#include "base/processes/usage.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BLOCK = 512, PROCESSES_MAX = 65536, DESCRIPTORS_MAX = 1 << 20, MAPPINGS_MAX = 1 << 23 };

struct nameless {
        dev_t device;
        uint64_t inode, bytes;
        bool guessed;
};

struct search {
        dev_t device;
        uint32_t type; /* of a file system with more than one device; 0: it has one */
        VEC(struct nameless) found;
        unsigned looked_at, mappings;
        pid_t before; /* the last thread that was looked at */
        bool sees;    /* through mappings, at files */
        bool guesses; /* what it cannot see */
};

/*
 * "7f00-7f10 rw-s 00001000 fe:01 1234   /home/me/file (deleted)"
 */
static bool field_hex(struct str *rest, char end, uint64_t *ret) {
        struct str field;

        if (!str_split(rest, end, &field) || field.n == 0 || field.n > 16)
                return false;

        *ret = 0;
        for (size_t i = 0; i < field.n; i++) {
                int digit = ascii_hex(field.p[i]);

                if (digit < 0)
                        return false;
                *ret = *ret << 4 | (unsigned)digit;
        }
        return true;
}

bool mapping_parse(struct str line, struct mapping *ret) {
        struct str rest = line, field;
        uint64_t from, to, offset, major_number, minor_number, inode;

        if (!field_hex(&rest, '-', &from) || !field_hex(&rest, ' ', &to) || to < from)
                return false;
        if (!str_split(&rest, ' ', &field) || !field_hex(&rest, ' ', &offset))
                return false;
        if (!field_hex(&rest, ':', &major_number) || !field_hex(&rest, ' ', &minor_number))
                return false;
        if (!str_split(&rest, ' ', &field) || !str_to_u64(field, UINT64_MAX, &inode))
                return false;

        *ret = (struct mapping){ .from = from,
                                 .to = to,
                                 .offset = offset,
                                 .device = makedev((unsigned)major_number, (unsigned)minor_number),
                                 .inode = inode,
                                 .deleted = str_ends(rest, STR(" (deleted)")) };
        return true;
}

static int nameless_compare(const void *left, const void *right) {
        const struct nameless *a = left, *b = right;

        if (a->device != b->device)
                return a->device < b->device ? -1 : 1;

        return (a->inode > b->inode) - (a->inode < b->inode);
}

/* What was seen comes before what was guessed, and more before less. */
static int nameless_order(const void *left, const void *right) {
        const struct nameless *a = left, *b = right;
        int r = nameless_compare(left, right);

        if (r == 0)
                r = a->guessed - b->guessed;
        return r ? r : (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Files of an overlay and of subvolumes of btrfs have other devices than the directory of the home. */
static uint32_t type_of_many_devices(const struct statfs *fs) {
        uint32_t type = (uint32_t)fs->f_type;

        if (type == OVERLAYFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC)
                return type;

        return 0;
}

static bool search_wants(const struct search *search, const char *directory, const char *name, const struct stat *st) {
        char path[384];
        struct statfs fs;

        if (!S_ISREG(st->st_mode) || st->st_nlink != 0)
                return false;
        if (st->st_dev == search->device)
                return true;

        snprintf(path, sizeof path, "%s/%s", directory, name);
        return search->type && statfs(path, &fs) == 0 && (uint32_t)fs.f_type == search->type;
}

/* "/proc/PID/exe", "/proc/PID/fd/3", "/proc/PID/map_files/FROM-TO" */
static int search_note(struct search *search, int dir, const char *directory, const char *name) {
        struct stat st;

        if (fstatat(dir, name, &st, 0) < 0 || !search_wants(search, directory, name, &st))
                return 0;
        return vec_push(
            &search->found,
            ((struct nameless){ .device = st.st_dev, .inode = st.st_ino, .bytes = (uint64_t)st.st_blocks * BLOCK }));
}

/* Who is gone holds nothing. Who may not be looked into is the sandbox's init, which is Bailey's own, or runs a program
 * that its users may not read. */
static int search_descriptors(struct search *search, const char *name) {
        int r = 0;
        DIR *dir = opendir(name);

        if (!dir) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                        return -errno;
                return 0;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                if (++search->looked_at > DESCRIPTORS_MAX)
                        r = -E2BIG;
                else
                        r = search_note(search, dirfd(dir), name, entry->d_name);
        }

        closedir(dir);
        return r;
}

/*
 * Mappings.
 */
static int search_mapping(struct search *search, pid_t thread, const struct mapping *mapping) {
        char directory[64], name[64];

        if (!mapping->deleted || !mapping->inode)
                return 0;
        if (++search->looked_at > DESCRIPTORS_MAX)
                return -E2BIG;

        if (search->sees) {
                snprintf(directory, sizeof directory, "/proc/%d/map_files", (int)thread);
                snprintf(name, sizeof name, "%" PRIx64 "-%" PRIx64, mapping->from, mapping->to);
                cleanup(close_fd) int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (dir < 0)
                        return 0;

                return search_note(search, dir, directory, name);
        }

        if (!search->guesses || mapping->device != search->device)
                return 0;
        return vec_push(&search->found, ((struct nameless){ .device = mapping->device,
                                                            .inode = mapping->inode,
                                                            .bytes = mapping->offset + (mapping->to - mapping->from),
                                                            .guessed = true }));
}

/* 1: there are some. A thread that has ended has none, though others of its process may. */
static int search_mappings(struct search *search, pid_t thread) {
        cleanup(free_ptr) char *line = NULL;
        struct mapping mapping;
        size_t room = 0;
        char name[64];
        ssize_t n;
        int r = 0, any = 0;

        snprintf(name, sizeof name, "/proc/%d/maps", (int)thread);
        FILE *file = fopen(name, "re");
        if (!file && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
                return -errno;
        if (!file) {
                search->guesses |= errno == EACCES || errno == EPERM;
                return 0;
        }

        while (r == 0 && (n = getline(&line, &room, file)) > 0) {
                any = 1;
                if (++search->mappings > MAPPINGS_MAX)
                        r = -E2BIG;
                else if (mapping_parse(str_n(line, (size_t)n - (line[n - 1] == '\n')), &mapping))
                        r = search_mapping(search, thread, &mapping);
        }

        (void)fclose(file);
        if (r < 0)
                return r;

        return any;
}

/* Whoever may look through a mapping of their own may look through others'. */
static bool search_may_see(void) {
        DIR *dir = opendir("/proc/self/map_files");
        struct stat st;
        bool may = false;

        if (!dir)
                return false;
        for (const struct dirent *entry; !may && (entry = readdir(dir));)
                may = entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0;

        closedir(dir);
        return may;
}

/*
 * Processes.
 */
static bool thread_shares_descriptors(pid_t one, pid_t other) {
        return syscall(SYS_kcmp, one, other, KCMP_FILES, 0, 0) == 0;
}

/* A thread may have descriptors of its own, also when the one that gave the process its number is gone. */
static int search_thread_descriptors(struct search *search, pid_t pid, pid_t thread) {
        char name[64];

        if (search->before && thread_shares_descriptors(search->before, thread))
                return 0;

        search->before = thread;
        snprintf(name, sizeof name, "/proc/%d/task/%d/fd", (int)pid, (int)thread);
        return search_descriptors(search, name);
}

static int search_thread_mappings(struct search *search, pid_t pid, pid_t thread) {
        (void)pid;
        return search_mappings(search, thread);
}

typedef int search_on_thread(struct search *search, pid_t pid, pid_t thread);

/* As long as on() returns 0. */
static int search_threads(struct search *search, pid_t pid, search_on_thread *on) {
        char name[64];
        uint64_t thread;
        int r = 0;

        snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
        DIR *threads = opendir(name);
        if (!threads) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                        return -errno;
                return 0;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(threads));)
                if (str_to_u64(str_of(entry->d_name), INT32_MAX, &thread))
                        r = on(search, pid, (pid_t)thread);

        closedir(threads);
        return r;
}

static int search_process_mappings(void *arg, pid_t pid) {
        int r = search_threads(arg, pid, search_thread_mappings);

        if (r < 0)
                return r;

        return 0;
}

static int search_process(void *arg, pid_t pid) {
        struct search *search = arg;
        char directory[64];

        search->before = 0;
        int r = search_threads(search, pid, search_thread_descriptors);
        if (r < 0)
                return r;

        snprintf(directory, sizeof directory, "/proc/%d", (int)pid);
        cleanup(close_fd) int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                r = 0;
        else
                r = search_note(search, dir, directory, "exe");
        if (r < 0 || !search->guesses)
                return r;

        return search_process_mappings(search, pid);
}

/* What is guessed from a mapping's place in its file can be enormous: a sum that wraps would look small. */
static uint64_t sum_of(uint64_t a, uint64_t b) {
        return a > UINT64_MAX / 2 || b > UINT64_MAX / 2 ? UINT64_MAX / 2 : a + b;
}

static void search_add(struct search *search, struct disk_usage *usage) {
        if (search->found.n)
                qsort(search->found.p, search->found.n, sizeof *search->found.p, nameless_order);

        for (size_t i = 0; i < search->found.n; i++)
                if (i == 0 || nameless_compare(&search->found.p[i], &search->found.p[i - 1]) != 0) {
                        usage->bytes = sum_of(usage->bytes, search->found.p[i].bytes);
                        usage->entries++;
                }
}

int disk_usage_add_nameless(pid_t root, int dir, disk_on_enter *enter, struct disk_usage *usage) {
        struct search search = { .sees = search_may_see() };
        struct statfs fs;
        struct stat st;
        int r = 0;

        if (fstat(dir, &st) < 0 || fstatfs(dir, &fs) < 0)
                return -errno;

        search.device = st.st_dev;
        search.type = type_of_many_devices(&fs);
        if (search.sees)
                r = usage_each_process(root, PROCESSES_MAX, search_process_mappings, &search);
        else
                search.guesses = true;
        search.sees = false;

        if (r == 0 && enter)
                enter(root);
        if (r == 0)
                r = usage_each_process(root, PROCESSES_MAX, search_process, &search);

        search_add(&search, usage);
        vec_done(&search.found);
        return r;
}
