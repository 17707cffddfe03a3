/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is born locked, beside somebody who takes every unlocked one for left behind. */
#include "base/files/lock_file.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include "../child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define ROUNDS 2000

static char place[40];

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-lock-file-XXXXXX", 27);
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

static void holds_its_text(void **state) {
        (void)state;
        cleanup(close_fd) int at = open_place(), lock = -1;
        char text[8] = "";

        assert_int_equal(lock_file_new(at, "lock", STR("docker"), &lock), 0);
        assert_int_equal(pread(lock, text, sizeof text, 0), 6);
        assert_string_equal(text, "docker");

        cleanup(close_fd) int second = openat(at, "lock", O_RDWR | O_CLOEXEC);
        assert_int_equal(flock(second, LOCK_EX | LOCK_NB), -1);
        close_fd(&lock);
        assert_int_equal(flock(second, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(unlinkat(at, "lock", 0), 0);
}

static void needs_its_directory(void **state) {
        (void)state;
        int lock = -1;
        assert_int_equal(lock_file_new(AT_FDCWD, "/nowhere/at/all/lock", STR(""), &lock), -ENOENT);
        assert_int_equal(lock, -1);
}

/* Ends with 0 when it never got a lock. */
static void sweep_until_killed(void *argument) {
        int at = *(int *)argument;

        for (;;) {
                int fd = openat(at, "lock", O_RDWR | O_CLOEXEC);
                struct stat st;
                if (fd < 0)
                        continue;
                /* One whose name is gone was given up by its maker. */
                if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                        CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0);
                close(fd);
        }
}

static void is_never_found_unlocked(void **state) {
        (void)state;
        cleanup(close_fd) int at = open_place();
        pid_t sweeper = fork();
        int status = 0;

        if (sweeper == 0)
                sweep_until_killed(&at);
        assert_true(sweeper > 0);

        for (int i = 0; i < ROUNDS; i++) {
                cleanup(close_fd) int lock = -1;
                assert_int_equal(lock_file_new(at, "lock", STR("x"), &lock), 0);
                assert_int_equal(unlinkat(at, "lock", 0), 0);
        }

        (void)kill(sweeper, SIGKILL);
        assert_int_equal(waitpid(sweeper, &status, 0), sweeper);
        assert_true(WIFSIGNALED(status));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(holds_its_text, set_up, tear_down),
                cmocka_unit_test(needs_its_directory),
                cmocka_unit_test_setup_teardown(is_never_found_unlocked, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
