/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker against a real filter: a child process under the filter does what programs do, a second process serves it.
 * Each case runs in the child and returns 0 or the line that failed, so that a crash of either is a failure too.
 */
#include "sandbox/linux/broker/broker.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64];
static pid_t broker_pid;

/* What the policy says: the workspace is the tree of this test. */
static struct path_rules *rules(void) {
        static struct origin_text read[] = { { (char *)"**/.env", (char *)"test" },
                                             { (char *)"**/secrets/*.key", (char *)"test" } };
        static struct origin_text write[] = { { (char *)"**/Makefile", (char *)"test" },
                                              { (char *)"*.lock", (char *)"test" } };
        struct policy p = { .mode = MODE_WORKSPACE_WRITE, .workspace = root, .home = (char *)"/nonexistent" };
        p.filesystem.deny_read.p = read;
        p.filesystem.deny_read.n = 2;
        p.filesystem.deny_write.p = write;
        p.filesystem.deny_write.n = 2;
        struct path_rules *r = NULL;
        struct err e = { 0 };
        if (path_rules_compile(&p, &r, &e) < 0)
                fail_msg("%s", err_text(&e));
        return r;
}

/* In the child: the broker must refuse (or permit) exactly as said; the number of the line says which did not. */
#define EXPECT(condition)                                                                                              \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        return __LINE__;                                                                               \
        } while (0)
#define REFUSED(call, error) ((call) < 0 && errno == (error))

static int opens_ordinary_files(void) {
        char text[16] = { 0 };
        int fd = open("plain", O_RDONLY);
        EXPECT(fd >= 0 && read(fd, text, sizeof text) == 6 && strcmp(text, "plain\n") == 0);
        EXPECT(fcntl(fd, F_GETFD) == 0);
        close(fd);
        fd = open("plain", O_RDONLY | O_CLOEXEC);
        EXPECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
        close(fd);
        umask(027);
        fd = open("made", O_CREAT | O_EXCL | O_WRONLY, 0666);
        struct stat st;
        EXPECT(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0640);
        EXPECT(write(fd, "x", 1) == 1);
        close(fd);
        EXPECT(REFUSED(open("made", O_CREAT | O_EXCL | O_WRONLY, 0666), EEXIST));
        EXPECT(REFUSED(open("missing", O_RDONLY), ENOENT));
        EXPECT(REFUSED(open("plain/x", O_RDONLY), ENOTDIR));
        EXPECT(REFUSED(open("plain/", O_RDONLY), ENOTDIR));
        EXPECT(REFUSED(open("", O_RDONLY), ENOENT));
        EXPECT(REFUSED(open((char *)8, O_RDONLY), EFAULT));
        EXPECT(REFUSED(open("dir", O_WRONLY), EISDIR));
        int dir = open("dir", O_RDONLY | O_DIRECTORY);
        EXPECT(dir >= 0);
        fd = openat(dir, "inner", O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
        EXPECT(REFUSED(openat(999, "inner", O_RDONLY), EBADF));
        int place = open("dir", O_PATH | O_CLOEXEC);
        EXPECT(place >= 0 && fcntl(place, F_GETFD) == FD_CLOEXEC);
        fd = openat(place, "inner", O_PATH);
        EXPECT(fd >= 0 && close(fd) == 0 && close(place) == 0);
        EXPECT(REFUSED(open("plain", O_PATH | O_DIRECTORY), ENOTDIR));
        EXPECT(REFUSED(open("link", O_PATH | O_NOFOLLOW), EOPNOTSUPP));
        EXPECT(REFUSED(openat(dir, "../.env", O_RDONLY), EACCES));
        close(dir);
        return 0;
}

static int refuses_by_name_however_spelled(void) {
        static const char *const spellings[] = { ".env", "./.env",       "dir/../.env", "dir/.env",     ".//.env",
                                                 "link", "dirlink/.env", "chain",       "secrets/a.key" };
        char absolute[PATH_MAX];
        for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
                EXPECT(REFUSED(open(spellings[i], O_RDONLY), EACCES));
                EXPECT(REFUSED(open(spellings[i], O_PATH), EACCES));
                EXPECT(REFUSED(truncate(spellings[i], 0), EACCES));
                snprintf(absolute, sizeof absolute, "/proc/self/cwd/%s", spellings[i]);
                EXPECT(REFUSED(open(absolute, O_RDONLY), EACCES));
                snprintf(absolute, sizeof absolute, "/proc/self/root%s/%s", root, spellings[i]);
                EXPECT(REFUSED(open(absolute, O_RDONLY), EACCES));
        }
        EXPECT(REFUSED(open(".env", O_RDONLY | O_NOFOLLOW), EACCES));
        EXPECT(REFUSED(open("fresh/.env", O_CREAT | O_WRONLY, 0600), ENOENT));
        EXPECT(mkdir("fresh", 0755) == 0);
        EXPECT(REFUSED(open("fresh/.env", O_CREAT | O_WRONLY, 0600), EACCES));
        EXPECT(symlink(".env", "dangling-target") == 0);
        EXPECT(REFUSED(open("fresh/../dangling-target", O_RDONLY), EACCES));
        EXPECT(symlink("fresh/.env", "to-nowhere") == 0);
        EXPECT(REFUSED(open("to-nowhere", O_CREAT | O_WRONLY, 0600), EACCES));
        return 0;
}

