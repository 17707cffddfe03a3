/* SPDX-License-Identifier: Apache-2.0 */
/* A directory is the same whether it is opened step by step or at once: links resolved, what is missing said. */
#include "sandbox/linux/survey/survey_internal.h"

#include "base/cleanup.h"
#include "base/files/tree.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[40];
static int dir;
static struct survey_dirs *dirs;

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-survey-dirs-XXXXXX", 29);
        dir = mkdtemp(place) ? open(place, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        dirs = calloc(1, sizeof *dirs);
        return dir < 0 || !dirs || mkdirat(dir, "a", 0700) < 0 || mkdirat(dir, "a/b", 0700) < 0 ||
                       mkdirat(dir, "a/b/c", 0700) < 0 || symlinkat("a/b", dir, "link") < 0 ||
                       symlinkat("nowhere", dir, "dangling") < 0 || mknodat(dir, "file", S_IFREG | 0600, 0) < 0
                   ? -1
                   : 0;
}

static int tear_down(void **state) {
        (void)state;
        survey_dirs_done(dirs);
        free(dirs);
        close(dir);
        return tree_remove(AT_FDCWD, place);
}

static void expect(const char *below, int error, const char *real_below) {
        char path[128], real[128];

        snprintf(path, sizeof path, "%s/%s", place, below);
        snprintf(real, sizeof real, "%s/%s", place, real_below ? real_below : "");
        const struct survey_dir *found = survey_dir(dirs, str_of(path));
        assert_non_null(found);
        assert_int_equal(found->error, error);
        assert_int_equal(found->fd >= 0, error == 0);
        if (real_below)
                assert_string_equal(found->real, real);
}

static void ask_all(void) {
        expect("a/b/c", 0, "a/b/c");
        expect("link/c", 0, "a/b/c");
        expect("link", 0, "a/b");
        expect("a/b/missing/deeper", ENOENT, "a/b/missing/deeper");
        expect("link/missing", ENOENT, "a/b/missing");
        expect("file/below", ENOTDIR, NULL);
        expect("dangling/below", ENOENT, NULL);
        expect("none/of/these", ENOENT, "none/of/these");
}

static void test_at_once_and_again(void **state) {
        (void)state;
        ask_all();
        ask_all();
}

/* The directory has been read by then. */
static void test_after_many_names(void **state) {
        (void)state;
        char path[128];

        for (int i = 0; i < 20; i++) {
                struct survey_place at;
                struct stat st;
                snprintf(path, sizeof path, "%s/name%d", place, i);
                assert_int_equal(survey_place(dirs, path, &at), 0);
                assert_int_equal(survey_look(&at, &st), ENOENT);
        }
        ask_all();
}

/* More than are remembered. */
static void test_many_directories(void **state) {
        (void)state;
        char name[64];

        for (int i = 0; i < 2 * SURVEY_DIRS_MAX; i++) {
                snprintf(name, sizeof name, "d%d", i);
                assert_int_equal(mkdirat(dir, name, 0700), 0);
        }
        for (int round = 0; round < 2; round++)
                for (int i = 0; i < 2 * SURVEY_DIRS_MAX; i++) {
                        snprintf(name, sizeof name, "d%d", i);
                        expect(name, 0, name);
                }
        ask_all();
}

static void test_all_names_of_a_directory(void **state) {
        (void)state;
        struct str names, name;
        unsigned n = 0, seen = 0;

        for (int again = 0; again < 2; again++) {
                struct survey_dir *found = survey_dir(dirs, str_of(place));
                assert_non_null(found);
                assert_int_equal(survey_dir_list(found, &names), 0);
                while (str_split(&names, '\0', &name)) {
                        n += name.n > 0;
                        seen += str_is(name, "link") || str_is(name, "file");
                }
        }
        assert_int_equal(n, 2 * 4);
        assert_int_equal(seen, 2 * 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_at_once_and_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_after_many_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_many_directories, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_all_names_of_a_directory, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
