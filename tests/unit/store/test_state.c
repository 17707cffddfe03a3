/* SPDX-License-Identifier: Apache-2.0 */
#include "store/state.h"

#include "base/cleanup.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"

static char top[64];
static char *database, *export;

static int set_up(void **state) {
        (void)state;
        snprintf(top, sizeof top, "/tmp/test-state-XXXXXX");
        assert_non_null(mkdtemp(top));
        setenv("XDG_STATE_HOME", top, 1);
        database = str_format("%s/bailey/state.db", top);
        export = str_format("%s/bailey/approved", top);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        free(database);
        free(export);
        return tree_remove(AT_FDCWD, top);
}

static struct state *open_or_fail(void) {
        struct state *s = NULL;
        struct err e = { 0 };
        if (state_open(&s, &e) < 0)
                fail_msg("%s", e.text);
        return s;
}

static void rules_come_back(void **unused) {
        (void)unused;
        cleanup(state_closep) struct state *s = open_or_fail();
        cleanup(approved_done) struct approved direct = { 0 }, read = { 0 };
        struct stat st;
        assert_int_equal(state_add_rule(s, false, NULL, "a.test:443", NULL), 0);
        assert_int_equal(state_add_rule(s, true, "/work space/100%\n", "b.test", NULL), 0);
        assert_int_equal(state_add_rule(s, true, NULL, "a.test:443", NULL), 0); /* changed one's mind */
        assert_int_equal(state_rules(s, &direct, NULL), 0);
        assert_int_equal(approved_read(export, &read, NULL), 0);
        assert_int_equal(direct.rules.n, 2);
        assert_int_equal(read.rules.n, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_true(read.rules.p[i].deny);
                assert_string_equal(read.rules.p[i].pattern, direct.rules.p[i].pattern);
                assert_string_equal(read.rules.p[i].day, direct.rules.p[i].day);
        }
        assert_null(read.rules.p[0].workspace);
        assert_string_equal(read.rules.p[1].workspace, "/work space/100%\n");
        assert_int_equal(stat(database, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(stat(export, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(state_forget_rule(s, "/elsewhere", "b.test", NULL), 0);
        assert_int_equal(state_forget_rule(s, "/work space/100%\n", "b.test", NULL), 1);
}

static enum state_answer answer_about(struct state *s, const char *workspace, const char *rule, const char *command) {
        enum state_answer answer = STATE_NO_ANSWER;
        assert_int_equal(state_command(s, workspace, rule, command, &answer, NULL), 0);
        return answer;
}

static void answers_about_commands(void **unused) {
        (void)unused;
        cleanup(state_closep) struct state *s = open_or_fail();
        assert_int_equal(answer_about(s, "/w", "r", "c"), STATE_NO_ANSWER);
        assert_int_equal(state_add_command(s, false, "/w", "r", "c", NULL), 0);
        assert_int_equal(answer_about(s, "/w", "r", "c"), STATE_ALLOWED);
        assert_int_equal(answer_about(s, "/v", "r", "c"), STATE_NO_ANSWER);
        assert_int_equal(answer_about(s, "/w", "other", "c"), STATE_NO_ANSWER);
        assert_int_equal(answer_about(s, "/w", "r", "c "), STATE_NO_ANSWER);
        assert_int_equal(state_add_command(s, true, NULL, "r", "c", NULL), 0);
        assert_int_equal(answer_about(s, "/w", "r", "c"), STATE_DENIED); /* a deny wins */
        assert_int_equal(state_forget_command(s, "/w", "c", NULL), 2);
        assert_int_equal(answer_about(s, "/w", "r", "c"), STATE_NO_ANSWER);
}

static int count(void *arg, uint64_t at_us, const struct state_decision *d) {
        assert_true(at_us > 0);
        assert_string_equal(d->workspace, "/w");
        assert_string_equal(d->host, "'; DROP TABLE rules; --");
        assert_int_equal(d->port, 443);
        ++*(int *)arg;
        return 0;
}

static void decisions_come_back(void **unused) {
        (void)unused;
        cleanup(state_closep) struct state *s = open_or_fail();
        const struct state_decision d = { .sandbox = "s1",
                                          .workspace = "/w",
                                          .command = "make",
                                          .host = "'; DROP TABLE rules; --",
                                          .port = 443,
                                          .answer = "allow",
                                          .scope = "once",
                                          .by = "terminal" };
        int n = 0;
        assert_int_equal(state_add_decision(s, &d, NULL), 0);
        assert_int_equal(state_add_decision(s, &d, NULL), 0);
        assert_int_equal(state_decisions(s, 10, count, &n, NULL), 0);
        assert_int_equal(n, 2);
}

static void damage_is_told_and_loses_no_rule(void **unused) {
        (void)unused;
        struct state *s = open_or_fail();
        struct err e = { 0 };
        cleanup(approved_done) struct approved rules = { 0 };
        cleanup(free_ptr) char *moved = str_format("%s.broken", database);
        assert_int_equal(state_add_rule(s, false, NULL, "kept.test:443", NULL), 0);
        state_close(s);
        assert_int_equal(
            path_replace_file(database, STR("this is no database, but long enough to be read as one"), 0600, NULL), 0);
        assert_int_equal(state_open(&s, &e), -EBADMSG);
        assert_non_null(strstr(e.text, "is damaged"));
        assert_non_null(strstr(e.text, "Move it away"));
        assert_int_equal(rename(database, moved), 0);
        s = open_or_fail();
        assert_int_equal(state_rules(s, &rules, NULL), 0);
        assert_true(rules.rules.n == 1 && strcmp(rules.rules.p[0].pattern, "kept.test:443") == 0);
        state_close(s);
}

static void others_files_are_refused(void **unused) {
        (void)unused;
        struct state *s = open_or_fail();
        struct err e = { 0 };
        state_close(s);
        assert_int_equal(chmod(database, 0644), 0);
        assert_int_equal(state_open(&s, &e), -EPERM);
        assert_int_equal(unlink(database), 0);
        assert_int_equal(symlink("/etc/passwd", database), 0);
        assert_int_equal(state_open(&s, &e), -ELOOP);
}

static void export_is_read_strictly(void **unused) {
        (void)unused;
        static const char *const bad[] = {
                "allow\t2026-11-15\t*\n",
                "permit\t2026-11-15\t*\ta.test\n",
                "allow\tyesterday\t*\ta.test\n",
                "allow\t2026-11-15\trel\ta.test\n",
                "allow\t2026-11-15\t/a%0\ta.test\n",
                "allow\t2026-11-15\t/a%00\ta.test\n",
                "allow\t2026-11-15\t*\thttp://a\n",
        };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                cleanup(approved_done) struct approved a = { 0 };
                struct err e = { 0 };
                if (approved_parse(str_of(bad[i]), "file", &a, &e) != -EINVAL)
                        fail_msg("accepted: %s", bad[i]);
                assert_int_equal(strncmp(e.text, "file:1", 6), 0);
        }
        cleanup(approved_done) struct approved none = { 0 };
        assert_int_equal(approved_read(export, &none, NULL), 0); /* absent */
        assert_int_equal(path_make_private_dir(top, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(rules_come_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(decisions_come_back, set_up, tear_down),
                cmocka_unit_test_setup_teardown(answers_about_commands, set_up, tear_down),
                cmocka_unit_test_setup_teardown(damage_is_told_and_loses_no_rule, set_up, tear_down),
                cmocka_unit_test_setup_teardown(others_files_are_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(export_is_read_strictly, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
