/* SPDX-License-Identifier: Apache-2.0 */
/* Trees that do not want to be removed. */
#include "base/tree.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[32];

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-tree-XXXXXX", 22);
        return mkdtemp(place) ? 0 : -1;
}

static int tear_down(void **state) {
        (void)state;
        return rmdir(place); /* and so each test left it empty */
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_missing_file_and_link, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_depth, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_closed_directories, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
