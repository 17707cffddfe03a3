/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "store/audit_place.h"
#include "store/audit_read.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"

struct place {
        char directory[64];
        char file[96];
};

static int make_place(void **state) {
        struct place *p = calloc(1, sizeof *p);
        if (!p)
                return -1;
        snprintf(p->directory, sizeof p->directory, "/tmp/bailey-test-audit-XXXXXX");
        if (!mkdtemp(p->directory))
                return -1;
        snprintf(p->file, sizeof p->file, "%s/audit.jsonl", p->directory);
        *state = p;
        return 0;
}

static int remove_place(void **state) {
        struct place *p = *state;
        static const char *const others[] = { "", ".new", ".copy", ".1", ".2", ".3", ".4" };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                cleanup(free_ptr) char *name = str_format("%s%s", p->file, others[i]);
                unlink(name);
        }
        int r = rmdir(p->directory);
        free(p);
        return r;
}

static struct audit *open_log(const struct place *p, uint64_t max_bytes, unsigned keep) {
        struct audit *a = NULL;
        struct err e = { 0 };
        const struct audit_settings s = { p->file, "run", "box", max_bytes, keep };
        if (audit_open(&s, &a, &e) < 0)
                fail_msg("%s", err_text(&e));
        return a;
}

static void add(struct audit *a, const char *path) {
        const struct event ev = { .kind = EVENT_REQUEST,
                                  .wall_us = 1763176447000042,
                                  .rule = RULE_NONE,
                                  .via = VIA_HTTP,
                                  .scheme = SCHEME_HTTP,
                                  .reason = REASON_NOT_ALLOWED,
                                  .domain = STR("evil.test"),
                                  .path = str_of(path) };
        assert_int_equal(audit_add(a, &ev, NULL), 0);
}

static void close_log(struct audit *a) {
        struct err e = { 0 };
        if (audit_close(a, &e) < 0)
                fail_msg("%s", err_text(&e));
}

static struct audit_report whole(const struct place *p) {
        struct audit_report report;
        struct err e = { 0 };
        if (audit_verify(p->file, &report, &e) < 0)
                fail_msg("%s", err_text(&e));
        return report;
}

static void chain_goes_on_over_restarts(void **state) {
        for (int i = 0; i < 3; i++) {
                struct audit *a = open_log(*state, 0, 0);
                add(a, "/x");
                close_log(a);
        }
        struct audit_report report = whole(*state);
        assert_int_equal(report.records, 6);
        assert_int_equal(report.last_seq, 6);
        assert_true(report.closed);
        struct stat st;
        assert_int_equal(stat(((struct place *)*state)->file, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
}

static void second_writer_is_refused(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0), *b = NULL;
        const struct audit_settings s = { p->file, "other", "box", 0, 0 };
        struct err e = { 0 };
        assert_int_equal(audit_open(&s, &b, &e), -EBUSY);
        close_log(a);
        assert_int_equal(audit_open(&s, &b, &e), 0);
        audit_free(b);
}

/* The file cut at every length: the next start goes on with a chain that is whole and loses nothing that was complete.
 */
static void every_cut_is_survived(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0);
        add(a, "/one");
        add(a, "/two");
        close_log(a);
        cleanup(buf_done) struct buf original = BUF(1 << 20);
        assert_int_equal(path_read_file(p->file, 1 << 20, &original, NULL), 0);
        for (size_t n = 0; n < original.n; n++) {
                size_t lines = 0;
                for (size_t i = 0; i < n; i++)
                        lines += original.p[i] == '\n';
                assert_int_equal(path_replace_file(p->file, str_first(buf_str(&original), n), 0600, NULL), 0);
                a = open_log(p, 0, 0);
                add(a, "/after");
                close_log(a);
                bool torn = n > 0 && original.p[n - 1] != '\n';
                assert_int_equal(whole(p).records, lines + torn + 2);
        }
}

static void other_files_are_left_alone(void **state) {
        struct place *p = *state;
        static const char *const contents[] = { "my notes\n", "my notes", "{\"json\":true}\n",
                                                ("\x7f"
                                                 "ELF") };
        for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
                struct audit *a = NULL;
                struct err e = { 0 };
                const struct audit_settings s = { p->file, "run", "box", 0, 0 };
                assert_int_equal(path_replace_file(p->file, str_of(contents[i]), 0600, NULL), 0);
                assert_int_equal(audit_open(&s, &a, &e), -EBADMSG);
                cleanup(buf_done) struct buf now = BUF(100);
                assert_int_equal(path_read_file(p->file, 100, &now, NULL), 0);
                assert_true(str_is(buf_str(&now), contents[i]));
        }
}

