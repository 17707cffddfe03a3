/* SPDX-License-Identifier: Apache-2.0 */
/* The background gateway: who is it, what does it get of the environment, which settings does it take. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/processes/process.h"
#include "egress/egress_discover.h"
#include "egress/egress_pid.h"
#include "egress/egress_state.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int make_directory(void **state) {
        (void)state;
        snprintf(directory, sizeof directory, "/tmp/bailey-test-egress-XXXXXX");
        return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
        (void)state;
        return tree_remove(AT_FDCWD, directory);
}

/* A process whose command line has the nonce: `sleep` with a strange second argument is not portable, a shell is. */
static pid_t start_bearer(const char *nonce) {
        pid_t pid = fork();
        if (pid == 0) {
                execl("/bin/sh", "sh", "-c", "read x", nonce, (char *)NULL);
                _exit(127);
        }
        for (int i = 0; i < 5000; i++) { /* until it has executed */
                char path[48], text[256] = "";
                snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
                if (fd >= 0)
                        close(fd);
                if (n > 0 && memmem(text, (size_t)n, nonce, strlen(nonce)))
                        return pid;
                usleep(2000);
        }
        fail_msg("the process did not start");
        return -1;
}

static void write_pid(pid_t pid, uint64_t started, const char *boot, const char *nonce) {
        cleanup(free_ptr) char *text =
            str_format("%d %llu %s %s\n", (int)pid, (unsigned long long)started, boot, nonce);
        assert_int_equal(egress_write(directory, EGRESS_PID, str_of(text), NULL), 0);
}

static uint64_t started_of(pid_t pid) {
        char path[48], text[1024];
        uint64_t found = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof text);
        close(fd);
        assert_true(n > 0 && process_parse_start_time(str_n(text, (size_t)n), &found));
        return found;
}

/* All four must be right: a process that has the number by chance is nobody we know. */
static void test_find_suppressed_on_pid_recycle(void **state) {
        (void)state;
        static const char nonce[] = "abcdefgh12345678";
        int in[2];
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        int saved = fcntl(0, F_DUPFD_CLOEXEC, 10);
        dup2(in[0], 0);
        pid_t pid = start_bearer(nonce);
        dup2(saved, 0);
        close(saved);
        struct egress_identity self, found;
        cleanup(close_fd) int pidfd = -1;
        assert_int_equal(egress_identity_self(nonce, &self, NULL), 0);
        uint64_t started = started_of(pid);

        write_pid(pid, started, self.boot, nonce);
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), 0);
        assert_int_equal(found.pid, pid);
        const struct egress_identity second = self;
        assert_int_equal(egress_pid_write(directory, &second, NULL), -EEXIST); /* one lives */

        write_pid(pid, started + 1, self.boot, nonce);
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), -ENOENT);
        write_pid(pid, started, self.boot, "another-nonce");
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), -ENOENT);
        write_pid(pid, started, "00000000-0000-0000-0000-000000000000", nonce);
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), -ENOENT);
        write_pid(1, started, self.boot, nonce);
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), -ENOENT);

        write_pid(pid, started, self.boot, nonce);
        close(in[1]); /* it ends, and is a zombie with the same number */
        close(in[0]);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(egress_pid_find(directory, false, &found, &pidfd, NULL), -ENOENT);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(egress_pid_find(directory, true, &found, &pidfd, NULL), -ENOENT);
        struct buf left = BUF(0);
        assert_int_equal(egress_read(directory, EGRESS_PID, &left, NULL), -ENOENT); /* tidied */
}

static void test_persisted_nonce_roundtrip(void **state) {
        (void)state;
        struct egress_identity self;
        cleanup(buf_done) struct buf text = BUF(0);
        assert_int_equal(egress_identity_self("roundtrip-nonce", &self, NULL), 0);
        assert_int_equal(egress_pid_write(directory, &self, NULL), 0);
        assert_int_equal(egress_read(directory, EGRESS_PID, &text, NULL), 0);
        assert_non_null(strstr(buf_text(&text), " roundtrip-nonce\n"));
        cleanup(free_ptr) char *path = str_format("%s/%s", directory, EGRESS_PID);
        struct stat st;
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        egress_pid_remove(directory, &self);
        assert_int_equal(lstat(path, &st), -1);
        assert_int_equal(egress_identity_self("short", &self, NULL), -EINVAL);
        assert_int_equal(egress_identity_self("with a space", &self, NULL), -EINVAL);
}

