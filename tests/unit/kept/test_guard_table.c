/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots of the registry of guards a launch leaves unread. */
#include "../cmocka_all.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "kept/guard_table.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[32];
static int registry = -1;

static int set_up(void **state) {
        struct guard_table table;

        (void)state;
        snprintf(top, sizeof top, "/tmp/bailey-table-XXXXXX");
        assert_non_null(mkdtemp(top));
        registry = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(registry >= 0);

        guard_table_read(&table, registry, true);
        assert_true(table.known);
        guard_table_done(&table);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        close_fd(&registry);
        return tree_remove(AT_FDCWD, top);
}

static void put_row(int number, const char *const *roots, size_t n, bool apart, const char *said) {
        struct guard_table table;
        struct guard_row row;

        guard_table_read(&table, registry, false);
        assert_true(table.known);
        row = guard_row_make(&table, roots, n, apart, said, strlen(said));
        guard_row_put(registry, number, &row);
        guard_table_done(&table);
}

static void put_root(int number, const char *root, const char *said) {
        put_row(number, &root, 1, false, said);
}

/* Whether somebody who asks about these places has to read the slot. */
static bool wants(int number, const char *place, bool finds_over) {
        struct guard_table table;
        struct guard_reach reach = { .table = &table, .finds_over = finds_over, .own = -1 };
        bool wanted;

        guard_table_read(&table, registry, false);
        if (table.known)
                assert_int_equal(guard_reach_add(&reach, place), 0);
        guard_reach_ready(&reach);
        wanted = guard_reach_wants(&reach, number);

        guard_reach_done(&reach);
        guard_table_done(&table);
        return wanted;
}

static void one_in_the_other_is_read(void **state) {
        static const struct {
                const char *root, *place;
        } cases[] = {
                { "/home/me/one", "/home/me/one" },
                { "/home/me", "/home/me/one" },
                { "/home/me/one", "/home/me" },
                { "/", "/home/me/one" },
                { "/home/me/one", "/" },
                { "/", "/" },
                { "/home/me/one/deep/er/yet", "/home" },
                { "/a", "/a/b/c/d/e/f/g/h/i" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                put_root(0, cases[i].root, "x");
                print_message("%s asked about %s\n", cases[i].root, cases[i].place);
                assert_true(wants(0, cases[i].place, false));
        }
}

/* One filter may be wrong, by chance. Of a hundred, few are. */
static void most_other_places_are_left_out(void **state) {
        int wanted = 0;

        (void)state;
        for (int i = 0; i < 100; i++) {
                char root[64];

                snprintf(root, sizeof root, "/home/me/project%d/in", i);
                put_root(i, root, root);
                wanted += wants(i, i % 2 ? "/home/me/project" : "/home/you/project/in", i % 3 == 0);
        }

        print_message("%d of 100\n", wanted);
        assert_true(wanted < 20);
}

static void what_is_not_known_is_read(void **state) {
        const char *many[] = { "/a", "/b", "/c", "/d", "/e", "/f", "/g" };

        (void)state;
        assert_true(wants(7, "/home", false)); /* no row */
        put_row(1, many, 7, false, "x");
        assert_true(wants(1, "/home", false));
        put_row(2, many, 6, true, "x"); /* it guards something elsewhere */
        assert_true(wants(2, "/home", false));

        put_root(3, "/srv/x", "x");
        guard_row_void(registry, 3);
        assert_true(wants(3, "/home", false));
}

static void a_row_of_somebody_who_ended(void **state) {
        int status;
        pid_t child = fork();

        (void)state;
        if (child == 0) {
                put_root(0, "/srv/x", "x");
                put_root(1, "/home/me", "x");
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);

        assert_true(wants(0, "/home/me", true));
        assert_true(wants(1, "/home/me", false));
}

static void damage(off_t at, const char *with, size_t n) {
        cleanup(close_fd) int fd = openat(registry, "table", O_WRONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, with, n, at), (ssize_t)n);
}

static void a_damaged_table_leaves_nothing_out(void **state) {
        const off_t row = sizeof(struct guard_row);

        (void)state;
        for (off_t at = 0; at < row - 16; at += 3) { /* each part of a row, up to its check */
                guard_row_void(registry, 0);
                put_root(0, "/srv/x", "x");
                damage(row + at, "\xa5\x5a\xa5", 3);
                assert_true(wants(0, "/home/me", false));
        }

        damage(0, "?", 1);
        assert_true(wants(0, "/home/me", false));

        assert_int_equal(unlinkat(registry, "table", 0), 0);
        assert_true(wants(0, "/home/me", false));
        assert_int_equal(symlinkat("/etc/passwd", registry, "table"), 0);
        assert_true(wants(0, "/home/me", false));
}

static void two_that_say_the_same_are_enough(void **state) {
        struct guard_table table;
        struct guard_reach reach = { .table = &table, .own = 3 };

        (void)state;
        for (int i = 0; i < 5; i++)
                put_root(i, "/home/me", "same");
        put_root(5, "/home/me", "other");

        guard_table_read(&table, registry, false);
        assert_int_equal(guard_reach_add(&reach, "/home/me/one"), 0);
        guard_reach_ready(&reach);

        assert_true(guard_reach_wants(&reach, 0));
        assert_true(guard_reach_wants(&reach, 1)); /* the first turned out to be over: it does not count */
        guard_reach_heard(&reach, 1);
        assert_true(guard_reach_wants(&reach, 2));
        guard_reach_heard(&reach, 2);
        assert_true(guard_reach_wants(&reach, 3)); /* its own */
        assert_false(guard_reach_wants(&reach, 4));
        assert_true(guard_reach_wants(&reach, 5));

        guard_row_clear(registry, &table, 4);
        guard_table_done(&table);
        guard_table_read(&table, registry, false);
        assert_true(guard_reach_wants(&reach, 4));

        guard_reach_done(&reach);
        guard_table_done(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(one_in_the_other_is_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(most_other_places_are_left_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_not_known_is_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_row_of_somebody_who_ended, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_damaged_table_leaves_nothing_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(two_that_say_the_same_are_enough, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