static int refuses_to_move_out_of_reach(void) {
        EXPECT(REFUSED(rename(".env", "visible"), EACCES));
        EXPECT(REFUSED(link(".env", "visible"), EACCES));
        EXPECT(REFUSED(rename("plain", ".env"), EACCES));
        EXPECT(REFUSED(link("plain", "fresh.env/../.env"), ENOENT) || errno == EACCES);
        EXPECT(REFUSED(syscall(SYS_renameat2, AT_FDCWD, "plain", AT_FDCWD, ".env", RENAME_EXCHANGE), EACCES));
        EXPECT(REFUSED(syscall(SYS_renameat2, AT_FDCWD, ".env", AT_FDCWD, "plain", RENAME_EXCHANGE), EACCES));
        EXPECT(REFUSED(rename("secrets", "opened"), EACCES)); /* its keys would no longer match */
        EXPECT(REFUSED(unlink(".env"), EACCES));
        EXPECT(REFUSED(chmod(".env", 0777), EACCES));
        EXPECT(rename("dir", "moved") == 0); /* names below keep matching wherever they are */
        EXPECT(REFUSED(open("moved/.env", O_RDONLY), EACCES));
        EXPECT(rename("moved", "dir") == 0);
        return 0;
}

static int write_rules_leave_reading_alone(void) {
        int fd = open("Makefile", O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
        EXPECT(REFUSED(open("Makefile", O_WRONLY), EACCES));
        EXPECT(REFUSED(open("Makefile", O_RDONLY | O_TRUNC), EACCES));
        EXPECT(REFUSED(open("Makefile", O_RDWR), EACCES));
        EXPECT(REFUSED(unlink("Makefile"), EACCES));
        EXPECT(REFUSED(rename("plain", "Makefile"), EACCES));
        EXPECT(REFUSED(link("Makefile", "same-file"), EACCES)); /* a second name could be written through */
        EXPECT(REFUSED(symlink("plain", "dir/Makefile"), EACCES));
        EXPECT(REFUSED(mkdir("dir/Makefile", 0755), EACCES));
        EXPECT(REFUSED(mkfifo("dir/Makefile", 0600), EACCES));
        EXPECT(
            REFUSED(open("new.lock", O_CREAT | O_WRONLY, 0600), EACCES)); /* not there at launch, denied all the same */
        EXPECT(REFUSED(open("new.lock", O_RDONLY), ENOENT));
        return 0;
}

static int names_work_as_ever(void) {
        umask(022);
        struct stat st;
        EXPECT(mkdir("d", 0777) == 0 && stat("d", &st) == 0 && (st.st_mode & 0777) == 0755);
        EXPECT(REFUSED(mkdir("d", 0777), EEXIST));
        EXPECT(mkdir("d/e/", 0700) == 0);
        EXPECT(link("plain", "d/hard") == 0 && stat("d/hard", &st) == 0 && st.st_nlink == 2);
        EXPECT(symlink("../plain", "d/soft") == 0);
        int fd = open("d/soft", O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
        EXPECT(REFUSED(open("d/soft", O_RDONLY | O_NOFOLLOW), ELOOP));
        EXPECT(rename("d/hard", "d/renamed") == 0 && access("d/hard", F_OK) < 0 && access("d/renamed", F_OK) == 0);
        EXPECT(REFUSED(rename("missing", "x"), ENOENT));
        EXPECT(REFUSED(rename("d", "d/e/inside"), EINVAL));
        EXPECT(REFUSED(rmdir("d"), ENOTEMPTY));
        EXPECT(REFUSED(unlink("d"), EISDIR) || errno == EPERM);
        EXPECT(truncate("d/renamed", 2) == 0 && stat("plain", &st) == 0 && st.st_size == 2);
        EXPECT(truncate("plain", 6) == 0);
        EXPECT(chmod("d/renamed", 0600) == 0 && stat("plain", &st) == 0 && (st.st_mode & 0777) == 0600);
        EXPECT(unlink("d/renamed") == 0 && unlink("d/soft") == 0 && rmdir("d/e") == 0 && rmdir("d/") == 0);
        EXPECT(REFUSED(rmdir("."), EINVAL));
        fd = open(".", O_TMPFILE | O_RDWR, 0600);
        EXPECT(fd >= 0 || errno == EOPNOTSUPP);
        close(fd);
        fd = (int)syscall(SYS_openat2, AT_FDCWD, "plain", &(struct { uint64_t a, b, c; }){ 0 }, 24);
        EXPECT(fd >= 0);
        close(fd);
        fd = (int)syscall(SYS_openat2, AT_FDCWD, "plain", &(struct { uint64_t a, b, c; }){ 0, 0, 8 }, 24);
        EXPECT(REFUSED(fd, ENOSYS)); /* flags about the way are not kept: programs fall back to openat */
        return 0;
}

static int proc_is_seen_as_oneself(void) {
        char target[64], expected[64], text[4096];
        int fd = open("/proc/self/stat", O_RDONLY);
        ssize_t n = read(fd, text, sizeof text - 1);
        EXPECT(fd >= 0 && n > 0);
        text[n] = '\0';
        EXPECT(strtol(text, NULL, 10) == getpid());
        close(fd);
        fd = open("plain", O_RDONLY);
        snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
        int again = open(target, O_RDONLY);
        EXPECT(again >= 0 && read(again, text, 5) == 5 && memcmp(text, "plain", 5) == 0);
        close(again);
        snprintf(target, sizeof target, "/dev/fd/%d", fd);
        again = open(target, O_RDONLY);
        EXPECT(again >= 0);
        close(again);
        snprintf(target, sizeof target, "/proc/thread-self/fd/%d", fd);
        again = open(target, O_RDONLY);
        EXPECT(again >= 0);
        close(again);
        close(fd);
        int pipes[2];
        EXPECT(pipe(pipes) == 0);
        snprintf(target, sizeof target, "/proc/self/fd/%d", pipes[1]);
        fd = open(target, O_WRONLY);
        EXPECT(fd >= 0 && write(fd, "p", 1) == 1 && read(pipes[0], text, 1) == 1);
        close(fd);
        fd = open("/proc/mounts", O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
        /* Not through others' links, and nothing of the broker itself. */
        snprintf(expected, sizeof expected, "/proc/%d/root/etc/passwd", getppid());
        EXPECT(REFUSED(open(expected, O_RDONLY), EACCES));
        static const char *const own[] = { "mem", "environ", "fd/0", "task", "status" };
        for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
                snprintf(expected, sizeof expected, "/proc/%d/%s", broker_pid, own[i]);
                EXPECT(REFUSED(open(expected, O_RDONLY), EACCES));
        }
        return 0;
}

static void *read_fifo(void *arg) {
        int fd = open("fifo", O_RDONLY);
        char c = 0;
        if (fd >= 0 && read(fd, &c, 1) == 1)
                *(char *)arg = c;
        close(fd);
        return NULL;
}

static int a_waiting_fifo_holds_nobody_else(void) {
        char got = 0;
        pthread_t reader;
        EXPECT(mkfifo("fifo", 0600) == 0);
        EXPECT(pthread_create(&reader, NULL, read_fifo, &got) == 0);
        usleep(50000);
        int other = open("plain", O_RDONLY); /* served while the first call still waits */
        EXPECT(other >= 0);
        int fd = open("fifo", O_WRONLY);
        EXPECT(fd >= 0 && write(fd, "f", 1) == 1);
        close(fd);
        close(other);
        pthread_join(reader, NULL);
        EXPECT(got == 'f');
        EXPECT(unlink("fifo") == 0);
        return 0;
}

/* One thread swaps the path in memory between an allowed and a refused one; no refused content may ever come back. */
static char shared_path[16] = "plain";
static atomic_bool stop_swapping;

static void *swap_paths(void *arg) {
        for (unsigned i = 0; !stop_swapping; i++) {
                memcpy(shared_path, "plain", 6);
                __asm__ volatile("" ::: "memory"); /* both are written, every time */
                if (i % 64 == 31)
                        sched_yield(); /* where there is one processor, the others see now this path, now the other */
                memcpy(shared_path, ".env\0", 6);
                __asm__ volatile("" ::: "memory");
                if (i % 64 == 63)
                        sched_yield();
        }
        return arg;
}

static int a_changed_path_wins_nothing(void) {
        pthread_t swapper;
        EXPECT(pthread_create(&swapper, NULL, swap_paths, NULL) == 0);
        int opened = 0, leaked = 0;
        for (int i = 0; i < 3000 || (opened == 0 && i < 300000); i++) {
                char text[8] = { 0 };
                int fd = open(shared_path, O_RDONLY);
                if (fd < 0)
                        continue;
                opened++;
                if (read(fd, text, 6) == 6 && memcmp(text, "plain\n", 6) != 0)
                        leaked++;
                close(fd);
        }
        stop_swapping = true;
        pthread_join(swapper, NULL);
        EXPECT(opened > 0);
        EXPECT(leaked == 0);
        return 0;
}

static _Atomic bool stop_linking;
static void *swap_links(void *arg) {
        while (!stop_linking) {
                if (symlink(".env", "swapped") == 0)
                        rename("swapped", "turn");
                if (symlink("plain", "swapped") == 0)
                        rename("swapped", "turn");
        }
        return arg;
}

static int a_changed_link_wins_nothing(void) {
        pthread_t swapper;
        EXPECT(symlink("plain", "turn") == 0);
        EXPECT(pthread_create(&swapper, NULL, swap_links, NULL) == 0);
        int opened = 0, leaked = 0;
        for (int i = 0; i < 1500 || (opened == 0 && i < 300000); i++) {
                char text[8] = { 0 };
                int fd = open("turn", O_RDONLY);
                if (fd < 0)
                        continue;
                opened++;
                leaked += read(fd, text, 6) == 6 && memcmp(text, "plain\n", 6) != 0;
                close(fd);
        }
        stop_linking = true;
        pthread_join(swapper, NULL);
        EXPECT(opened > 0);
        EXPECT(leaked == 0);
        return 0;
}

/* --- the three processes ---------------------------------------------------------------------------------------------
 */

static void write_text(const char *name, const char *text) {
        int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        close(fd);
}

static int make_tree(void **state) {
        (void)state;
        snprintf(root, sizeof root, "/tmp/bailey-broker-XXXXXX");
        assert_non_null(mkdtemp(root));
        assert_int_equal(chdir(root), 0);
        write_text("plain", "plain\n");
        write_text(".env", "SECRET\n");
        write_text("Makefile", "all:\n");
        assert_int_equal(mkdir("dir", 0755) | mkdir("secrets", 0755), 0);
        write_text("dir/inner", "inner\n");
        write_text("dir/.env", "SECRET\n");
        write_text("secrets/a.key", "SECRET\n");
        assert_int_equal(symlink(".env", "link") | symlink("dir", "dirlink") | symlink("link", "chain"), 0);
        return 0;
}

static int remove_tree(void **state) {
        (void)state;
        assert_int_equal(chdir("/"), 0);
        cleanup(close_fd) int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return tree_remove(tmp, root + strlen("/tmp/"));
}

static void serve_as_broker(int channel) {
        int notify = -1;
        size_t n = 0;
        char byte;
        if (fd_receive(channel, &byte, 1, &notify, 1, &n) <= 0 || n != 1)
                _exit(10);
        close(channel);
        struct broker b = { .notify_fd = notify, .events_fd = -1, .rules = rules() };
        _exit(broker_serve(&b, NULL) == 0 ? 0 : 11);
}

static void run_under_filter(int channel, int (*scenario)(void)) {
        struct err e = { 0 };
        pid_t told = 0;
        if (read(channel, &told, sizeof told) != sizeof told || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                _exit(250);
        broker_pid = told;
        int notify = -1;
        struct broker_filter filter = { .files = true, .sockets = true };
        if (broker_filter_load(&filter, &notify, &e) < 0 || fd_send(channel, STR("n"), &notify, 1) < 0)
                _exit(251);
        close(notify);
        int line = scenario();
        if (line)
                dprintf(2, "failed in line %d (errno %s)\n", line, strerror(errno));
        _exit(line != 0);
}

static void check(int (*scenario)(void)) {
        int channel[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
        pid_t command = fork();
        if (command == 0) {
                close(channel[0]);
                run_under_filter(channel[1], scenario);
        }
        pid_t broker = fork();
        if (broker == 0) {
                close(channel[1]);
                pid_t self = getpid();
                if (write(channel[0], &self, sizeof self) != sizeof self)
                        _exit(12);
                serve_as_broker(channel[0]);
        }
        close(channel[0]);
        close(channel[1]);
        int status = 0, broker_status = 0;
        assert_int_equal(waitpid(command, &status, 0), command);
        assert_int_equal(waitpid(broker, &broker_status, 0), broker);
        assert_int_equal(broker_status, 0);
        assert_int_equal(status, 0);
}

#define SCENARIO(function)                                                                                             \
        static void test_##function(void **state) {                                                                    \
                (void)state;                                                                                           \
                check(function);                                                                                       \
        }
SCENARIO(opens_ordinary_files)
SCENARIO(refuses_by_name_however_spelled)
SCENARIO(refuses_to_move_out_of_reach)
SCENARIO(write_rules_leave_reading_alone)
SCENARIO(names_work_as_ever)
SCENARIO(proc_is_seen_as_oneself)
SCENARIO(a_waiting_fifo_holds_nobody_else)
SCENARIO(a_changed_path_wins_nothing)
SCENARIO(a_changed_link_wins_nothing)

static void moves_are_judged_by_what_lies_below(void **state) {
        (void)state;
        const struct path_rule list[] = { { .pattern = "/w/**/secrets/*.key", .decides_read = true } };
        cleanup(path_rules_freep) struct path_rules *r = NULL;
        assert_int_equal(path_rules_restore(list, 1, true, &r, NULL), 0);
        assert_null(broker_denies_move(r, "/w/a", "/w/b"));
        assert_non_null(broker_denies_move(r, "/w/a", "/x/a"));
        assert_non_null(broker_denies_move(r, "/w/a/secrets", "/w/a/s"));
        assert_non_null(broker_denies_move(r, "/w", "/v"));
        assert_null(broker_denies_move(r, "/x/secrets", "/x/s"));
        assert_non_null(broker_denies(r, "/w/secrets/a.key", false));
        assert_non_null(broker_denies(r, "/w/secrets/a.key/below", false));
        assert_null(broker_denies(r, "pipe:[1]", false));
        const struct path_rule bad[] = { { .pattern = "/w/../x" } };
        struct path_rules *none = NULL;
        assert_int_equal(path_rules_restore(bad, 1, true, &none, NULL), -EINVAL);
}

int main(void) {
#define CASE(function) cmocka_unit_test_setup_teardown(test_##function, make_tree, remove_tree)
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(moves_are_judged_by_what_lies_below),
                CASE(opens_ordinary_files),
                CASE(refuses_by_name_however_spelled),
                CASE(refuses_to_move_out_of_reach),
                CASE(write_rules_leave_reading_alone),
                CASE(names_work_as_ever),
                CASE(proc_is_seen_as_oneself),
                CASE(a_waiting_fifo_holds_nobody_else),
                CASE(a_changed_path_wins_nothing),
                CASE(a_changed_link_wins_nothing),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
