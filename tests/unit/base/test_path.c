/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/path.h"

#include "../alloc_fail.h"
#include "../child.h"
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char top[64]; /* a directory of this test */

static char *below(const char *name) {
        char *path = path_join(top, name);
        assert_non_null(path);
        return path;
}

static void put(const char *name, const char *content) {
        cleanup(free_ptr) char *path = below(name);
        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, content, strlen(content)), 0);
}

static int make_top(void **state) {
        (void)state;
        snprintf(top, sizeof top, "/tmp/bailey-test-path.XXXXXX");
        return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state) {
        (void)state;
        const char *const argv[] = { "rm", "-rf", top, NULL };
        pid_t pid = fork();
        if (pid == 0) {
                execv("/bin/rm", (char **)argv);
                _exit(127);
        }
        int status = -1;
        return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void normalises(void **state) {
        (void)state;
        static const struct {
                const char *path, *base, *normal; /* NULL: refused */
        } rows[] = {
                { "/", NULL, "/" },
                { "//", NULL, "/" },
                { "/a/b", NULL, "/a/b" },
                { "/a//b///", NULL, "/a/b" },
                { "/./a/./b/.", NULL, "/a/b" },
                { "/a/../b", NULL, "/b" },
                { "/a/b/../..", NULL, "/" },
                { "/..", NULL, "/" },
                { "/../../a", NULL, "/a" },
                { "/...", NULL, "/..." },
                { "/.a/..b/c..", NULL, "/.a/..b/c.." },
                { "a", "/base", "/base/a" },
                { ".", "/base/", "/base" },
                { "..", "/base", "/" },
                { "../x", "/a/b", "/a/x" },
                { "../../../x", "/a/b", "/x" },
                { "x", "/", "/x" },
                { "x", "/a/../b", "/b/x" },
                { "/abs", "/base", "/abs" },
                { "~", "/base", "/base/~" },
                { "", "/base", NULL },
                { "a", NULL, NULL },
                { "a", "relative", NULL },
                { "a", "", NULL },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                cleanup(free_ptr) char *out = NULL;
                assert_int_equal(path_normalise(str_of(rows[i].path), rows[i].base, &out),
                                 rows[i].normal ? 0 : -EINVAL);
                if (rows[i].normal)
                        assert_string_equal(out, rows[i].normal);
                else
                        assert_null(out);
        }
        char *out = NULL;
        assert_int_equal(path_normalise(STR("/a\0b"), NULL, &out), -EINVAL);
        alloc_fail_at(1);
        assert_int_equal(path_normalise(STR("/a"), NULL, &out), -ENOMEM);
        alloc_fail_at(0);
        assert_null(out);
}

static void expands_home(void **state) {
        (void)state;
        static const struct {
                const char *path, *home, *expanded;
                int result;
        } rows[] = {
                { "~", "/home/u", "/home/u", 0 },
                { "~/x", "/home/u", "/home/u/x", 0 },
                { "/x/~", "/home/u", "/x/~", 0 },
                { "x", NULL, "x", 0 },
                { "", NULL, "", 0 },
                { "~other/x", "/home/u", NULL, -EINVAL },
                { "~", NULL, NULL, -ENOENT },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                cleanup(free_ptr) char *out = NULL;
                assert_int_equal(path_expand_home(str_of(rows[i].path), rows[i].home, &out), rows[i].result);
                if (rows[i].expanded)
                        assert_string_equal(out, rows[i].expanded);
        }
        char *out = NULL;
        assert_int_equal(path_expand_home(STR("~/a\0b"), "/h", &out), -EINVAL);
        assert_int_equal(path_expand_home(STR("a\0b"), "/h", &out), -EINVAL);
}

static void compares_and_counts(void **state) {
        (void)state;
        static const struct {
                const char *path, *directory;
                bool within;
        } rows[] = {
                { "/a/b", "/a", true },  { "/a", "/a", true }, { "/ab", "/a", false },
                { "/a", "/a/b", false }, { "/a", "/", true },  { "/", "/", true },
                { "/b", "/a", false },   { "/a", "", false },  { "/a/b", "a/b", false },
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
                assert_int_equal(path_is_within(rows[i].path, rows[i].directory), rows[i].within);
        assert_int_equal(path_depth("/"), 0);
        assert_int_equal(path_depth("/a"), 1);
        assert_int_equal(path_depth("/a/b"), 2);
        assert_true(str_is(path_basename("/a/bc"), "bc"));
        assert_true(str_is(path_basename("bc"), "bc"));
        assert_true(str_is(path_basename("/"), ""));
        cleanup(free_ptr) char *one = path_join("/a", "b");
        cleanup(free_ptr) char *two = path_join("/", "b");
        assert_string_equal(one, "/a/b");
        assert_string_equal(two, "/b");
}

static void home_child(void *unused) {
        (void)unused;
        CHECK(setenv("HOME", "/somewhere/else", 1) == 0);
        CHECK(strcmp(path_home(), "/somewhere/else") == 0);
        CHECK(setenv("HOME", "relative", 1) == 0);
        CHECK(path_home() && path_home()[0] == '/' && strcmp(path_home(), "/somewhere/else") != 0);
        CHECK(unsetenv("HOME") == 0);
        CHECK(path_home() && path_home()[0] == '/');
}

static void finds_home(void **state) {
        (void)state;
        assert_child_succeeds(home_child, NULL);
}

/*
 * The same table twice: by openat2, and by steps where a filter refuses openat2 as an old kernel would. A row says what
 * each must answer; the slow way may refuse more (links that stay inside), never less.
 */
static const struct {
        const char *path;
        int flags;
        unsigned resolve;
        int fast, slow; /* 0: opens */
} opens[] = {
        { "dir/file", O_RDONLY, PATH_BENEATH, 0, 0 },
        { "./dir//./file", O_RDONLY, PATH_BENEATH, 0, 0 },
        { "dir", O_RDONLY | O_DIRECTORY, PATH_BENEATH, 0, 0 },
        { "dir/", O_RDONLY, PATH_BENEATH, 0, 0 },
        { ".", O_RDONLY, PATH_BENEATH, 0, 0 },
        { "", O_RDONLY, PATH_BENEATH, -ENOENT, -ENOENT },
        { "none", O_RDONLY, PATH_BENEATH, -ENOENT, -ENOENT },
        { "none/file", O_RDONLY, PATH_BENEATH, -ENOENT, -ENOENT },
        { "dir/file/", O_RDONLY, PATH_BENEATH, -ENOTDIR, -ENOTDIR },
        { "dir/file/x", O_RDONLY, PATH_BENEATH, -ENOTDIR, -ENOTDIR },
        { "/etc/passwd", O_RDONLY, PATH_BENEATH, -EXDEV, -EXDEV },
        { "..", O_RDONLY, PATH_BENEATH, -EXDEV, -EXDEV },
        { "dir/../../x", O_RDONLY, PATH_BENEATH, -EXDEV, -EXDEV },
        { "dir/../dir/file", O_RDONLY, PATH_BENEATH, 0, -EXDEV },
        { "out", O_RDONLY, PATH_BENEATH, -EXDEV, -ELOOP },
        { "out", O_PATH, PATH_BENEATH, -EXDEV, -ELOOP },
        { "updir/passwd", O_RDONLY, PATH_BENEATH, -EXDEV, -ELOOP },
        { "in", O_RDONLY, PATH_BENEATH, 0, -ELOOP },
        { "in", O_RDONLY, PATH_NO_SYMLINKS, -ELOOP, -ELOOP },
        { "in", O_PATH, PATH_NO_SYMLINKS, -ELOOP, -ELOOP },
        { "in", O_PATH | O_NOFOLLOW, PATH_NO_SYMLINKS, 0, 0 },
        { "linkdir/file", O_RDONLY, PATH_NO_SYMLINKS, -ELOOP, -ELOOP },
        { "linkdir/", O_RDONLY, PATH_NO_SYMLINKS, -ELOOP, -ELOOP },
        { "loop", O_RDONLY, PATH_BENEATH, -ELOOP, -ELOOP },
        { "/etc/passwd", O_RDONLY, PATH_NO_SYMLINKS, 0, 0 },
        { "dir/../dir/file", O_RDONLY, PATH_NO_SYMLINKS, 0, 0 },
        { "dir/new", O_WRONLY | O_CREAT | O_EXCL, PATH_BENEATH, 0, 0 },
        { "dir/new", O_WRONLY | O_CREAT | O_EXCL, PATH_BENEATH, -EEXIST, -EEXIST },
        { "dangling", O_WRONLY | O_CREAT, PATH_NO_SYMLINKS, -ELOOP, -ELOOP },
        { "dir", O_WRONLY | O_TMPFILE, PATH_BENEATH, 0, 0 },
};

static void open_table(void *slow) {
        cleanup(close_fd) int at = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
        CHECK(at >= 0);
        CHECK(unlinkat(at, "dir/new", 0) == 0 || errno == ENOENT);
        CHECK(!slow || deny_syscall(SYS_openat2, *(int *)slow) == 0);
        for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
                cleanup(close_fd) int fd = path_open_at(at, opens[i].path, opens[i].flags, 0600, opens[i].resolve);
                int wanted = slow ? opens[i].slow : opens[i].fast, got = fd < 0 ? fd : 0;
                if (got != wanted)
                        dprintf(2, "%s (row %zu, %s): %d instead of %d\n", opens[i].path, i, slow ? "slow" : "fast",
                                got, wanted);
                CHECK(got == wanted);
                CHECK(fd < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC));
        }
}

