/* SPDX-License-Identifier: Apache-2.0 */
/* A listing may only ever say that a name is not there, and only when that is certain. */
#include "base/files/names.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"

#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[32];
static int dir;

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-names-XXXXXX", 23);
        dir = mkdtemp(place) ? open(place, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        return dir < 0 ? -1 : 0;
}

static int tear_down(void **state) {
        (void)state;
        close(dir);
        return tree_remove(AT_FDCWD, place);
}

static void make_file(const char *name) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
}

static void test_what_is_there_is_never_lacking(void **state) {
        (void)state;
        struct names n;
        char name[32];
        for (int i = 0; i < 60; i++) {
                snprintf(name, sizeof name, ".name%d", i);
                make_file(name);
        }
        names_read(&n, dir);
        unsigned lacking = 0;
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof name, ".name%d", i);
                bool lacks = names_lack(&n, name);
                assert_false(i < 60 && lacks);
                lacking += lacks;
        }
        /* On a file system that is trusted to list all, that is what it is for. */
        assert_true(n.read ? lacking > 800 : lacking == 0);
}

/* More than a block has: read when enough names were looked for, and still never wrong. */
static void test_a_directory_of_a_few_blocks(void **state) {
        (void)state;
        struct names n = { 0 };
        char name[64];
        for (int i = 0; i < 250; i++) {
                snprintf(name, sizeof name, ".a-rather-long-name-%d", i);
                make_file(name);
        }
        unsigned lacking = 0;
        for (unsigned i = 0; i < 1000; i++) {
                snprintf(name, sizeof name, ".a-rather-long-name-%u", i);
                names_look(&n, dir, i);
                bool lacks = names_lack(&n, name);
                assert_false(i < 250 && lacks);
                lacking += lacks;
        }
        assert_true(n.read ? lacking > 600 : lacking == 0);
}

static void test_a_large_directory_is_not_read(void **state) {
        (void)state;
        struct names n = { 0 };
        char name[128];
        for (int i = 0; i < 2000; i++) {
                snprintf(name, sizeof name, "%0100d", i);
                make_file(name);
        }
        for (unsigned i = 0; i < 100; i++)
                names_look(&n, dir, i);
        assert_false(n.read);
}

static void test_case_is_ignored(void **state) {
        (void)state;
        struct names n;
        make_file(".VScode");
        names_read(&n, dir);
        assert_false(names_lack(&n, ".vscode"));
        assert_false(names_lack(&n, ".VSCODE"));
}

static void test_other_alphabets_make_everything_possible(void **state) {
        (void)state;
        struct names n;
        make_file(".v\xc5\xbf"
                  "code"); /* a long s, which folds to s */
        names_read(&n, dir);
        assert_false(n.read);
        assert_false(names_lack(&n, ".vscode"));
        assert_int_equal(unlinkat(dir,
                                  ".v\xc5\xbf"
                                  "code",
                                  0),
                         0);
        names_read(&n, dir);
        assert_false(names_lack(&n, ".v\xc5\xbf"
                                    "code"));
}

static void test_large_and_closed_directories_are_not_read(void **state) {
        (void)state;
        struct names n;
        char name[200];
        for (int i = 0; i < 300; i++) {
                snprintf(name, sizeof name, "%0150d", i);
                make_file(name);
        }
        names_read(&n, dir);
        assert_false(n.read);
        names_read(&n, -1);
        assert_false(n.read);
        cleanup(close_fd) int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        names_read(&n, proc);
        assert_false(n.read);
        assert_false(names_lack(&n, "none"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_what_is_there_is_never_lacking, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_directory_of_a_few_blocks, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_large_directory_is_not_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_case_is_ignored, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_other_alphabets_make_everything_possible, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_large_and_closed_directories_are_not_read, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
