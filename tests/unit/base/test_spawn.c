/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/spawn.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const no_environment[] = { NULL };

struct outcome {
        struct buf text;
        int status;
};

/* What `sh -c script` prints, started as `given` says. */
static struct outcome run_shell(const char *script, struct spawn given) {
        char *const argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
        struct outcome outcome = { .text = BUF(65536) };
        struct err err = { 0 };
        int ends[2];
        pid_t pid;

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        given.program = "/bin/sh";
        given.argv = argv;
        given.environment = given.environment ? given.environment : no_environment;
        given.output = ends[1];
        assert_int_equal(spawn_start(&given, &pid, &err), 0);
        close(ends[1]);
        assert_int_equal(fd_read_all(ends[0], &outcome.text), 0);
        close(ends[0]);
        outcome.status = spawn_wait(pid);
        return outcome;
}

static void assert_prints(const char *script, struct spawn given, const char *expected) {
        struct outcome outcome = run_shell(script, given);

        assert_int_equal(buf_append(&outcome.text, str_n("", 1)), 0);
        assert_string_equal(outcome.text.p, expected);
        assert_true(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0);
        buf_done(&outcome.text);
}

static const struct spawn plain = { .input = SPAWN_NULL, .errors = SPAWN_KEEP };

static void only_what_is_listed_is_open(void **state) {
        (void)state;
        int leak = open("/dev/zero", O_RDONLY); /* not close-on-exec, as another library may have it */
        int given = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
        struct spawn spawn = plain;

        spawn.fds = &given;
        spawn.n_fds = 1;
        assert_true(leak >= 0 && given >= 0);
        assert_prints("for f in /proc/$$/fd/*; do f=${f##*/}; [ -e /proc/$$/fd/$f ] && printf '%s ' $f; done; true",
                      spawn, "0 1 2 3 ");
        assert_prints("[ /dev/fd/3 -ef /etc/passwd ] && [ /dev/fd/0 -ef /dev/null ] && echo yes", spawn, "yes\n");
        close(leak);
        close(given);
}

/* Descriptors whose numbers are each other's targets must not overwrite each other. */
static void descriptors_may_cross(void **state) {
        (void)state;
        int first = open("/dev/zero", O_RDONLY | O_CLOEXEC), second = open("/dev/full", O_RDONLY | O_CLOEXEC);
        int fds[] = { dup2(second, 4) >= 0 ? 4 : -1, dup2(first, 3) >= 0 ? 3 : -1 };
        struct spawn spawn = plain;

        spawn.fds = fds;
        spawn.n_fds = 2;
        assert_prints("[ /dev/fd/3 -ef /dev/full ] && [ /dev/fd/4 -ef /dev/zero ] && echo crossed", spawn, "crossed\n");
        close(3);
        close(4);
        close(first);
        close(second);
}

static void signals_are_as_for_a_shell_s_child(void **state) {
        (void)state;
        sigset_t some, before;

        sigemptyset(&some);
        sigaddset(&some, SIGTERM);
        assert_int_equal(sigprocmask(SIG_BLOCK, &some, &before), 0);
        void (*old)(int) = signal(SIGPIPE, SIG_IGN);

        /* The last seven digits: the C library lets nobody touch 32 and 33, and whoever started us may ignore them. */
        assert_prints("grep -E '^Sig(Blk|Ign)' /proc/$$/status | sed 's/\\t........./ /'", plain,
                      "SigBlk: 0000000\nSigIgn: 0000000\n");

        signal(SIGPIPE, old);
        assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void flags_hold(void **state) {
        (void)state;
        struct spawn spawn = plain;

        spawn.flags = SPAWN_AT_ROOT | SPAWN_PRIVATE;
        assert_prints("pwd; umask", spawn, "/\n0077\n");

        spawn.flags = SPAWN_OWN_SESSION;
        assert_prints("read -r line < /proc/$$/stat; set -- ${line##*) }; [ $4 = $$ ] && echo leads", spawn, "leads\n");

        char *const environment[] = { (char *)"ONLY=this", NULL };
        spawn.flags = 0;
        spawn.environment = environment;
        assert_prints("echo $ONLY$HOME", spawn, "this\n");
}

static void what_cannot_be_executed_is_an_error(void **state) {
        (void)state;
        char *const argv[] = { (char *)"x", NULL };
        struct err err = { 0 };
        struct spawn spawn = { .program = "/nonexistent/program",
                               .argv = argv,
                               .environment = no_environment,
                               .input = SPAWN_NULL,
                               .output = SPAWN_NULL,
                               .errors = SPAWN_KEEP };
        pid_t pid = 0;

        assert_int_equal(spawn_start(&spawn, &pid, &err), -ENOENT);
        assert_non_null(strstr(err_text(&err), "/nonexistent/program"));
        spawn.program = "/etc/passwd";
        assert_int_equal(spawn_start(&spawn, &pid, &err), -EACCES);
        assert_int_equal(pid, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
}

static void a_child_dies_with_its_parent(void **state) {
        (void)state;
        char *const argv[] = { (char *)"sleep", (char *)"60", NULL };
        const struct spawn spawn = { .program = "/bin/sleep",
                                     .argv = argv,
                                     .environment = no_environment,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_NULL,
                                     .flags = SPAWN_WITH_PARENT };
        int ends[2];
        char byte;
        assert_int_equal(pipe(ends), 0); /* the sleeper does not get it: closed by the spawn */

        pid_t parent = fork();
        if (parent == 0) {
                pid_t pid = 0;
                _exit(spawn_start(&spawn, &pid, NULL) == 0 && write(ends[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
        }
        pid_t sleeper;
        assert_int_equal(fd_read_exact(ends[0], &sleeper, sizeof sleeper), 0);
        assert_int_equal(spawn_wait(parent), 0);
        for (int i = 0; i < 200 && kill(sleeper, 0) == 0; i++) {
                char path[64], line[256] = "";
                snprintf(path, sizeof path, "/proc/%d/stat", (int)sleeper);
                cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0 || read(fd, line, sizeof line - 1) <= 0 || strstr(line, ") Z "))
                        break; /* whoever is pid 1 here may take its time */
                assert_true(i < 199);
                usleep(10000);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 0);
        close(ends[0]);
}

static void programs_are_found_by_absolute_directories_only(void **state) {
        (void)state;
        char found[PATH_MAX], directory[] = "/tmp/spawn-XXXXXX";
        char *const relative[] = { (char *)"PATH=.:bin::/bin", NULL };
        char *const nothing[] = { (char *)"PATH=", NULL };

        assert_non_null(mkdtemp(directory));
        assert_int_equal(chdir(directory), 0);
        assert_int_equal(symlink("/bin/true", "sh"), 0);
        assert_true(spawn_find("sh", relative, found));
        assert_string_equal(found, "/bin/sh");
        assert_false(spawn_find("sh", nothing, found));
        assert_true(spawn_find("./sh", nothing, found));
        assert_int_equal(unlink("sh"), 0);
        assert_int_equal(chdir("/"), 0);
        assert_int_equal(rmdir(directory), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_what_is_listed_is_open),
                cmocka_unit_test(descriptors_may_cross),
                cmocka_unit_test(signals_are_as_for_a_shell_s_child),
                cmocka_unit_test(flags_hold),
                cmocka_unit_test(what_cannot_be_executed_is_an_error),
                cmocka_unit_test(a_child_dies_with_its_parent),
                cmocka_unit_test(programs_are_found_by_absolute_directories_only),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