static void opens_inside_only(void **state) {
        (void)state;
        static const struct {
                const char *target, *name;
        } links[] = { { "/etc/passwd", "out" }, { "/etc", "updir" }, { "dir/file", "in" },
                      { "dir", "linkdir" },     { "loop", "loop" },  { "dir/none", "dangling" } };
        cleanup(free_ptr) char *dir = below("dir");
        assert_int_equal(mkdir(dir, 0700), 0);
        put("dir/file", "inside");
        for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
                cleanup(free_ptr) char *name = below(links[i].name);
                assert_int_equal(symlink(links[i].target, name), 0);
        }
        int missing = ENOSYS, filtered = EPERM;
        assert_child_succeeds(open_table, NULL);
        assert_child_succeeds(open_table, &missing);
        assert_child_succeeds(open_table, &filtered);
}

static void names_too_long_are_refused(void **state) {
        (void)state;
        char name[NAME_MAX + 2];
        memset(name, 'n', sizeof name - 1);
        name[sizeof name - 1] = '\0';
        assert_int_equal(path_open_at(AT_FDCWD, name, O_RDONLY, 0, PATH_NO_SYMLINKS), -ENAMETOOLONG);
}

static mode_t mode_of(const char *path) {
        struct stat st;
        assert_int_equal(lstat(path, &st), 0);
        return st.st_mode & 07777;
}