static void links_are_not_followed(void **state) {
        struct place *p = *state;
        struct audit *a = NULL;
        struct err e = { 0 };
        const struct audit_settings s = { p->file, "run", "box", 0, 0 };
        assert_int_equal(symlink("/tmp/bailey-test-elsewhere", p->file), 0);
        assert_int_equal(audit_open(&s, &a, &e), -ELOOP);
        assert_int_not_equal(access("/tmp/bailey-test-elsewhere", F_OK), 0);
}

/* Any byte of any line changed to another: the proof fails. */
static void every_change_is_found(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0);
        add(a, "/one");
        add(a, "/two");
        close_log(a);
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        assert_int_equal(path_read_file(p->file, 1 << 20, &text, NULL), 0);
        size_t last = (size_t)str_rfind(str_first(buf_str(&text), text.n - 1), '\n') + 1;
        cleanup(close_fd) int fd = open(p->file, O_WRONLY | O_CLOEXEC);
        for (size_t i = 0; i < last; i++) { /* nothing vouches for the last line yet */
                char changed = text.p[i] == 'x' ? 'y' : 'x';
                struct audit_report report;
                struct err e = { 0 };
                assert_int_equal(pwrite(fd, &changed, 1, (off_t)i), 1);
                assert_int_equal(audit_verify(p->file, &report, &e), -EBADMSG);
                assert_int_equal(pwrite(fd, &text.p[i], 1, (off_t)i), 1);
        }
        assert_int_equal(whole(p).records, 3);
}

static void removed_line_is_located(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0);
        for (int i = 0; i < 5; i++)
                add(a, "/x");
        close_log(a);
        cleanup(buf_done) struct buf text = BUF(1 << 20), cut = BUF(1 << 20);
        assert_int_equal(path_read_file(p->file, 1 << 20, &text, NULL), 0);
        struct str rest = buf_str(&text), line;
        for (int i = 0; str_split(&rest, '\n', &line); i++)
                if (i != 2)
                        assert_true(buf_append(&cut, line) == 0 && buf_add_char(&cut, '\n') == 0);
        cut.n--; /* the empty part behind the last line break */
        assert_int_equal(path_replace_file(p->file, buf_str(&cut), 0600, NULL), 0);
        struct audit_report report;
        struct err e = { 0 };
        assert_int_equal(audit_verify(p->file, &report, &e), -EBADMSG);
        assert_non_null(strstr(e.text, "audit.jsonl:3"));
        assert_non_null(strstr(e.text, "record 4 stands where record 3 should be"));
        assert_int_equal(report.records, 2);
}

static void rotation_keeps_the_chain(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 2000, 2);
        struct err e = { 0 };
        for (int i = 0; i < 40; i++) {
                add(a, "/x");
                assert_int_equal(audit_flush(a, &e), 0);
                struct audit_report report = whole(p); /* at every moment */
                assert_true(report.files <= 3);
        }
        close_log(a);
        struct audit_report report = whole(p);
        assert_int_equal(report.files, 3);
        assert_true(report.first_seq > 1 && report.dropped >= report.first_seq);
        struct stat st;
        assert_int_equal(stat(p->file, &st), 0);
        assert_true(st.st_size <= 2000);

        /* Without its oldest file the beginning is missing, and nothing in the log explains it. */
        cleanup(free_ptr) char *oldest = audit_rotated_name(p->file, 2);
        assert_int_equal(unlink(oldest), 0);
        assert_int_equal(audit_verify(p->file, &report, &e), -EBADMSG);
        assert_non_null(strstr(e.text, "are missing"));
}

static void rotation_goes_on_after_restart(void **state) {
        struct place *p = *state;
        cleanup(free_ptr) char *first = audit_rotated_name(p->file, 1), *second = audit_rotated_name(p->file, 2);
        while (access(first, F_OK) < 0) {
                struct audit *a = open_log(p, 1500, 3);
                add(a, "/x");
                close_log(a);
                whole(p);
        }
        /* A rotation cut short before its last step: the file has its second name already. */
        struct audit *a = open_log(p, 1500, 3);
        add(a, "/y");
        close_log(a);
        uint64_t records = whole(p).records;
        assert_int_equal(rename(first, second), 0);
        assert_int_equal(link(p->file, first), 0);
        a = open_log(p, 1500, 3);
        add(a, "/after");
        close_log(a);
        assert_int_equal(whole(p).records, records + 2);
}

/* A limit on the file's size stops a write half-way, as a full disk does. */
static void full_disk_is_reported_and_survived(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0);
        struct err e = { 0 };
        struct rlimit old, low;
        signal(SIGXFSZ, SIG_IGN);
        add(a, "/before");
        assert_int_equal(audit_flush(a, &e), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        low = old;
        low.rlim_cur = 1000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        for (int i = 0; i < 5; i++)
                add(a, "/full");
        assert_int_equal(audit_flush(a, &e), -EFBIG);
        assert_false(audit_writable(a));
        struct audit_report report = whole(p); /* no half line */
        assert_int_equal(report.torn, 0);
        assert_true(report.records >= 1 && report.records < 6);
        assert_int_equal(audit_flush(a, &e), -EFBIG);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(audit_flush(a, &e), 0);
        assert_true(audit_writable(a));
        close_log(a);
        assert_int_equal(whole(p).records, 7);
}

