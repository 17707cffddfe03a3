/* SPDX-License-Identifier: Apache-2.0 */
/* Bailey's own writes into a home that the sandbox controls. */
#include "../cmocka_all.h"

#include "base/cleanup.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "kept/home.h"
#include "policy/home_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/bailey-home-XXXXXX";
static char workspace_text[64], home_text[] = HOME_WORD_WORKSPACE, none_text[] = HOME_WORD_NONE;
static struct policy policy;

static int set_up(void **state) {
        (void)state;
        snprintf(top, sizeof top, "/tmp/bailey-home-XXXXXX");
        assert_non_null(mkdtemp(top));
        assert_int_equal(setenv("XDG_STATE_HOME", top, 1), 0);
        snprintf(workspace_text, sizeof workspace_text, "%s/project", top);
        policy = (struct policy){ .workspace = workspace_text, .filesystem.home = home_text };
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        return tree_remove(AT_FDCWD, top);
}

static struct home opened(void) {
        struct home home = HOME_NONE;
        struct err err = { 0 };
        if (home_open(&policy, "abc", &home, &err) < 0)
                fail_msg("%s", err_text(&err));
        return home;
}

static const char *content_of(const struct home *home, const char *path) {
        static char text[256];
        int fd = openat(home->files_fd, path, O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        if (fd >= 0)
                close(fd);
        return n < 0 ? NULL : text;
}

static void put(const struct home *home, const char *path, const char *text) {
        int fd = openat(home->files_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

static int lay(struct home *home, const char *path, const char *text, const char *key, bool once) {
        const struct home_file file = {
                .path = path, .content = str_of(text), .origin = "a test", .key = key, .once = once
        };
        return home_lay(home, &file, NULL);
}

static void test_laid_and_kept(void **state) {
        (void)state;
        struct home home = opened();
        struct stat st;
        assert_true(home.fresh);
        assert_int_equal(lay(&home, ".agent/deep/auth.json", "one", NULL, false), 0);
        assert_string_equal(content_of(&home, ".agent/deep/auth.json"), "one");
        assert_int_equal(fstatat(home.files_fd, ".agent/deep/auth.json", &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(home_save(&home, NULL), 0);
        home_close(&home);

        /* The sandbox changed it, the host did not: it stays. */
        home = opened();
        assert_false(home.fresh);
        put(&home, ".agent/deep/auth.json", "changed inside");
        assert_int_equal(lay(&home, ".agent/deep/auth.json", "one", NULL, false), 0);
        assert_string_equal(content_of(&home, ".agent/deep/auth.json"), "changed inside");
        /* The host changed: replaced, and what was there is kept beside it. */
        assert_int_equal(lay(&home, ".agent/deep/auth.json", "two", NULL, false), 0);
        assert_string_equal(content_of(&home, ".agent/deep/auth.json"), "two");
        assert_string_equal(content_of(&home, ".agent/deep/auth.json.old"), "changed inside");
        /* Removed inside: laid again. */
        assert_int_equal(unlinkat(home.files_fd, ".agent/deep/auth.json", 0), 0);
        assert_int_equal(lay(&home, ".agent/deep/auth.json", "two", NULL, false), 0);
        assert_string_equal(content_of(&home, ".agent/deep/auth.json"), "two");
        home_close(&home);
}

static void test_key_and_once(void **state) {
        (void)state;
        struct home home = opened();
        assert_int_equal(lay(&home, "a", "one", "key 1", false), 0);
        assert_true(home_is_current(&home, "a", "key 1"));
        assert_false(home_is_current(&home, "a", "key 2"));
        assert_int_equal(lay(&home, "a", "two", "key 1", false), 0);
        assert_string_equal(content_of(&home, "a"), "one");
        assert_int_equal(lay(&home, "a", "two", "key 2", false), 0);
        assert_string_equal(content_of(&home, "a"), "two");

        put(&home, "b", "the sandbox's");
        assert_int_equal(lay(&home, "b", "ours", NULL, true), 0);
        assert_string_equal(content_of(&home, "b"), "the sandbox's");
        assert_int_equal(lay(&home, "c", "ours", NULL, true), 0);
        assert_string_equal(content_of(&home, "c"), "ours");
        home_close(&home);
}

/* Links lead to a directory outside, which must stay as it is. */
static void test_links_are_not_followed(void **state) {
        (void)state;
        struct home home = opened();
        cleanup(free_ptr) char *outside = path_join(top, "outside"), *victim = path_join(outside, "victim");
        assert_int_equal(mkdir(outside, 0700), 0);
        int fd = open(victim, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, "mine", 4), 4);
        close(fd);

        assert_int_equal(symlinkat(outside, home.files_fd, ".agent"), 0);
        assert_int_equal(lay(&home, ".agent/victim", "evil", NULL, false), -ELOOP);
        assert_int_equal(lay(&home, ".agent/new", "evil", NULL, false), -ELOOP);
        assert_int_equal(lay(&home, ".agent/sub/new", "evil", NULL, false), -ELOOP);
        assert_int_equal(home_make_point(&home, ".agent/point", true, NULL), -ELOOP);
        assert_int_equal(home_make_point(&home, ".agent", true, NULL), -ELOOP);

        /* A link in the place of the file itself is replaced, not followed. */
        assert_int_equal(symlinkat(victim, home.files_fd, "file"), 0);
        assert_int_equal(lay(&home, "file", "ours", NULL, false), 0);
        assert_string_equal(content_of(&home, "file"), "ours");

        struct stat st;
        assert_int_equal(stat(victim, &st), 0);
        assert_int_equal(st.st_size, 4);
        cleanup(free_ptr) char *new = path_join(outside, "new"), *sub = path_join(outside, "sub"),
                               *point = path_join(outside, "point");
        assert_int_equal(access(new, F_OK), -1);
        assert_int_equal(access(sub, F_OK), -1);
        assert_int_equal(access(point, F_OK), -1);
        home_close(&home);
}

static void test_other_kinds(void **state) {
        (void)state;
        struct home home = opened();
        put(&home, "file", "x");
        assert_int_equal(lay(&home, "file/below", "x", NULL, false), -ENOTDIR);
        assert_int_equal(mkdirat(home.files_fd, "dir", 0700), 0);
        assert_true(lay(&home, "dir", "x", NULL, false) < 0);
        assert_int_equal(mkfifoat(home.files_fd, "pipe", 0600), 0);
        assert_int_equal(lay(&home, "pipe", "x", NULL, false), 0);
        assert_string_equal(content_of(&home, "pipe"), "x");

        static const char *const bad[] = { "", "/etc/passwd", "..", "../x", "a/../b", "a//b", "./a", "a/", "a\nb" };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_int_equal(lay(&home, bad[i], "x", NULL, false), -EINVAL);
        assert_int_equal(home_make_point(&home, "points/dir", true, NULL), 0);
        assert_int_equal(home_make_point(&home, "points/dir", true, NULL), 0);
        assert_int_equal(home_make_point(&home, "points/file", false, NULL), 0);
        assert_int_equal(home_make_point(&home, "points/file", true, NULL), -ENOTDIR);
        home_close(&home);
}

/* A damaged list of what was laid costs one more writing, nothing else. */
static void test_damaged_records(void **state) {
        (void)state;
        struct home home = opened();
        assert_int_equal(lay(&home, "a", "one", NULL, false), 0);
        assert_int_equal(home_save(&home, NULL), 0);
        cleanup(free_ptr) char *records = path_join(home.directory, "laid");
        home_close(&home);
        assert_int_equal(path_replace_file(records, STR("x\ty\n\t\t\nno\0tabs\n"), 0600, NULL), 0);
        home = opened();
        assert_int_equal(lay(&home, "a", "one", NULL, false), 0);
        assert_string_equal(content_of(&home, "a"), "one");
        assert_null(content_of(&home, "a.old"));
        home_close(&home);
}

static void test_forgotten(void **state) {
        (void)state;
        policy.filesystem.home = none_text;
        struct home home = opened();
        cleanup(free_ptr) char *directory = strdup(home.directory);
        put(&home, "x", "y");
        assert_int_equal(access(directory, F_OK), 0);
        home_close(&home);
        assert_int_equal(access(directory, F_OK), -1);
}

static void test_names(void **state) {
        (void)state;
        static const char *const good[] = { "workspace", "none", "real", "a", "My-home_2" };
        static const char *const bad[] = { "", ".", "..", "a/b", "a.b", "-a", "a b", "\xc3\xa4" };
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                assert_int_equal(home_check(str_of(good[i]), NULL), 0);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_int_equal(home_check(str_of(bad[i]), NULL), -EINVAL);
        assert_false(home_can_cover("/"));
        assert_false(home_can_cover("/usr/sbin"));
        assert_false(home_can_cover("/tmp"));
        assert_true(home_can_cover("/tmp/home"));
        assert_true(home_can_cover("/root"));
        assert_true(home_can_cover("/var/lib/jenkins"));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(test_laid_and_kept), CASE(test_key_and_once),    CASE(test_links_are_not_followed),
                CASE(test_other_kinds),   CASE(test_damaged_records), CASE(test_forgotten),
                CASE(test_names)
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
