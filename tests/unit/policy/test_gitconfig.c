/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's configuration format. The judge is git itself: whatever it lists of a file must be listed here, in the same
 * order, and what it does not take must not be taken here. By samples, and by a thousand texts that are made of the
 * pieces that matter. Without git only the tables are checked.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/git/gitconfig.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_MAX = 1 << 20 };

static char directory[] = "/tmp/bailey-gitconfig-XXXXXX";

/* As `git config --list -z` prints it. */
static int list_setting(const struct gitconfig_setting *setting, void *context) {
        struct buf *out = context;
        int r = 0;

        if (setting->section.n || setting->subsection.p)
                r = buf_printf(out, "%.*s.", STR_FMT(setting->section));
        if (r == 0 && setting->subsection.p)
                r = buf_printf(out, "%.*s.", STR_FMT(setting->subsection));
        if (r == 0)
                r = buf_printf(out, "%.*s", STR_FMT(setting->key));
        if (r == 0 && setting->value.p)
                r = buf_printf(out, "\n%.*s", STR_FMT(setting->value));
        return r < 0 ? r : buf_add_char(out, '\0');
}

/* Its output, and whether it was content; -1 where there is no git. */
static int run_git(struct buf *out, const char *file) {
        const char *const words[] = { "git", "config", "--file", file, "--no-includes", "--list", "-z", NULL };
        posix_spawn_file_actions_t actions;
        int ends[2], status = 0;
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        posix_spawn_file_actions_addclose(&actions, ends[1]);
        int r = posix_spawnp(&pid, "git", &actions, NULL, (char *const *)words, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        if (r == 0) {
                assert_int_equal(fd_read_all(ends[0], out), 0);
                assert_int_equal(waitpid(pid, &status, 0), pid);
        }
        close(ends[0]);
        if (r != 0)
                return -1;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool has_git(void) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        return run_git(&out, "/dev/null") >= 0;
}

/* True when git takes it. */
static bool ask_git(struct str text, struct buf *out) {
        char path[64];
        snprintf(path, sizeof path, "%s/config", directory);

        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, text.p, text.n), 0);
        return run_git(out, path) == 1;
}

static void agrees_with_git(struct str text) {
        cleanup(buf_done) struct buf ours = BUF(OUTPUT_MAX), theirs = BUF(OUTPUT_MAX);
        struct err err = { 0 };
        bool taken = ask_git(text, &theirs);
        int r = gitconfig_read(text, list_setting, &ours, &err);

        if ((r == 0) != taken)
                fail_msg("git %s, we %s (%s):\n%.*s", taken ? "takes" : "refuses", r == 0 ? "take" : "refuse",
                         err_text(&err), STR_FMT(text));
        if (taken && !str_eq(buf_str(&ours), buf_str(&theirs)))
                fail_msg("git lists\n%.*s\nwe list\n%.*s\nof\n%.*s", STR_FMT(buf_str(&theirs)), STR_FMT(buf_str(&ours)),
                         STR_FMT(text));
}

static void samples(void **state) {
        static const char *const texts[] = {
                "",
                "\n",
                "[core]",
                "[core]\n\tbare",
                "[core]\n\tbare =\n",
                "[core]\n\thooksPath = tools/hooks\n",
                "[core] hooksPath = tools/hooks\n",
                "[core]\n\thooksPath = \"tools/hooks\"\n",
                "[core]\n\thooksPath = tools/hooks ; ours\n",
                "[core]\n\thooksPath = tools/hooks # ours\n",
                "[core]\n\thooksPath = \"tools/ho\"oks\n",
                "[core]\n\thooksPath = tools/\\\nhooks\n",
                "[core]\n\thooksPath = \"a # b\"\n",
                "[core]\n\thooksPath = a\\\"b\\\\c\\n\\td\n",
                "[core]\n\thooksPath = a\n[core]\n\thooksPath = b\n",
                "[CORE]\nHOOKSPATH=a\n",
                "[remote \"a.b\\\"c\"]\n\turl = x\n",
                "[remote \"Ab\"] url = x\n[remote.Old] url = y\n",
                "[include]\npath=../x\n[includeIf \"gitdir:~/\"]\npath = y\n",
                "\xef\xbb\xbf[core]\r\n\tbare = false\r\n",
                "; note\n# note\n[a]b=c;d\n",
                "[a]\nb = \"unfinished\n",
                "[a\nb=c\n",
                "[a \"b\nc=d\n",
                "[a \"b\" ]\nc=d\n",
                "[a]\nb-c = d\nb_c = d\n",
                "[a]\n1b = d\n",
                "[a]\nb = \\x\n",
                "[a]\nb = c \\\n  d\n",
                "[a]\nb = c   \n",
                "[a]\nb = \"  c  \"  \n",
                "[a] b = c [d] e = f\n",
                "[a]b=c\n[]d=e\n",
                "[a]b=c\n[]\n",
                "key = value\n",
                "[.x]\nd=e\n",
                "[ \"x\"]\nd=e\n",
                "[a.b \"C\"]\nd=e\n",
                "[a]\nb = c\\",
                "[a]\nb = c\\\n",
                "[a]\nb = \"c\\\nd\"\n",
        };

        (void)state;
        if (!has_git())
                skip();
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                agrees_with_git(str_of(texts[i]));
}