static void makes_private_directories(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *deep = below("p/q/r"), *parent = below("p/q"), *slashed = below("p//q/s///");
        cleanup(free_ptr) char *made = below("p/q/s");
        assert_int_equal(path_make_private_dir(deep, &e), 0);
        assert_int_equal(mode_of(deep), 0700);
        assert_int_equal(mode_of(parent), 0700);
        assert_int_equal(path_make_private_dir(deep, &e), 0); /* again */
        assert_int_equal(chmod(deep, 0755), 0);
        assert_int_equal(path_make_private_dir(deep, &e), 0);
        assert_int_equal(mode_of(deep), 0700); /* closed */
        assert_int_equal(path_make_private_dir(slashed, &e), 0);
        assert_int_equal(mode_of(made), 0700);
        assert_int_equal(path_make_private_dir("", &e), -EINVAL);
}

static void makes_private_files(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *file = below("private"), *link = below("private_link"),
                               *none = below("nowhere/private");
        cleanup(free_ptr) char *directory = below("private_dir");
        assert_int_equal(path_make_private_file(file, &e), 0);
        assert_int_equal(mode_of(file), 0600);
        assert_int_equal(path_make_private_file(file, &e), 0); /* again */
        assert_int_equal(chmod(file, 0644), 0);
        assert_int_equal(path_make_private_file(file, &e), -EPERM); /* others may have read it: said, not mended */
        assert_int_equal(mode_of(file), 0644);
        assert_int_equal(symlink(file, link), 0);
        assert_int_equal(path_make_private_file(link, &e), -ELOOP);
        assert_int_equal(mkdir(directory, 0700), 0);
        assert_int_equal(path_make_private_file(directory, &e), -EISDIR);
        assert_int_equal(path_make_private_file(none, &e), -ENOENT);
}

