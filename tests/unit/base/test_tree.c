/* SPDX-License-Identifier: Apache-2.0 */
/* Trees that do not want to be removed. */
#include "base/files/tree.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[32];
static char elsewhere[32]; /* in memory: another file system, and a quick one; "" until a test makes it */

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-tree-XXXXXX", 22);
        return mkdtemp(place) ? 0 : -1;
}

/* Each test has to leave both empty; one that failed leaves nothing all the same. */
static int tear_down(void **state) {
        int r = rmdir(place);

        (void)state;
        if (elsewhere[0])
                r = rmdir(elsewhere) < 0 ? -1 : r;
        if (r < 0) {
                (void)tree_remove(AT_FDCWD, place);
                if (elsewhere[0])
                        (void)tree_remove(AT_FDCWD, elsewhere);
        }

        elsewhere[0] = '\0';
        return r;
}

static int open_elsewhere(void) {
        memcpy(elsewhere, "/dev/shm/test-tree-XXXXXX", 26);
        int fd = mkdtemp(elsewhere) ? open(elsewhere, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        assert_true(fd >= 0);
        return fd;
}

static int open_place(void) {
        int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        return fd;
}

static void make_file(int at, const char *name) {
        cleanup(close_fd) int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
}

static void test_missing_file_and_link(void **state) {
        (void)state;
        cleanup(close_fd) int at = open_place();
        assert_int_equal(tree_remove(at, "none"), 0);
        make_file(at, "file");
        assert_int_equal(symlinkat("/etc", at, "link"), 0);
        assert_int_equal(tree_remove(at, "file"), 0);
        assert_int_equal(tree_remove(at, "link"), 0);
        assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* Far deeper than there are descriptors or than a path is long, with files on every level. */
static void test_depth(void **state) {
        (void)state;
        struct rlimit before, few;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = before;
        few.rlim_cur = 200;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        cleanup(close_fd) int at = open_place();
        cleanup(close_fd) int here = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 1000; i++) {
                make_file(here, "f");
                assert_int_equal(mkdirat(here, "d", 0700), 0);
                int next = openat(here, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close_fd(&here);
                here = next;
        }
        assert_int_equal(tree_remove(at, "d"), 0);
        assert_int_equal(tree_remove(at, "f"), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_closed_directories(void **state) {
        (void)state;
        static const mode_t modes[] = { 0, 0111, 0444, 0555 };
        cleanup(close_fd) int at = open_place();
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
                assert_int_equal(mkdirat(at, "d", 0700), 0);
                assert_int_equal(mkdirat(at, "d/e", 0700), 0);
                make_file(at, "d/e/f");
                assert_int_equal(fchmodat(at, "d/e", modes[i], 0), 0);
                assert_int_equal(fchmodat(at, "d", modes[i], 0), 0);
                assert_int_equal(tree_remove(at, "d"), 0);
        }
}

static void count_bytes(void *arg, uint64_t bytes) {
        *(uint64_t *)arg += bytes;
}

/* What nobody asked for has a bound, and leaves nothing when it is met; what a person asked for has none. It is tried
 * in memory: 80,000 names made and removed take a busy disk longer than a test may. */
static void test_large_copies(void **state) {
        enum { FILES = 20001 };
        cleanup(close_fd) int at = open_elsewhere();
        cleanup(close_fd) int file = -1;
        uint64_t bytes = 0;
        char name[32], word[4];
        struct stat st;
        (void)state;

        assert_int_equal(mkdirat(at, "d", 0700), 0);
        for (int i = 0; i < FILES; i++) {
                snprintf(name, sizeof name, "d/%d", i);
                if (i % 5000 == 0)
                        make_file(at, name);
                else
                        assert_int_equal(symlinkat("x", at, name), 0);
        }
        file = openat(at, "d/0", O_WRONLY | O_CLOEXEC);
        assert_int_equal(write(file, "word", 4), 4);
        close_fd(&file);

        assert_int_equal(tree_copy(at, "d", at, "copy"), -E2BIG);
        assert_int_equal(fstatat(at, "copy", &st, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(tree_copy_whole(at, "d", at, "copy", count_bytes, &bytes), 0);
        assert_int_equal(bytes, 4);
        file = openat(at, "copy/0", O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(file, word, 4), 4);
        assert_memory_equal(word, "word", 4);
        assert_int_equal(fstatat(at, "copy/20000", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(tree_remove(at, "d"), 0);
        assert_int_equal(tree_remove(at, "copy"), 0);
}

/* Also where the two are on file systems between which the kernel copies nothing. */
static void test_copies_elsewhere(void **state) {
        cleanup(close_fd) int at = open_place(), shared = open_elsewhere();
        cleanup(close_fd) int file = openat(at, "f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        char *many = calloc(1, 300001), *found = malloc(300002);
        (void)state;

        memset(many, 'a', 300000);
        assert_int_equal(write(file, many, 300000), 300000);
        close_fd(&file);
        assert_int_equal(tree_copy(at, "f", shared, "copy"), 0);
        file = openat(shared, "copy", O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(file, found, 300002), 300000);
        assert_memory_equal(many, found, 300000);
        assert_int_equal(tree_remove(shared, "copy"), 0);
        assert_int_equal(tree_remove(at, "f"), 0);
        free(many);
        free(found);
}

/* A hole at the beginning, in the middle and at the end, between file systems and in one. */
static void test_holes(void **state) {
        enum { STEP = 4 << 20 };
        cleanup(close_fd) int at = open_place(), shared = open_elsewhere();
        cleanup(close_fd) int file = openat(at, "f", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        const int places[] = { at, shared };
        uint64_t bytes = 0;
        struct stat st;
        char found[4];
        (void)state;

        assert_int_equal(pwrite(file, "one", 4, STEP), 4);
        assert_int_equal(pwrite(file, "two", 4, 3 * STEP), 4);
        assert_int_equal(ftruncate(file, 5 * STEP), 0);

        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
                assert_int_equal(tree_copy_whole(at, "f", places[i], "copy", count_bytes, &bytes), 0);
                cleanup(close_fd) int copy = openat(places[i], "copy", O_RDONLY | O_CLOEXEC);
                assert_int_equal(fstat(copy, &st), 0);
                assert_int_equal(st.st_size, 5 * STEP);
                assert_true(st.st_blocks * 512 < STEP);
                assert_int_equal(pread(copy, found, 4, STEP), 4);
                assert_string_equal(found, "one");
                assert_int_equal(pread(copy, found, 4, 3 * STEP), 4);
                assert_string_equal(found, "two");
                assert_int_equal(tree_remove(places[i], "copy"), 0);
        }

        assert_true(bytes < STEP);
        assert_int_equal(ftruncate(file, (off_t)1 << 40), 0);
        assert_int_equal(tree_copy(at, "f", at, "copy"), -E2BIG); /* as long as its bound, holes or not */
        assert_int_equal(faccessat(at, "copy", F_OK, 0), -1);
        assert_int_equal(tree_remove(at, "f"), 0);
}

static void block_copy(void *arg, uint64_t bytes) {
        const int *at = arg;

        (void)bytes;
        /* Whichever of the two is copied first, the other is there then. */
        for (const char *name = "ab"; *name; name++) {
                const char path[] = { 'c', 'o', 'p', 'y', '/', *name, '\0' };
                cleanup(close_fd) int fd = openat(*at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                (void)fd;
        }
}

/* What is there already stays; what a copy began goes when something appears in its way. */
static void test_in_the_way(void **state) {
        cleanup(close_fd) int at = open_place();
        struct stat st;
        (void)state;

        assert_int_equal(mkdirat(at, "d", 0700), 0);
        for (const char *name = "ab"; *name; name++) {
                const char path[] = { 'd', '/', *name, '\0' };
                cleanup(close_fd) int fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                assert_int_equal(write(fd, "x", 1), 1);
        }

        assert_int_equal(tree_copy_whole(at, "d", at, "copy", block_copy, &at), -EEXIST);
        assert_int_equal(fstatat(at, "copy", &st, AT_SYMLINK_NOFOLLOW), -1);

        assert_int_equal(mkdirat(at, "copy", 0700), 0);
        make_file(at, "copy/mine");
        assert_int_equal(tree_copy_whole(at, "d", at, "copy", NULL, NULL), -EEXIST);
        assert_int_equal(fstatat(at, "copy/mine", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(tree_remove(at, "copy"), 0);
        assert_int_equal(tree_remove(at, "d"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_missing_file_and_link, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_depth, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_closed_directories, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_large_copies, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_copies_elsewhere, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_holes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_in_the_way, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
