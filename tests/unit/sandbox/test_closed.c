/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "sandbox/linux/broker/closed.h"

#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct plan_guard guards[] = {
        { .path = "/w/.envrc", .kind = PLAN_GUARD_MISSING, .why = "built in: a shell runs it" },
        { .path = "/w/.git/config", .kind = PLAN_GUARD_FILE, .why = "built in: git runs what it says" },
        { .path = "/w/a/b/f", .kind = PLAN_GUARD_MISSING, .why = "--deny-write" },
        { .path = "/w/vendor", .kind = PLAN_GUARD_DIR, .why = "--deny-write" },
};
static const char *openings[] = { "/w/vendor/generated" };

static struct closed *table(void) {
        static struct plan plan;
        struct closed *closed = NULL;

        plan.guards.p = guards;
        plan.guards.n = sizeof guards / sizeof *guards;
        plan.openings.p = openings;
        plan.openings.n = 1;
        assert_int_equal(closed_new(&plan, &closed), 0);
        return closed;
}

static void test_paths(void **state) {
        static const struct {
                const char *path, *guard;
                bool at, above;
        } rows[] = {
                { "/", NULL, false, false },
                { "/w", NULL, false, true },
                { "/w/plain", NULL, false, false },
                { "/w/.envrc", "/w/.envrc", true, false },
                { "/w/.envrc2", NULL, false, false },
                { "/w/.env", NULL, false, false },
                { "/w/.envrc/below", "/w/.envrc", false, false },
                { "/w/.git", NULL, false, true },
                { "/w/.git/config", "/w/.git/config", true, false },
                { "/w/.git/config.lock", NULL, false, false },
                { "/w/a", NULL, false, true },
                { "/w/a/b", NULL, false, true },
                { "/w/a/b/f", "/w/a/b/f", true, false },
                { "/w/vendor/x/y", "/w/vendor", false, false },
                { "/w/vendor/generated", NULL, false, false },
                { "/w/vendor/generated/deep/er", NULL, false, false },
                { "/w/vendor/generated2", "/w/vendor", false, false },
                { "pipe:[1]", NULL, false, false },
                { "", NULL, false, false },
        };
        cleanup(closed_freep) struct closed *closed = table();

        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct closed_look look;

                closed_look(closed, rows[i].path, &look);
                if (rows[i].guard) {
                        assert_non_null(look.guard);
                        assert_string_equal(look.guard->path, rows[i].guard);
                } else
                        assert_null(look.guard);
                assert_int_equal(look.at, rows[i].at);
                assert_int_equal(look.above, rows[i].above);
        }
}

static void test_swept(void **state) {
        (void)state;
        assert_true(closed_is_swept(&guards[0]));
        assert_false(closed_is_swept(&guards[1])); /* it exists */
        assert_false(closed_is_swept(&guards[2])); /* a person wrote it */
}

static void test_own(void **state) {
        cleanup(closed_freep) struct closed *closed = table();
        char path[] = "/tmp/closed.XXXXXX";
        int fd = mkstemp(path);
        struct stat st, other;

        (void)state;
        assert_true(fd >= 0 && fstat(fd, &st) == 0 && stat("/", &other) == 0);
        assert_false(closed_is_own(closed, &guards[0], &st));
        closed_own(closed, &guards[0], fd);
        assert_true(closed_is_own(closed, &guards[0], &st));
        assert_false(closed_is_own(closed, &guards[2], &st));
        assert_false(closed_is_own(closed, &guards[0], &other));
        assert_false(closed_stands_own(closed, &guards[0])); /* nothing is at that path */
        assert_null(closed_object(closed, &st, true));
        close(fd);
        unlink(path);
}

static int count(void *context, const struct plan_guard *guard, const char *rest) {
        size_t *n = context;

        assert_string_equal(guard->path + strlen(guard->path) - strlen(rest), rest);
        ++*n;
        return 0;
}

static void test_below(void **state) {
        static const struct {
                const char *path;
                size_t n;
        } rows[] = { { "/w", 4 }, { "/w/a", 1 }, { "/w/a/b/f", 0 }, { "/w/v", 0 }, { "/x", 0 } };
        cleanup(closed_freep) struct closed *closed = table();

        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                size_t n = 0;

                assert_int_equal(closed_below(closed, rows[i].path, count, &n), 0);
                assert_int_equal(n, rows[i].n);
        }
}

/* Guards that come later close what they name, keep what is known of the others, and leave out what is closed. */
static void test_more(void **state) {
        char path[] = "/w/late", link[] = "";
        const struct plan_guard more[] = {
                { .path = path, .kind = PLAN_GUARD_MISSING, .link = link, .why = "it came later" },
                { .path = "/w/vendor/x", .kind = PLAN_GUARD_FILE, .link = link, .why = "it came later" },
                { .path = "/w/.envrc", .kind = PLAN_GUARD_MISSING, .link = link, .why = "it came later" },
        };
        cleanup(closed_freep) struct closed *closed = table();
        struct closed_look look;
        struct stat st;

        (void)state;
        int fd = open("/dev/null", O_PATH);
        assert_int_equal(fstat(fd, &st), 0);
        closed_own(closed, &guards[0], fd);

        for (int i = 0; i < 3; i++) {
                assert_int_equal(closed_add(closed, more, sizeof more / sizeof *more), 0);
                memcpy(path, "/w/used", sizeof path); /* it has its own copy */
                closed_look(closed, "/w/late/below", &look);
                assert_string_equal(look.guard->path, "/w/late");
                assert_false(closed_is_swept(look.guard));
                memcpy(path, "/w/late", sizeof path);
        }

        closed_look(closed, "/w/vendor/x", &look);
        assert_string_equal(look.guard->path, "/w/vendor");
        closed_look(closed, "/w/vendor/generated/x", &look);
        assert_null(look.guard);
        closed_look(closed, "/w/.envrc", &look); /* the one that is never the sandbox's own counts */
        assert_false(closed_is_swept(look.guard));
        closed_look(closed, "/w/a/b/f", &look);
        assert_string_equal(look.guard->path, "/w/a/b/f");

        size_t n = 0;
        assert_int_equal(closed_below(closed, "/w", count, &n), 0);
        assert_int_equal(n, 6);
        close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paths), cmocka_unit_test(test_swept), cmocka_unit_test(test_own),
                cmocka_unit_test(test_below), cmocka_unit_test(test_more),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