static void refuses_directories_that_are_not_ours(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *target = below("target"), *link = below("link"), *linked = below("link/");
        cleanup(free_ptr) char *file = below("plainfile"), *inside = below("plainfile/x"), *foreign = below("foreign");
        assert_int_equal(mkdir(target, 0755), 0);
        assert_int_equal(symlink(target, link), 0);
        assert_int_equal(path_make_private_dir(link, &e), -ENOTDIR);
        assert_non_null(strstr(err_text(&e), "link"));
        assert_int_equal(path_make_private_dir(linked, &e), -ENOTDIR);
        assert_int_equal(mode_of(target), 0755); /* what the link points at was not touched */
        put("plainfile", "");
        assert_int_equal(path_make_private_dir(file, &e), -ENOTDIR);
        assert_int_equal(path_make_private_dir(inside, &e), -ENOTDIR);
        if (geteuid() == 0) {
                assert_int_equal(mkdir(foreign, 0700), 0);
                assert_int_equal(chown(foreign, 12345, 12345), 0);
                assert_int_equal(path_make_private_dir(foreign, &e), -EPERM);
                assert_non_null(strstr(err_text(&e), "12345"));
        } else {
                assert_true(path_make_private_dir("/usr", &e) < 0);
        }
}

static void appends_only_to_own_files(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *log = below("log"), *link = below("loglink"), *pipe = below("fifo"),
                               *foreign = below("strange");
        for (int i = 0; i < 2; i++) {
                cleanup(close_fd) int fd = -1;
                assert_int_equal(path_open_append(log, 0600, &fd, &e), 0);
                assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
                assert_int_equal(fd_write_all(fd, "line\n", 5), 0);
        }
        cleanup(buf_done) struct buf content = BUF(0);
        assert_int_equal(path_read_file(log, 100, &content, &e), 0);
        assert_string_equal(buf_text(&content), "line\nline\n");
        assert_int_equal(mode_of(log), 0600);
        int fd = -1;
        assert_int_equal(symlink(log, link), 0);
        assert_int_equal(path_open_append(link, 0600, &fd, &e), -ELOOP);
        assert_int_equal(path_open_append(top, 0600, &fd, &e), -EISDIR);
        assert_int_equal(mkfifo(pipe, 0600), 0);
        assert_true(path_open_append(pipe, 0600, &fd, &e) < 0); /* and does not wait for a reader */
        if (geteuid() == 0) {
                put("strange", "");
                assert_int_equal(chown(foreign, 12345, 12345), 0);
                assert_int_equal(path_open_append(foreign, 0600, &fd, &e), -EPERM);
        }
        assert_int_equal(fd, -1);
}

static int count_entries(void) {
        DIR *d = opendir(top);
        int n = 0;
        while (d && readdir(d))
                n++;
        if (d)
                closedir(d);
        return n;
}

