/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of macOS that can be tried here: lines of its logs, plans of guests as golden text, and programs of the
 * system played by fakes that work, fail, hang, lie and die. Nothing of a fake may be left, whatever it did.
 */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "sandbox/darwin/darwin_guest.h"
#include "sandbox/darwin/darwin_monitor.h"
#include "sandbox/darwin/pflog.h"
#include "sandbox/darwin/process_tree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- violations --- */

static enum violation_line parse(const char *line, struct violation *v) {
        *v = (struct violation){ 0 };
        return violation_parse(str_of(line), "bailey-x", v);
}

static void test_violations(void **state) {
        (void)state;
        struct violation v;

        assert_int_equal(parse("Filtering the log data using \"...\"", &v), VIOLATION_READY);
        assert_int_equal(parse("{\"processID\":0,\"eventMessage\":\"Sandbox: node(4711) deny(1) file-read-data "
                               "/Users/ada/.ssh/id_ed25519\\nbailey-x\"}",
                               &v),
                         VIOLATION_FOUND);
        assert_string_equal(v.process, "node");
        assert_int_equal(v.pid, 4711);
        assert_string_equal(v.operation, "file-read-data");
        assert_string_equal(v.target, "/Users/ada/.ssh/id_ed25519");

        /* names and targets that look like something else */
        assert_int_equal(parse("{\"eventMessage\":\"Sandbox: Google Chrome He(lper)(12) deny(1) mach-lookup a (b) c\\n"
                               "bailey-x\"}",
                               &v),
                         VIOLATION_FOUND);
        assert_string_equal(v.process, "Google Chrome He(lper)");
        assert_string_equal(v.target, "a (b) c");
        assert_int_equal(parse("{\"eventMessage\":\"Sandbox: a(1) deny(1) signal\\nbailey-x\"}", &v), VIOLATION_FOUND);
        assert_string_equal(v.target, "");
        assert_int_equal(parse("{\"eventMessage\":\"Sandbox: a(1) deny(1) file-read-data /x\\u0000y\\nbailey-x\"}", &v),
                         VIOLATION_FOUND);
        assert_string_equal(v.target, "/x?y");
        assert_int_equal(
            parse("{\"eventMessage\":\"Sandbox: a(1) deny(1) file-write-data /dev/dtracehelper\\nbailey-x\"}", &v),
            VIOLATION_NOISE);
}

static void test_no_violations(void **state) {
        (void)state;
        static const char *const lines[] = {
                "",
                "{",
                "[]",
                "{\"eventMessage\":7}",
                "{\"eventMessage\":\"Sandbox: a(1) deny(1) file-read-data /x\"}",            /* no tag */
                "{\"eventMessage\":\"Sandbox: a(1) deny(1) file-read-data /x\\nbailey-y\"}", /* another run's */
                "{\"eventMessage\":\"Sandbox: a(1) deny(1) file-read-data /x bailey-x\"}",   /* a name that ends so */
                "{\"eventMessage\":\"Sandbox: a(1) allow(1) file-read-data /x\\nbailey-x\"}",
                "{\"eventMessage\":\"Sandbox: a(b) deny(1) file-read-data /x\\nbailey-x\"}",
                "{\"eventMessage\":\"Sandbox: a(1) deny(1) file read/\\u001b[2J /x\\nbailey-y\"}",
                "{\"eventMessage\":\"Sandbox: a(99999999999) deny(1) x y\\nbailey-x\"}",
                "{\"eventMessage\":\"Sandbox: (1) deny(1) x y\\nbailey-x\"}",
                "{\"eventMessage\":\"a\",\"eventMessage\":\"Sandbox: a(1) deny(1) x y\\nbailey-x\"}",
                "{\"other\":{\"eventMessage\":\"Sandbox: a(1) deny(1) x y\\nbailey-x\"}}",
        };
        struct violation v;

        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
                if (parse(lines[i], &v) != VIOLATION_OTHER)
                        fail_msg("taken for a denial: %s", lines[i]);
}