/* Deterministic: a failure comes again. */
static uint32_t next_random(uint64_t *seed) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(*seed >> 33);
}

static void made_of_pieces(void **state) {
        static const char *const pieces[] = { "[core]", "[a \"B\"]", "[a.b]", "[",  "]",    "\"",
                                              "\\",     "\n",        "\n",    "\n", " ",    "=",
                                              "key",    "K-1",       "value", "#",  ";",    "\\\n",
                                              "\\\"",   "\\n",       "x y",   "'",  "\r\n", "[core]\n\thooksPath = ",
                                              "~/x" };
        uint64_t seed = 20;

        (void)state;
        if (!has_git())
                skip();
        for (int round = 0; round < 1000; round++) {
                cleanup(buf_done) struct buf text = BUF(4096);
                unsigned n = next_random(&seed) % 14;

                assert_int_equal(buf_add(&text, next_random(&seed) % 4 ? "[s]\n" : ""), 0);
                for (unsigned i = 0; i < n; i++)
                        assert_int_equal(buf_add(&text, pieces[next_random(&seed) % (sizeof pieces / sizeof *pieces)]),
                                         0);
                agrees_with_git(buf_str(&text));
        }
}

static int judge_first(const struct gitconfig_setting *setting, void *context) {
        *(enum gitconfig_kind *)context = gitconfig_judge(setting);
        return 1;
}

static void what_is_run(void **state) {
        static const struct {
                const char *text;
                enum gitconfig_kind kind;
        } rows[] = {
                { "[core]hooksPath=x", GITCONFIG_DIRECTORY },
                { "[core]fsmonitor=./x", GITCONFIG_COMMAND },
                { "[filter \"lfs\"]clean=x", GITCONFIG_COMMAND },
                { "[alias]st=status", GITCONFIG_OTHER },
                { "[alias]x=!./y", GITCONFIG_COMMAND },
                { "[include]path=x", GITCONFIG_INCLUDE },
                { "[includeIf \"onbranch:x\"]path=y", GITCONFIG_INCLUDE },
                { "[credential \"https://x\"]helper=!y", GITCONFIG_COMMAND },
                { "[remote \"o\"]url=https://x/y", GITCONFIG_OTHER },
                { "[remote \"o\"]url=ext::./x", GITCONFIG_COMMAND },
                { "[user]name=x", GITCONFIG_OTHER },
                { "[core]bare", GITCONFIG_OTHER },
                { "[pager]log=./x", GITCONFIG_COMMAND },
                { "[diff \"png\"]textConv=x", GITCONFIG_COMMAND },
                { "[lfs \"customtransfer.x\"]args=tools/x", GITCONFIG_COMMAND },
                { "[svn]authorsProg=tools/x", GITCONFIG_COMMAND },
        };

        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                enum gitconfig_kind kind = GITCONFIG_OTHER;
                assert_int_equal(gitconfig_read(str_of(rows[i].text), judge_first, &kind, NULL), 1);
                if (kind != rows[i].kind)
                        fail_msg("%s: %d", rows[i].text, kind);
        }
}

static void words_of_a_command(void **state) {
        struct str command = STR("!f() { ./tools/a --x='b c'|sh $(d/e) \"g h\"; }"), word;
        const char *const wanted[] = { "f", "./tools/a", "--x", "b", "c", "sh", "d/e", "g", "h" };
        size_t n = 0;

        (void)state;
        while (gitconfig_word(&command, &word)) {
                assert_true(n < sizeof wanted / sizeof *wanted);
                assert_true(str_is(word, wanted[n++]));
        }
        assert_int_equal(n, sizeof wanted / sizeof *wanted);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(samples),
                cmocka_unit_test(made_of_pieces),
                cmocka_unit_test(what_is_run),
                cmocka_unit_test(words_of_a_command),
        };
        if (!mkdtemp(directory))
                return 1;
        int failed = cmocka_run_group_tests(tests, NULL, NULL);
        char path[64];
        snprintf(path, sizeof path, "%s/config", directory);
        unlink(path);
        rmdir(directory);
        return failed;
}