static void test_pid_file_is_not_written_through_a_link(void **state) {
        (void)state;
        struct egress_identity self;
        cleanup(free_ptr) char *path = str_format("%s/%s", directory, EGRESS_PID),
                               *target = str_format("%s/target", directory);
        struct stat st;
        assert_int_equal(egress_identity_self("link-nonce-1", &self, NULL), 0);
        assert_int_equal(symlink(target, path), 0);
        assert_int_equal(egress_pid_write(directory, &self, NULL), -EPERM);
        assert_int_equal(lstat(target, &st), -1);
}

static bool has(const text_list *l, const char *text) {
        for (size_t i = 0; i < l->n; i++)
                if (strcmp(l->p[i], text) == 0)
                        return true;
        return false;
}

static void test_subprocess_env(void **state) {
        (void)state;
        char *const host[] = { (char *)"PATH=/bin",
                               (char *)"HOME=/h",
                               (char *)"LANG=C",
                               (char *)"OPENAI_API_KEY=sk-1",
                               (char *)"GITHUB_TOKEN=g",
                               (char *)"MY_PASSWORD=p",
                               (char *)"LD_PRELOAD=/x.so",
                               (char *)"HTTPS_PROXY=http://a:1",
                               (char *)"http_proxy=http://",
                               (char *)"ALL_PROXY=x",
                               (char *)"BWS_ACCESS_TOKEN=b",
                               NULL };
        cleanup(egress_settings_done) struct egress_settings s;
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(mappings_done) mappings m = { 0 };
        cleanup(text_list_done) text_list env = { 0 };
        egress_settings_init(&s);
        assert_int_equal(egress_credential_make(&s, "openai", "env:OPENAI_API_KEY", NULL), 0);
        assert_int_equal(egress_settings_policy(directory, &s, &p, NULL), 0);
        assert_int_equal(mappings_of(p, &m, NULL), 0);
        assert_int_equal(egress_environment(&m, host, &env, NULL), 0);
        assert_int_equal(env.n, 4);
        assert_true(has(&env, "PATH=/bin") && has(&env, "HOME=/h") && has(&env, "LANG=C"));
        assert_true(has(&env, "OPENAI_API_KEY=sk-1"));
}

/* null is the built-in list; only an explicit one changes it, an empty one too. */
static void test_default_deny_cidrs_present_when_unspecified(void **state) {
        (void)state;
        cleanup(egress_settings_done) struct egress_settings s;
        egress_settings_init(&s);
        static const struct {
                const char *change;
                bool set;
                size_t n;
        } steps[] = { { "port=1", false, 0 },
                      { "deny_cidrs=10.0.0.0/8,fd00::/8", true, 2 },
                      { "deny_cidrs=null", false, 0 },
                      { "deny_cidrs=", true, 0 } };
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
                cleanup(policy_freep) struct policy *p = NULL;
                assert_int_equal(egress_settings_change(&s, str_of(steps[i].change), NULL), 0);
                assert_int_equal(egress_settings_save(directory, &s, NULL), 0);
                assert_int_equal(egress_settings_policy(directory, &s, &p, NULL), 0);
                assert_int_equal(p->network.deny_cidrs_set, steps[i].set);
                assert_int_equal(p->network.deny_cidrs.n, steps[i].n);
                cleanup(egress_settings_done) struct egress_settings back = { 0 };
                assert_int_equal(egress_settings_load(directory, &back, NULL), 0);
                assert_int_equal(back.deny_cidrs_set, steps[i].set);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_find_suppressed_on_pid_recycle, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_persisted_nonce_roundtrip, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_pid_file_is_not_written_through_a_link, make_directory,
                                                remove_directory),
                cmocka_unit_test_setup_teardown(test_subprocess_env, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_default_deny_cidrs_present_when_unspecified, make_directory,
                                                remove_directory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
