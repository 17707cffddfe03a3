/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay's upper directory as the kernel leaves it, built by hand: what is found, and what apply does with it. */
#include "sandbox/overlay.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct fixture {
        char root[64], workspace[96], upper[96], outside[96];
        struct overlay_dirs dirs;
};

static char *in(const char *directory, const char *name) {
        static char path[4][512];
        static int turn;
        turn = (turn + 1) % 4;
        snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
        return path[turn];
}

static void put_file(const char *directory, const char *name, const char *text) {
        struct err e = { 0 };
        if (path_replace_file(in(directory, name), str_of(text), 0644, &e) < 0)
                fail_msg("%s", err_text(&e));
}

static void expect_text(const char *directory, const char *name, const char *text) {
        cleanup(buf_done) struct buf content = BUF(0);
        struct err e = { 0 };
        if (path_read_file(in(directory, name), 4096, &content, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_string_equal(buf_text(&content), text);
}

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof *f);
        snprintf(f->root, sizeof f->root, "/tmp/bailey-overlay-XXXXXX");
        assert_non_null(mkdtemp(f->root));
        snprintf(f->workspace, sizeof f->workspace, "%s/workspace", f->root);
        snprintf(f->upper, sizeof f->upper, "%s/upper", f->root);
        snprintf(f->outside, sizeof f->outside, "%s/outside", f->root);
        assert_int_equal(mkdir(f->workspace, 0755) | mkdir(f->upper, 0755) | mkdir(f->outside, 0755), 0);
        put_file(f->workspace, "kept", "kept\n");
        put_file(f->workspace, "gone", "gone\n");
        put_file(f->workspace, "changed", "before\n");
        assert_int_equal(mkdir(in(f->workspace, "old"), 0755), 0);
        put_file(f->workspace, "old/a", "a\n");
        put_file(f->workspace, "old/b", "b\n");
        f->dirs = (struct overlay_dirs){ f->workspace, f->upper, clock_wall_us() + 1000000 };
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;
        int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = tree_remove(tmp, f->root + strlen("/tmp/"));
        close(tmp);
        free(f);
        return r;
}

static void delete_mark(const struct fixture *f, const char *name) {
        assert_int_equal(mknod(in(f->upper, name), S_IFCHR, makedev(0, 0)), 0);
}

static struct changes scan(const struct fixture *f, overlay_protected is_protected) {
        struct changes found = { 0 };
        struct err e = { 0 };
        if (overlay_scan(&f->dirs, is_protected, NULL, &found, &e) < 0)
                fail_msg("%s", err_text(&e));
        return found;
}

static const struct change *find(const struct changes *c, const char *path) {
        for (size_t i = 0; i < c->list.n; i++)
                if (strcmp(c->list.p[i].path, path) == 0)
                        return &c->list.p[i];
        fail_msg("%s is not among the changes", path);
        abort();
}

static void apply_all(const struct fixture *f, const struct changes *c) {
        struct err e = { 0 };
        for (size_t i = 0; i < c->list.n; i++)
                if (!(c->list.p[i].flags & CHANGE_SPECIAL) && overlay_apply(&f->dirs, &c->list.p[i], &e) < 0)
                        fail_msg("%s", err_text(&e));
}

static void ordinary_changes_are_found_and_applied(void **state) {
        struct fixture *f = *state;
        put_file(f->upper, "changed", "after\n");
        put_file(f->upper, "new", "new\n");
        assert_int_equal(mkdir(in(f->upper, "dir"), 0700), 0);
        put_file(f->upper, "dir/inner", "inner\n");
        assert_int_equal(symlink("kept", in(f->upper, "link")), 0);
        delete_mark(f, "gone");
        cleanup(changes_done) struct changes c = scan(f, NULL);
        assert_int_equal(c.list.n, 6);
        assert_int_equal(find(&c, "changed")->kind, CHANGE_MODIFIED);
        assert_int_equal(find(&c, "new")->kind, CHANGE_ADDED);
        assert_int_equal(find(&c, "gone")->kind, CHANGE_DELETED);
        assert_int_equal(find(&c, "link")->flags, 0);
        expect_text(f->workspace, "changed", "before\n");
        apply_all(f, &c);
        expect_text(f->workspace, "changed", "after\n");
        expect_text(f->workspace, "dir/inner", "inner\n");
        expect_text(f->workspace, "link", "kept\n");
        assert_int_equal(access(in(f->workspace, "gone"), F_OK), -1);
}

static void an_opaque_directory_hides_what_it_replaced(void **state) {
        struct fixture *f = *state;
        assert_int_equal(mkdir(in(f->upper, "old"), 0755), 0);
        put_file(f->upper, "old/a", "new a\n");
        assert_int_equal(setxattr(in(f->upper, "old"), "user.overlay.opaque", "y", 1, 0), 0);
        cleanup(changes_done) struct changes c = scan(f, NULL);
        assert_int_equal(find(&c, "old/b")->kind, CHANGE_DELETED);
        assert_int_equal(find(&c, "old/a")->kind, CHANGE_MODIFIED);
        apply_all(f, &c);
        expect_text(f->workspace, "old/a", "new a\n");
        assert_int_equal(access(in(f->workspace, "old/b"), F_OK), -1);
}