/* --- packets --- */

static void test_packets(void **state) {
        (void)state;
        static const struct {
                const char *line;
                struct pflog_packet packet;
        } rows[] = {
                { "1700000000.000001 rule 3.bailey.601.1/0(match) [uid 601]: block out on en0: 10.0.0.2.51234 > "
                  "1.1.1.1.443: Flags [S], seq 1, length 0",
                  { 601, true, false, "tcp", "1.1.1.1", 443 } },
                { "rule 0/0(match) [uid 601]: block out on en0: fe80::1.5353 > 2001:db8::7.53: UDP, length 40",
                  { 601, true, true, "udp", "2001:db8::7", 53 } },
                { "rule 0/0(match) [uid 7]: pass out on lo0: 127.0.0.1.1 > 127.0.0.1.3128: Flags [S]",
                  { 7, false, false, "tcp", "127.0.0.1", 3128 } },
                { "rule 0/0(match) [uid 7]: block out on en0: 10.0.0.2 > 8.8.8.8: ICMP echo request",
                  { 7, true, false, "icmp", "8.8.8.8", 0 } },
        };
        static const char *const bad[] = {
                "",
                "[uid ]: block out on en0: 1.1.1.1.1 > 2.2.2.2.2: x",
                "[uid 6]: block out on en0: a > b: Flags",
                "[uid 6]: drop out on en0: 1.1.1.1.1 > 2.2.2.2.2: x",
                "[uid 6]: block out on en0: 1.1.1.1.1 > 2.2.2.2.99999: x",
                "[uid -1]: block out on en0: 1.1.1.1.1 > 2.2.2.2.2: x",
                "[uid 6]: block out on en0: 1.1.1.1.1 > 2.2.2.2.2",
                "[uid 6]: block out on en0: 1.1.1.1.1 > 2.2.2.2.2.2: x",
                "rule 0/0(match): block out on en0: 1.1.1.1.1 > 2.2.2.2.2: x",
        };
        struct pflog_packet p;

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                assert_true(pflog_parse(str_of(rows[i].line), &p));
                assert_int_equal(p.uid, rows[i].packet.uid);
                assert_int_equal(p.blocked, rows[i].packet.blocked);
                assert_int_equal(p.v6, rows[i].packet.v6);
                assert_string_equal(p.protocol, rows[i].packet.protocol);
                assert_string_equal(p.address, rows[i].packet.address);
                assert_int_equal(p.port, rows[i].packet.port);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                if (pflog_parse(str_of(bad[i]), &p))
                        fail_msg("taken for a packet: %s", bad[i]);
}

/* --- plans of guests --- */

static const struct guest_request guest = { .user = "ada",
                                            .name = "a1",
                                            .uid = 601,
                                            .gid = 602,
                                            .ports = { 3128, 1080 },
                                            .launcher = "/usr/local/libexec/bailey/bailey-seatbelt" };

static void compare(const char *name, const struct buf *text) {
        cleanup(buf_done) struct buf wanted = { 0 };
        struct err e = { 0 };
        char path[512];

        snprintf(path, sizeof path, "%s/macos/%s", getenv("CASES"), name);
        if (getenv("UPDATE_CASES")) {
                assert_int_equal(path_replace_file(path, buf_str(text), 0644, &e), 0);
                return;
        }
        if (path_read_file(path, 1 << 20, &wanted, &e) < 0)
                fail_msg("%s", err_text(&e));
        if (!str_eq(buf_str(&wanted), buf_str(text)))
                fail_msg("%s changed:\n%.*s", name, STR_FMT(buf_str(text)));
}

