/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep finds everything that came, in however many directories, in whatever order the guards stand. */
#include "sandbox/guard_internal.h"

#include "base/cleanup.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "sandbox/sandbox.h"

#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORIES = 40, NAMES = 8 }; /* more directories than one sweep remembers */

static char place[32];
static int dir;
static char paths[DIRECTORIES * NAMES][128];
static struct plan_guard guards[DIRECTORIES * NAMES];

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-guard-XXXXXX", 23);
        dir = mkdtemp(place) ? open(place, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        return dir < 0 || mkdirat(dir, "store", 0700) < 0 || mkdirat(dir, "w", 0700) < 0 ? -1 : 0;
}

static int tear_down(void **state) {
        (void)state;
        close(dir);
        return tree_remove(AT_FDCWD, place);
}

static int open_store(void *context) {
        (void)context;
        return openat(dir, "store", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static unsigned sweep(size_t n) {
        struct guard_sweep request = { .guards = guards, .n = n, .id = "run", .open_store = open_store, .store = -1 };

        assert_int_equal(guard_sweep(&request, NULL), 0);
        if (request.asked)
                close(request.store);
        return request.kept;
}

static void guard_add(size_t at, const char *below) {
        snprintf(paths[at], sizeof paths[at], "%s/w/%s", place, below);
        guards[at] = (struct plan_guard){ .path = paths[at], .kind = PLAN_GUARD_MISSING, .why = "test" };
}

static bool is_there(const char *below) {
        struct stat st;
        char path[128];

        snprintf(path, sizeof path, "w/%s", below);
        return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_file(const char *below) {
        char path[128];

        snprintf(path, sizeof path, "w/%s", below);
        assert_int_equal(mknodat(dir, path, S_IFREG | 0600, 0), 0);
}

static void make_dir(const char *below) {
        char path[128];

        snprintf(path, sizeof path, "w/%s", below);
        assert_int_equal(mkdirat(dir, path, 0700), 0);
}

/* Guards of all directories in turn, so that each is come back to. */
static void test_many_directories(void **state) {
        (void)state;
        char name[64];
        size_t n = 0;
        unsigned made = 0;

        for (int d = 0; d < DIRECTORIES; d += 2) {
                snprintf(name, sizeof name, "d%d", d);
                make_dir(name);
        }
        for (int i = 0; i < NAMES; i++)
                for (int d = 0; d < DIRECTORIES; d++) {
                        snprintf(name, sizeof name, "d%d/name%d", d, i);
                        guard_add(n++, name);
                        if (d % 2 == 0 && (i + d) % 5 == 0) {
                                make_file(name);
                                made++;
                        }
                }
        make_file("d0/other");

        assert_int_equal(sweep(n), made);
        for (int d = 0; d < DIRECTORIES; d++)
                for (int i = 0; i < NAMES; i++) {
                        snprintf(name, sizeof name, "d%d/name%d", d, i);
                        assert_false(is_there(name));
                }
        assert_true(is_there("d0/other"));
}

/* What is missing in a directory that was read must not hide what came in another one, nor deeper down. */
static void test_below_what_came(void **state) {
        (void)state;
        static const char *const below[] = { ".a",          ".b",          ".c", ".d", ".e",
                                             ".f",          ".gone/x/one", ".g", ".h", ".came/x/one",
                                             ".came/x/two", ".Came/x/one", ".i", ".j" };
        size_t n = sizeof below / sizeof *below;

        make_dir(".came");
        make_dir(".came/x");
        make_file(".came/x/two");
        make_file(".came/x/kept");
        make_file(".j");
        for (size_t i = 0; i < n; i++)
                guard_add(i, below[i]);

        assert_int_equal(sweep(n), 2);
        assert_false(is_there(".came/x/two"));
        assert_false(is_there(".j"));
        assert_true(is_there(".came/x/kept"));
}

/* A link where a directory was missing: it goes itself, and nothing behind it is touched. */
static void test_a_link_on_the_way(void **state) {
        (void)state;
        static const char *const below[] = { ".a", ".b", ".c", ".d", ".e", ".f", ".link/one", ".link/two", ".z" };
        size_t n = sizeof below / sizeof *below;

        make_dir("elsewhere");
        make_file("elsewhere/one");
        assert_int_equal(symlinkat("elsewhere", dir, "w/.link"), 0);
        for (size_t i = 0; i < n; i++)
                guard_add(i, below[i]);

        assert_int_equal(sweep(n), 1);
        assert_false(is_there(".link"));
        assert_true(is_there("elsewhere/one"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_many_directories, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_below_what_came, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_link_on_the_way, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