static void a_directory_and_a_file_replace_each_other(void **state) {
        struct fixture *f = *state;
        put_file(f->upper, "old", "now a file\n");
        assert_int_equal(mkdir(in(f->upper, "kept"), 0755), 0);
        put_file(f->upper, "kept/x", "x\n");
        cleanup(changes_done) struct changes c = scan(f, NULL);
        apply_all(f, &c);
        expect_text(f->workspace, "old", "now a file\n");
        expect_text(f->workspace, "kept/x", "x\n");
}

static bool protects_hooks(const char *path, enum overlay_act act, void *context) {
        (void)act;
        (void)context;
        return strstr(path, "/.git/hooks") != NULL;
}

static void what_needs_a_second_look_is_marked(void **state) {
        struct fixture *f = *state;
        f->dirs.began_us = 1; /* everything in the workspace is newer */
        assert_int_equal(symlink("../outside/secret", in(f->upper, "escape")), 0);
        assert_int_equal(symlink("/etc/passwd", in(f->upper, "absolute")), 0);
        assert_int_equal(mkfifo(in(f->upper, "fifo"), 0600), 0);
        put_file(f->upper, "changed", "after\n");
        put_file(f->upper, "tool", "x");
        assert_int_equal(chmod(in(f->upper, "tool"), 04755), 0);
        assert_int_equal(mkdir(in(f->upper, ".git"), 0755) | mkdir(in(f->upper, ".git/hooks"), 0755), 0);
        put_file(f->upper, ".git/hooks/pre-commit", "#!/bin/sh\n");
        cleanup(changes_done) struct changes c = scan(f, protects_hooks);
        assert_int_equal(find(&c, "escape")->flags, CHANGE_LINK_LEAVES);
        assert_int_equal(find(&c, "absolute")->flags, CHANGE_LINK_LEAVES);
        assert_int_equal(find(&c, "fifo")->flags, CHANGE_SPECIAL);
        assert_int_equal(find(&c, "changed")->flags, CHANGE_CONFLICT);
        assert_int_equal(find(&c, "tool")->flags, CHANGE_SETID);
        assert_int_equal(find(&c, ".git/hooks/pre-commit")->flags, CHANGE_PROTECTED);
        struct err e = { 0 };
        assert_int_equal(overlay_apply(&f->dirs, find(&c, "fifo"), &e), -EINVAL);
        assert_int_equal(overlay_apply(&f->dirs, find(&c, "tool"), &e), 0);
        struct stat st;
        assert_int_equal(stat(in(f->workspace, "tool"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
}

static void a_link_in_the_workspace_never_leads_a_write_outside(void **state) {
        struct fixture *f = *state;
        put_file(f->outside, "victim", "untouched\n");
        assert_int_equal(mkdir(in(f->upper, "sub"), 0755), 0);
        put_file(f->upper, "sub/victim", "overwritten\n");
        put_file(f->upper, "direct", "overwritten\n");
        cleanup(changes_done) struct changes c = scan(f, NULL);
        /* Between the scan and the apply somebody puts links where the changes go. */
        assert_int_equal(symlink(f->outside, in(f->workspace, "sub")), 0);
        assert_int_equal(symlink(in(f->outside, "victim"), in(f->workspace, "direct")), 0);
        struct err e = { 0 };
        assert_true(overlay_apply(&f->dirs, find(&c, "sub/victim"), &e) < 0);
        assert_int_equal(overlay_apply(&f->dirs, find(&c, "direct"), &e), 0);
        expect_text(f->outside, "victim", "untouched\n");
        expect_text(f->workspace, "direct", "overwritten\n");
        struct stat st;
        assert_int_equal(lstat(in(f->workspace, "direct"), &st), 0);
        assert_true(S_ISREG(st.st_mode));
}

static void a_link_in_the_overlay_is_not_read_through(void **state) {
        struct fixture *f = *state;
        put_file(f->outside, "key", "secret\n");
        put_file(f->upper, "file", "plain\n");
        cleanup(changes_done) struct changes c = scan(f, NULL);
        assert_int_equal(unlink(in(f->upper, "file")), 0);
        assert_int_equal(symlink(in(f->outside, "key"), in(f->upper, "file")), 0);
        struct err e = { 0 };
        assert_true(overlay_apply(&f->dirs, find(&c, "file"), &e) < 0);
        assert_int_equal(access(in(f->workspace, "file"), F_OK), -1);
}

int main(void) {
#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(ordinary_changes_are_found_and_applied),
                CASE(an_opaque_directory_hides_what_it_replaced),
                CASE(a_directory_and_a_file_replace_each_other),
                CASE(what_needs_a_second_look_is_marked),
                CASE(a_link_in_the_workspace_never_leads_a_write_outside),
                CASE(a_link_in_the_overlay_is_not_read_through),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
