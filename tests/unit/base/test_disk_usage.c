/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/disk_usage.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/disk_nameless_internal.h"
#include "base/files/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SIZE = 256 << 10 };

static int make_place(char *name) {
        assert_non_null(mkdtemp(name));
        int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        return fd;
}

static int make_file(int dir, const char *name, size_t bytes) {
        static char room[SIZE];
        int fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        memset(room, 'x', sizeof room);
        assert_int_equal(fd_write_all(fd, room, bytes), 0);
        return fd;
}

static void counts_blocks_once(void **state) {
        char name[] = "/tmp/bailey-usage-XXXXXX";
        cleanup(close_fd) int dir = make_place(name), sparse = make_file(dir, "b", 0);
        close(make_file(dir, "a", SIZE));
        struct disk_usage empty, usage;

        (void)state;
        assert_int_equal(ftruncate(sparse, 1LL << 40), 0);
        assert_int_equal(linkat(dir, "a", dir, "again", 0), 0);
        assert_int_equal(symlinkat("/", dir, "link"), 0);
        assert_int_equal(mkdirat(dir, "d", 0700), 0);
        assert_int_equal(linkat(dir, "a", dir, "d/third", 0), 0);
        assert_int_equal(disk_usage_of_tree(dir, &usage), 0);
        assert_int_equal(usage.entries, 5); /* itself, a, b, link, d */
        assert_true(usage.bytes >= SIZE && usage.bytes < SIZE + (128 << 10));

        assert_int_equal(tree_remove(AT_FDCWD, name), 0);
        char other[] = "/tmp/bailey-usage-XXXXXX";
        cleanup(close_fd) int second = make_place(other);
        assert_int_equal(disk_usage_of_tree(second, &empty), 0);
        assert_int_equal(empty.entries, 1);
        assert_int_equal(tree_remove(AT_FDCWD, other), 0);
}

/* Deeper than there are descriptors, and longer than a path may be. */
static void goes_as_deep_as_it_is(void **state) {
        char name[] = "/tmp/bailey-usage-XXXXXX", long_name[201];
        cleanup(close_fd) int dir = make_place(name);
        struct disk_usage usage;
        int here = dup(dir);

        (void)state;
        memset(long_name, 'd', sizeof long_name - 1);
        long_name[sizeof long_name - 1] = '\0';

        for (int i = 0; i < 3000; i++) {
                assert_int_equal(mkdirat(here, long_name, 0700), 0);
                int next = openat(here, long_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                assert_true(next >= 0);
                close(here);
                here = next;
        }

        close(make_file(here, "bottom", SIZE));
        close(here);
        assert_int_equal(disk_usage_of_tree(dir, &usage), 0);
        assert_int_equal(usage.entries, 3002);
        assert_true(usage.bytes >= SIZE);
        assert_int_equal(tree_remove(AT_FDCWD, name), 0);
}

/* What is held besides what a test holds: ThreadSanitizer keeps a deleted file mapped for itself. */
static struct disk_usage nameless_in(int dir) {
        struct disk_usage usage = { 0 };

        assert_int_equal(disk_usage_add_nameless(getpid(), dir, NULL, &usage), 0);
        return usage;
}

static struct disk_usage nameless_since(int dir, struct disk_usage before) {
        struct disk_usage usage = nameless_in(dir);

        assert_true(usage.bytes >= before.bytes && usage.entries >= before.entries);
        return (struct disk_usage){ .bytes = usage.bytes - before.bytes, .entries = usage.entries - before.entries };
}

static void finds_files_without_a_name(void **state) {
        char name[] = "/tmp/bailey-usage-XXXXXX";
        cleanup(close_fd) int dir = make_place(name), file = make_file(dir, "gone", SIZE), again = dup(file);
        struct disk_usage before = nameless_in(dir), usage;

        (void)state;
        (void)again;
        assert_int_equal(unlinkat(dir, "gone", 0), 0);
        usage = nameless_since(dir, before);
        assert_int_equal(usage.entries, 1);
        assert_true(usage.bytes >= SIZE && usage.bytes < 2 * SIZE);
        close_fd(&file);
        close_fd(&again);
        assert_int_equal(nameless_since(dir, before).entries, 0);
        assert_int_equal(tree_remove(AT_FDCWD, name), 0);
}

/* Held by a mapping alone: by what it takes for root of the machine, as far as it is mapped for others. */
static void finds_files_that_are_only_mapped(void **state) {
        char name[] = "/tmp/bailey-usage-XXXXXX";
        cleanup(close_fd) int dir = make_place(name), file = make_file(dir, "gone", SIZE),
                              kept = make_file(dir, "kept", SIZE);
        struct disk_usage before = nameless_in(dir), usage;
        char *all = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0),
             *part = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        char *other = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, kept, 0);

        (void)state;
        assert_true(all != MAP_FAILED && part != MAP_FAILED && other != MAP_FAILED);
        close_fd(&file);
        close_fd(&kept);
        assert_int_equal(unlinkat(dir, "gone", 0), 0);
        usage = nameless_since(dir, before);
        assert_int_equal(usage.entries, 1);
        assert_true(usage.bytes >= SIZE && usage.bytes < 2 * SIZE);

        assert_int_equal(munmap(all, SIZE), 0);
        assert_int_equal(munmap(part, 4096), 0);
        assert_int_equal(nameless_since(dir, before).entries, 0);
        assert_int_equal(munmap(other, SIZE), 0);
        assert_int_equal(tree_remove(AT_FDCWD, name), 0);
}