static void replaces_files_whole(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *file = below("state"), *link = below("statelink"), *dir = below("adir"),
                               *gone = below("no/file");
        umask(077);
        assert_int_equal(path_replace_file(file, STR("first"), 0644, &e), 0);
        assert_int_equal(mode_of(file), 0644); /* whatever the umask */
        assert_int_equal(path_replace_file(file, STR("second\0x"), 0600, &e), 0);
        cleanup(buf_done) struct buf content = BUF(0);
        assert_int_equal(path_read_file(file, 100, &content, &e), 0);
        assert_true(str_eq(buf_str(&content), STR("second\0x")));
        assert_int_equal(mode_of(file), 0600);
        /* A link at the target is replaced, not followed. */
        assert_int_equal(symlink(file, link), 0);
        assert_int_equal(path_replace_file(link, STR("third"), 0600, &e), 0);
        buf_done(&content);
        assert_int_equal(path_read_file(file, 100, &content, &e), 0);
        assert_int_equal(content.n, 8);
        struct stat st;
        assert_true(lstat(link, &st) == 0 && S_ISREG(st.st_mode));
        /* After a failure nothing stays. */
        int before = count_entries();
        assert_int_equal(mkdir(dir, 0700), 0);
        assert_int_equal(path_replace_file(dir, STR("x"), 0600, &e), -EISDIR);
        assert_int_equal(path_replace_file(gone, STR("x"), 0600, &e), -ENOENT);
        assert_int_equal(count_entries(), before + 1);
}

static void reads_regular_files_only(void **state) {
        (void)state;
        struct err e = { 0 };
        cleanup(free_ptr) char *file = below("ten"), *pipe = below("readfifo");
        put("ten", "0123456789");
        static const struct {
                size_t max;
                int result;
        } rows[] = { { 9, -EMSGSIZE }, { 10, 0 }, { 11, 0 }, { 0, -EMSGSIZE } };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                cleanup(buf_done) struct buf content = BUF(7);
                assert_int_equal(path_read_file(file, rows[i].max, &content, &e), rows[i].result);
                assert_int_equal(content.n, rows[i].result ? 0 : 10);
                assert_int_equal(content.max, rows[i].result ? 7 : rows[i].max);
        }
        cleanup(buf_done) struct buf content = BUF(0);
        assert_int_equal(path_read_file(top, 10, &content, &e), -EINVAL);
        assert_int_equal(path_read_file("/dev/zero", 10, &content, &e), -EINVAL);
        assert_int_equal(mkfifo(pipe, 0600), 0);
        assert_int_equal(path_read_file(pipe, 10, &content, &e), -EINVAL); /* and does not wait for a writer */
        assert_int_equal(path_read_file("/nonexistent", 10, &content, &e), -ENOENT);
        assert_non_null(strstr(err_text(&e), "/nonexistent"));
}

static int use_everything(void *unused) {
        (void)unused;
        cleanup(free_ptr) char *dir = NULL, *file = NULL;
        cleanup(buf_done) struct buf content = BUF(0);
        dir = path_join(top, "failing/dir");
        file = dir ? path_join(dir, "file") : NULL;
        if (!file)
                return -ENOMEM;
        int r = path_make_private_dir(dir, NULL);
        r = r < 0 ? r : path_replace_file(file, STR("content"), 0600, NULL);
        r = r < 0 ? r : path_read_file(file, 100, &content, NULL);
        cleanup(free_ptr) char *normal = NULL, *expanded = NULL;
        r = r < 0 ? r : path_normalise(STR("a/b"), "/c", &normal);
        r = r < 0 ? r : path_expand_home(STR("~/x"), "/home", &expanded);
        return r;
}

static void every_allocation_may_fail(void **state) {
        (void)state;
        assert_true(alloc_fail_each(use_everything, NULL) >= 7);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(normalises),
                cmocka_unit_test(expands_home),
                cmocka_unit_test(compares_and_counts),
                cmocka_unit_test(finds_home),
                cmocka_unit_test(opens_inside_only),
                cmocka_unit_test(names_too_long_are_refused),
                cmocka_unit_test(makes_private_directories),
                cmocka_unit_test(makes_private_files),
                cmocka_unit_test(refuses_directories_that_are_not_ours),
                cmocka_unit_test(appends_only_to_own_files),
                cmocka_unit_test(replaces_files_whole),
                cmocka_unit_test(reads_regular_files_only),
                cmocka_unit_test(every_allocation_may_fail),
        };
        return cmocka_run_group_tests(tests, make_top, remove_top);
}