static void test_guest_plans(void **state) {
        (void)state;
        cleanup(guest_plan_freep) struct guest_plan *make = NULL, *remove = NULL;
        cleanup(buf_done) struct buf made = BUF(65536), removed = BUF(65536), sudoers = BUF(65536);
        struct err e = { 0 };

        assert_int_equal(guest_plan_create(&guest, &make, &e), 0);
        assert_int_equal(guest_plan_delete(&guest, &remove, &e), 0);
        assert_int_equal(guest_plan_text(make, &made), 0);
        assert_int_equal(guest_plan_text(remove, &removed), 0);
        assert_int_equal(guest_sudoers(&guest, "/usr/local/libexec/bailey/bailey-seatbelt", &sudoers), 0);
        compare("guest-create.txt", &made);
        compare("guest-delete.txt", &removed);
        compare("guest-sudoers.txt", &sudoers);
        assert_int_equal(guest_sudoers(&guest, "/a b", &sudoers), -EINVAL);
        assert_int_equal(guest_sudoers(&guest, "relative", &sudoers), -EINVAL);
        assert_int_equal(guest_sudoers(&guest, "/a,ALL", &sudoers), -EINVAL);
}

static void test_bad_guests(void **state) {
        (void)state;
        struct guest_request bad[7] = { guest, guest, guest, guest, guest, guest, guest };

        bad[0].name = "a b";
        bad[1].name = "";
        bad[2].name = "../x";
        bad[3].user = "ada allow";
        bad[4].uid = 501;
        bad[5].gid = 0;
        bad[6].name = "a123456789012345678901234567890";
        for (size_t i = 0; i < 7; i++) {
                struct guest_plan *plan = NULL;
                struct err e = { 0 };

                assert_int_equal(guest_plan_create(&bad[i], &plan, &e), -EINVAL);
                assert_null(plan);
        }
}

static void test_ids(void **state) {
        (void)state;
        assert_int_equal(guest_free_id(STR("root 0\nnobody      -2\nada    501\n")), 600);
        assert_int_equal(guest_free_id(STR("a 600\nb 601\nc 603\n")), 602);
        assert_int_equal(guest_free_id(STR("")), 0);
        assert_int_equal(guest_free_id(STR("eDSOpenNodeFailed")), 0);
        assert_int_equal(guest_free_id(STR("a 600\nb x\n")), 0);
        cleanup(buf_done) struct buf all = BUF(65536);
        for (unsigned i = GUEST_ID_FIRST; i <= GUEST_ID_LAST; i++)
                assert_int_equal(buf_printf(&all, "u%u %u\n", i, i), 0);
        assert_int_equal(guest_free_id(buf_str(&all)), 0);
        assert_true(guest_pf_conf_has_anchor(STR("x\n  anchor \"com.apple/*\"\n")));
        assert_false(guest_pf_conf_has_anchor(STR("#anchor \"com.apple/*\"\n")));
        assert_false(guest_pf_conf_has_anchor(STR("nat-anchor \"com.apple/*\"\n")));
        cleanup(free_ptr) char *token = guest_pf_token(STR("pf enabled\nToken : 1234567890\n"));
        assert_string_equal(token, "1234567890");
        assert_null(guest_pf_token(STR("No ALTQ support\n")));
        assert_null(guest_pf_token(STR("Token : 12; rm -rf /\n")));
}

/* --- fakes --- */

static char place[64];