/* Where a mapping lies in its file is all that others than root see, and files can be mapped far behind their end. */
static void mappings_never_make_it_less(void **state) {
        char name[] = "/tmp/bailey-usage-XXXXXX";
        cleanup(close_fd) int dir = make_place(name);
        const uint64_t before = 5ULL << 30;
        struct disk_usage usage = { .bytes = before };
        uint64_t others = nameless_in(dir).entries;
        void *maps[2];

        (void)state;
        for (int i = 0; i < 2; i++) {
                cleanup(close_fd) int file = make_file(dir, "gone", 0);

                maps[i] = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, INT64_MAX - 8191);
                assert_true(maps[i] != MAP_FAILED);
                assert_int_equal(unlinkat(dir, "gone", 0), 0);
        }

        assert_int_equal(disk_usage_add_nameless(getpid(), dir, NULL, &usage), 0);
        assert_true(usage.bytes >= before);
        assert_int_equal(usage.entries - others, 2);
        for (int i = 0; i < 2; i++)
                assert_int_equal(munmap(maps[i], 4096), 0);
        assert_int_equal(tree_remove(AT_FDCWD, name), 0);
}

static void reads_mappings(void **state) {
        static const char *const wrong[] = { "",
                                             "7f00",
                                             "7f00-",
                                             "7f10-7f00 r--p 0 0:1 5 ",
                                             "7f00-7f10 r--p",
                                             "7f00-7f10 r--p 0 01 5 ",
                                             "7f00-7f10 r--p 0 0:1 x ",
                                             "7f00-7f10 r--p 0 0:1 99999999999999999999 ",
                                             "7f00-11112222333344445 r--p 0 0:1 5 ",
                                             "-7f10 r--p 0 0:1 5 " };
        struct mapping mapping;

        (void)state;
        assert_true(mapping_parse(STR("7f00-7f10 rw-s 00001000 fe:01 1234      /home/me/a b (deleted)"), &mapping));
        assert_int_equal(mapping.from, 0x7f00);
        assert_int_equal(mapping.to, 0x7f10);
        assert_int_equal(mapping.offset, 0x1000);
        assert_int_equal(mapping.device, makedev(0xfe, 1));
        assert_int_equal(mapping.inode, 1234);
        assert_true(mapping.deleted);

        assert_true(mapping_parse(STR("7f00-7f10 rw-p 00000000 00:00 0 "), &mapping));
        assert_true(mapping.inode == 0 && !mapping.deleted);
        assert_true(mapping_parse(STR("7f00-7f10 r-xp 00000000 fe:01 9 /lib/(deleted)/x"), &mapping));
        assert_false(mapping.deleted);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                assert_false(mapping_parse(str_of(wrong[i]), &mapping));
}

static void keeps_a_floor(void **state) {
        struct disk_room room = { .bytes = 1 << 30, .bytes_total = 10ULL << 30, .entries = 10, .entries_total = 0 };

        (void)state;
        assert_false(disk_is_low(&room));
        room.bytes = 500 << 20;
        assert_true(disk_is_low(&room));
        room = (struct disk_room){
                .bytes = 3ULL << 30, .bytes_total = 1ULL << 50, .entries = 30000, .entries_total = 1 << 30
        };
        assert_false(disk_is_low(&room));
        room.entries = 19999;
        assert_true(disk_is_low(&room));
        room.entries = 30000;
        room.bytes = DISK_FLOOR_BYTES - 1;
        assert_true(disk_is_low(&room));
}

static void says_sizes(void **state) {
        char room[DISK_TEXT_MAX];

        (void)state;
        assert_string_equal(disk_text(0, room), "0 bytes");
        assert_string_equal(disk_text(1023, room), "1023 bytes");
        assert_string_equal(disk_text(1536, room), "1.5 KiB");
        assert_string_equal(disk_text(64 << 20, room), "64 MiB");
        assert_string_equal(disk_text(UINT64_MAX, room), "15.9 EiB");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counts_blocks_once),
                cmocka_unit_test(goes_as_deep_as_it_is),
                cmocka_unit_test(finds_files_without_a_name),
                cmocka_unit_test(finds_files_that_are_only_mapped),
                cmocka_unit_test(mappings_never_make_it_less),
                cmocka_unit_test(reads_mappings),
                cmocka_unit_test(keeps_a_floor),
                cmocka_unit_test(says_sizes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
