/* SPDX-License-Identifier: Apache-2.0 */
/* Every name of a directory once, however many there are, and never through a link. */
#include "base/files/listing.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 3000 }; /* more than one read gives */

static char place[32];
static int dir;

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-listing-XXXXXX", 25);
        dir = mkdtemp(place) ? open(place, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        return dir < 0 ? -1 : 0;
}

static int tear_down(void **state) {
        (void)state;
        close(dir);
        return tree_remove(AT_FDCWD, place);
}

static void test_all_names_once(void **state) {
        (void)state;
        static unsigned seen[MANY];
        char name[32];

        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof name, "a-longer-name-%d", i);
                assert_int_equal(mknodat(dir, name, S_IFREG | 0600, 0), 0);
        }

        cleanup(listing_close) struct listing *listing = listing_open(dir, ".");
        assert_non_null(listing);
        for (const struct dirent64 *entry; (entry = listing_next(listing));) {
                int number;
                assert_int_equal(sscanf(entry->d_name, "a-longer-name-%d", &number), 1);
                seen[number]++;
        }
        assert_null(listing_next(listing));
        for (int i = 0; i < MANY; i++)
                assert_int_equal(seen[i], 1);
}

static void test_an_empty_directory(void **state) {
        (void)state;
        assert_int_equal(mkdirat(dir, "empty", 0700), 0);
        cleanup(listing_close) struct listing *listing = listing_open(dir, "empty");
        assert_non_null(listing);
        assert_null(listing_next(listing));
}

static void test_what_is_no_directory(void **state) {
        (void)state;
        assert_int_equal(symlinkat("/", dir, "link"), 0);
        assert_int_equal(mknodat(dir, "file", S_IFREG | 0600, 0), 0);

        assert_null(listing_open(dir, "missing"));
        assert_int_equal(errno, ENOENT);
        assert_null(listing_open(dir, "file"));
        assert_null(listing_open(dir, "link"));
}

static void test_a_descriptor_is_taken(void **state) {
        (void)state;
        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct listing *listing = listing_take(fd);

        assert_non_null(listing);
        assert_int_equal(listing_fd(listing), fd);
        listing_close(&listing);
        assert_null(listing);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_all_names_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_empty_directory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_no_directory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_descriptor_is_taken, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