static void lost_records_are_counted(void **state) {
        struct place *p = *state;
        struct audit *a = open_log(p, 0, 0);
        char path[EVENT_TEXT_MAX + 1];
        memset(path, 1, sizeof path - 1);
        path[sizeof path - 1] = '\0';
        const struct event ev = { .kind = EVENT_REQUEST, .path = str_of(path) };
        int lost = 0;
        for (int i = 0; i < 1000; i++)
                lost += audit_add(a, &ev, NULL) == -ENOBUFS;
        assert_true(lost > 0);
        struct err e = { 0 };
        assert_int_equal(audit_flush(a, &e), 0);
        close_log(a);
        assert_int_equal(whole(p).records, 1000 - lost + 2);
}

static void foreign_changes_stop_the_writer(void **state) {
        struct place *p = *state;
        struct err e = { 0 };
        struct audit *a = open_log(p, 0, 0);
        add(a, "/x");
        assert_int_equal(audit_flush(a, &e), 0);
        assert_int_equal(truncate(p->file, 10), 0);
        add(a, "/y");
        assert_int_equal(audit_flush(a, &e), -EBADMSG);
        assert_int_equal(unlink(p->file), 0);
        assert_int_equal(audit_flush(a, &e), -ENOENT);
        assert_false(audit_writable(a));
        audit_free(a);
}

/* A writer killed at any moment: the log that it leaves is whole, but for at most one unfinished line at its end. */
static void killed_writers_leave_whole_logs(void **state) {
        struct place *p = *state;
        for (int round = 0; round < 20; round++) {
                pid_t pid = fork();
                if (pid == 0) {
                        struct audit *a = open_log(p, 20000, 4);
                        for (;;) {
                                for (int i = 0; i < 7; i++)
                                        add(a, "/busy");
                                if (audit_flush(a, NULL) < 0)
                                        _exit(1);
                        }
                }
                usleep((useconds_t)(1000 + round * 397));
                kill(pid, SIGKILL);
                int status;
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFSIGNALED(status));
                if (access(p->file, F_OK) < 0)
                        continue;
                struct audit *a = open_log(p, 20000, 4);
                add(a, "/next");
                close_log(a);
                whole(p);
        }
}

static void runs_are_found(void **state) {
        struct place *p = *state;
        struct err e = { 0 };
        cleanup(free_ptr) char *none = NULL, *first = NULL, *second = NULL, *found = NULL, *by_id = NULL;
        assert_int_equal(setenv("XDG_STATE_HOME", p->directory, 1), 0);
        assert_int_equal(audit_find_run(NULL, &none, &e), -ENOENT);
        assert_int_equal(audit_run_path("aaa1", &first, &e), 0);
        assert_int_equal(path_replace_file(first, STR(""), 0600, NULL), 0);
        usleep(10);
        assert_int_equal(audit_run_path("aab2", &second, &e), 0);
        assert_int_equal(path_replace_file(second, STR(""), 0600, NULL), 0);
        assert_int_equal(audit_find_run(NULL, &found, &e), 0);
        assert_string_equal(found, second);
        assert_int_equal(audit_find_run("aaa", &by_id, &e), 0);
        assert_string_equal(by_id, first);
        assert_int_equal(audit_find_run("aa", &none, &e), -EINVAL);
        assert_int_equal(audit_find_run("zz", &none, &e), -ENOENT);
        assert_int_equal(unlink(first), 0);
        assert_int_equal(unlink(second), 0);
        cleanup(free_ptr) char *audits = NULL;
        assert_int_equal(audit_directory(&audits, &e), 0);
        assert_int_equal(rmdir(audits), 0);
        cleanup(free_ptr) char *bailey = path_join(p->directory, "bailey");
        assert_int_equal(rmdir(bailey), 0);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)
        const struct CMUnitTest tests[] = {
                T(chain_goes_on_over_restarts),     T(second_writer_is_refused),
                T(every_cut_is_survived),           T(other_files_are_left_alone),
                T(links_are_not_followed),          T(every_change_is_found),
                T(removed_line_is_located),         T(rotation_keeps_the_chain),
                T(rotation_goes_on_after_restart),  T(full_disk_is_reported_and_survived),
                T(lost_records_are_counted),        T(foreign_changes_stop_the_writer),
                T(killed_writers_leave_whole_logs), T(runs_are_found),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