static void write_fake(const char *path, const char *body) {
        cleanup(free_ptr) char *full = str_format("%s%s", place, path);
        cleanup(free_ptr) char *folder = str_dup(str_of(full));
        cleanup(free_ptr) char *text = str_format("#!/bin/sh\necho \"$0 $*\" >> %s/calls\n%s\n", place, body);

        *strrchr(folder, '/') = '\0';
        for (char *slash = folder + 1; (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                (void)mkdir(folder, 0755);
                *slash = '/';
        }
        (void)mkdir(folder, 0755);
        assert_int_equal(path_replace_file(full, str_of(text), 0755, NULL), 0);
}

#define LIST "case \"$*\" in *-list*) echo 'root 0'; echo 'ada    501';; esac; "

/* A Mac on which everything works. */
static int set_up(void **state) {
        (void)state;
        snprintf(place, sizeof place, "/tmp/bailey-darwin-XXXXXX");
        assert_non_null(mkdtemp(place));
        static const char *const quiet[] = {
                "/usr/sbin/dseditgroup", "/bin/mkdir",     "/usr/sbin/chown",  "/bin/chmod",      "/bin/rm",
                "/bin/launchctl",        "/usr/bin/pkill", "/usr/sbin/visudo", "/usr/bin/install"
        };
        for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
                write_fake(quiet[i], "exit 0");
        write_fake("/bin/cat", "echo 'anchor \"com.apple/*\"'");
        write_fake("/usr/bin/id", "echo 601");
        write_fake("/usr/bin/dscl", LIST);
        write_fake("/sbin/pfctl", "[ \"$1\" = -E ] && echo 'Token : 77'; exit 0");
        cleanup(free_ptr) char *db = str_format("%s/var", place), *deep = str_format("%s/var/db", place);
        assert_int_equal(mkdir(db, 0755) | mkdir(deep, 0755), 0);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        cleanup(free_ptr) char *all = str_dup(str_of(place));
        const char *words[] = { "/bin/rm", "-rf", all, NULL };
        cleanup(buf_done) struct buf out = BUF(4096);
        return tool_run(&(struct tool){ 0 }, words, &out, NULL);
}

static struct guest_world world(unsigned timeout_ms) {
        return (struct guest_world){ .tool = { .prefix = place, .timeout_ms = timeout_ms }, .files = place };
}

static char *calls(void) {
        cleanup(free_ptr) char *path = str_format("%s/calls", place);
        cleanup(buf_done) struct buf text = { 0 };

        if (path_read_file(path, 1 << 20, &text, NULL) < 0)
                return str_dup(STR(""));
        return str_dup(buf_str(&text));
}

static bool rules_are_left(void) {
        cleanup(free_ptr) char *path = str_format("%s/var/db/bailey/pf.601.conf", place);
        return access(path, F_OK) == 0;
}

static void test_guest_is_made_and_removed(void **state) {
        (void)state;
        struct guest_world w = world(20000);
        cleanup(free_ptr) char *token = NULL;
        struct err e = { 0 };

        if (guest_create(&w, &guest, &token, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_string_equal(token, "77");
        assert_true(rules_are_left());
        cleanup(free_ptr) char *made = calls();
        assert_non_null(strstr(made, "dscl . -create /Users/_bailey_a1 UniqueID 601"));
        assert_null(strstr(made, "-delete"));
        if (guest_delete(&w, &guest, token, &e) < 0)
                fail_msg("%s", err_text(&e));
        cleanup(free_ptr) char *removed = calls();
        assert_non_null(strstr(removed, "dscl . -delete /Users/_bailey_a1"));
        assert_non_null(strstr(removed, "pfctl -X 77"));
}

/* What goes wrong, what is said, and that everything made before is undone. */
static void test_guest_fails(void **state) {
        (void)state;
        static const struct {
                const char *program, *body, *says;
                int code;
                bool nothing_made;
        } rows[] = {
                { "/bin/cat", "echo 'scrub in all'", "ignored in silence", -EOPNOTSUPP, true },
                { "/bin/cat", "exit 1", "failed with status 1", -EPROTO, true },
                { "/usr/bin/dscl",
                  LIST LIST
                  "case \"$*\" in *-create*UniqueID*) echo 'DS Error: -14120 (eDSPermissionError)'; exit 40;; esac",
                  "Full Disk Access", -EPERM, false },
                { "/usr/bin/dscl", LIST "case \"$*\" in *IsHidden*) exec sleep 600;; esac", "did not end within",
                  -ETIMEDOUT, false },
                { "/usr/bin/dscl", LIST "case \"$*\" in *-create*IsHidden*) (sleep 600 & exec sleep 600);; esac",
                  "did not end within", -ETIMEDOUT, false },
                { "/bin/chmod", "kill -SEGV $$", "killed by signal 11", -EPROTO, false },
                { "/bin/chmod", "echo 'Unable to translate'; exit 1", "Unable to translate", -EPROTO, false },
                { "/usr/bin/dscl", "echo '_bailey_a1   700'", "exists already", -EEXIST, true },
                { "/usr/bin/dscl", "echo 'other   601'", "exists already", -EEXIST, true },
                { "/usr/bin/dscl", "exit 0", "lists no accounts", -EPROTO, true },
                { "/bin/mkdir", "echo 'File exists'; exit 1", "File exists", -EPROTO, false },
                { "/usr/bin/id", "echo 0", "does not know the account", -EPROTO, false },
                { "/usr/bin/id", "echo", "does not know the account", -EPROTO, false },
                { "/sbin/pfctl", "exit 0", "no token", -EPROTO, false },
                { "/usr/sbin/visudo", "echo '>>> syntax error near line 1 <<<'; exit 1", "syntax error", -EPROTO,
                  false },
                { "/usr/bin/install", "exit 71", "failed with status 71", -EPROTO, false },
                { "/sbin/pfctl", "case \"$*\" in *-f*) echo 'syntax error'; exit 1;; esac; echo 'Token : 1'",
                  "syntax error", -EPROTO, false },
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct guest_world w;
                char *token = NULL;
                struct err e = { 0 };

                assert_int_equal(tear_down(NULL), 0);
                assert_int_equal(set_up(NULL), 0);
                w = world(rows[i].code == -ETIMEDOUT ? 1500 : 20000);
                write_fake(rows[i].program, rows[i].body);
                assert_int_equal(guest_create(&w, &guest, &token, &e), rows[i].code);
                assert_null(token);
                if (!strstr(err_text(&e), rows[i].says))
                        fail_msg("%zu: %s", i, err_text(&e));
                cleanup(free_ptr) char *made = calls();
                bool undone = strstr(made, "dscl . -delete /Groups/_bailey_a1") != NULL;
                assert_int_equal(undone, !rows[i].nothing_made);
                assert_false(rules_are_left());
                if (strcmp(rows[i].program, "/bin/mkdir") == 0) /* a home that was there before stays */
                        assert_null(strstr(made, "/bin/rm -rf"));
        }
}

static void test_missing_program(void **state) {
        (void)state;
        struct guest_world w = world(5000);
        cleanup(free_ptr) char *dscl = str_format("%s/usr/bin/dscl", place);
        char *token = NULL;
        struct err e = { 0 };

        assert_int_equal(unlink(dscl), 0);
        assert_int_equal(guest_create(&w, &guest, &token, &e), -ENOENT);
        assert_non_null(strstr(err_text(&e), "cannot start /usr/bin/dscl"));
}

/* --- the monitor --- */

static size_t found;

static void count_found(void *context, const struct violation *v) {
        (void)context;
        assert_int_equal(v->pid, 7);
        found++;
}

#define DENIAL "{\"eventMessage\":\"Sandbox: sh(7) deny(1) file-read-data /x\\nbailey-x\"}"

static void test_monitor(void **state) {
        (void)state;
        struct tool tool = { .prefix = place };
        struct monitor m;
        struct err e = { 0 };

        write_fake("/usr/bin/log", "echo 'Filtering the log data using x'\nprintf '%s\\n' '" DENIAL
                                   "' garbage '{' '" DENIAL "'\nexec sleep 600");
        if (monitor_start(&m, &tool, "bailey-x", 20000, &e) < 0)
                fail_msg("%s", err_text(&e));
        pid_t pid = m.pid;
        found = 0;
        monitor_stop(&m, 300, count_found, NULL);
        assert_int_equal(found, 2);
        assert_int_equal(kill(pid, 0), -1); /* nothing is left */
        monitor_stop(&m, 0, count_found, NULL);
}

static void test_monitor_fails(void **state) {
        (void)state;
        static const struct {
                const char *body, *says;
                int code;
        } rows[] = {
                { "exec sleep 600", "not ready within", -ETIMEDOUT },
                { "echo 'log: Cannot run while sandboxed'; exit 64", "ended before it began", -EPROTO },
                { "while :; do echo noise; done", "not ready within", -ETIMEDOUT },
                { "kill -KILL $$", "ended before it began", -EPROTO },
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct tool tool = { .prefix = place };
                struct monitor m;
                struct err e = { 0 };

                write_fake("/usr/bin/log", rows[i].body);
                assert_int_equal(monitor_start(&m, &tool, "bailey-x", 800, &e), rows[i].code);
                if (!strstr(err_text(&e), rows[i].says))
                        fail_msg("%s", err_text(&e));
                assert_int_equal(m.pid, 0);
                assert_int_equal(m.fd, -1);
        }
}

/* A line without an end, longer than any line of the log, and then a good one. */
static void test_monitor_long_line(void **state) {
        (void)state;
        struct tool tool = { .prefix = place };
        struct monitor m;
        struct err e = { 0 };

        write_fake("/usr/bin/log",
                   "echo 'Filtering the log data using x'\nhead -c 400000 /dev/zero | tr '\\0' a\necho\n"
                   "printf '%s\\n' '" DENIAL "'\nexec sleep 600");
        if (monitor_start(&m, &tool, "bailey-x", 20000, &e) < 0)
                fail_msg("%s", err_text(&e));
        found = 0;
        monitor_stop(&m, 1500, count_found, NULL);
        assert_int_equal(found, 1);
        assert_true(m.dropped > 0);
}

/* --- the tree of processes --- */

/* 10 has 11 and 12, 12 has 13, and a liar says that 13 has 10 and the first process of the system. */
static size_t told_children(pid_t pid, pid_t *ret, size_t most) {
        static const pid_t table[][2] = { { 10, 11 }, { 10, 12 }, { 12, 13 }, { 13, 10 },
                                          { 13, 1 },  { 13, 0 },  { 13, -1 } };
        size_t n = 0;

        for (size_t i = 0; i < sizeof table / sizeof *table && n < most; i++)
                if (table[i][0] == pid)
                        ret[n++] = table[i][1];
        return n;
}

/* A bomb: each has as many as can be told. */
static size_t endless_children(pid_t pid, pid_t *ret, size_t most) {
        for (size_t i = 0; i < most; i++)
                ret[i] = pid * 7 + (pid_t)i + 2;
        return most;
}

static size_t no_children(pid_t pid, pid_t *ret, size_t most) {
        (void)pid;
        (void)ret;
        (void)most;
        return 0;
}

static void test_tree(void **state) {
        (void)state;
        static pid_t list[TREE_MAX];
        static const pid_t expected[] = { 10, 11, 12, 13 };

        assert_int_equal(tree_list(10, told_children, list), 4);
        assert_memory_equal(list, expected, sizeof expected);
        assert_int_equal(tree_list(10, endless_children, list), TREE_MAX);

        pid_t child = fork();
        if (child == 0) {
                for (;;)
                        pause();
        }
        int status = 0;
        assert_int_equal(tree_signal(child, no_children, SIGSTOP, 4), 1);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        assert_int_equal(tree_signal(child, no_children, SIGKILL, 4), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_violations),
                cmocka_unit_test(test_no_violations),
                cmocka_unit_test(test_packets),
                cmocka_unit_test(test_guest_plans),
                cmocka_unit_test(test_bad_guests),
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_tree),
                cmocka_unit_test_setup_teardown(test_guest_is_made_and_removed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_guest_fails, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_missing_program, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_monitor, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_monitor_fails, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_monitor_long_line, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
