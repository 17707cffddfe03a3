/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden plans: tests/cases/plan/NAME.case gives NAME.plan, on any machine. With UPDATE_CASES=1 in the environment the
 * expected files are written anew; look at the difference before you commit it.
 * Then the codec: what is written reads back the same, and nothing else is accepted.
 */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "case.h"
#include "plan/codec.h"
#include "plan/dump.h"
#include "plan/landlock.h"

#include <dirent.h>
#include <stdio.h>

static const char *cases;

static void check_golden(const char *name) {
        char input[512], expected[512];
        snprintf(input, sizeof input, "%s/%s.case", cases, name);
        snprintf(expected, sizeof expected, "%s/%s.plan", cases, name);
        cleanup(plan_freep) struct plan *p = case_build(input);
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        assert_int_equal(plan_dump_text(p, &text), 0);
        struct err e = { 0 };
        if (getenv("UPDATE_CASES")) {
                if (path_replace_file(expected, buf_str(&text), 0644, &e) < 0)
                        fail_msg("%s", err_text(&e));
                return;
        }
        cleanup(buf_done) struct buf wanted = { 0 };
        if (path_read_file(expected, 1 << 20, &wanted, &e) < 0)
                fail_msg("%s", err_text(&e));
        if (!str_eq(buf_str(&text), buf_str(&wanted)))
                fail_msg("%s: the plan changed. It is now:\n%s", name, buf_text(&text));
}

static void test_golden(void **state) {
        (void)state;
        DIR *d = opendir(cases);
        assert_non_null(d);
        size_t n = 0;
        for (struct dirent *entry; (entry = readdir(d));) {
                struct str name = str_of(entry->d_name);
                if (!str_ends(name, STR(".case")))
                        continue;
                entry->d_name[name.n - 5] = '\0';
                check_golden(entry->d_name);
                n++;
        }
        closedir(d);
        assert_true(n >= 6);
}

static struct plan *sample(void) {
        char file[512];
        snprintf(file, sizeof file, "%s/ordinary.case", cases);
        return case_build(file);
}

static void test_round_trip(void **state) {
        (void)state;
        cleanup(plan_freep) struct plan *p = sample();
        cleanup(plan_freep) struct plan *back = NULL;
        cleanup(buf_done) struct buf first = BUF(PLAN_BYTES_MAX);
        cleanup(buf_done) struct buf again = BUF(PLAN_BYTES_MAX);
        struct err e = { 0 };
        assert_int_equal(plan_encode(p, &first, &e), 0);
        if (plan_decode(buf_str(&first), &back, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_int_equal(plan_encode(back, &again, &e), 0);
        assert_true(str_eq(buf_str(&first), buf_str(&again)));
}

static void test_truncated(void **state) {
        (void)state;
        cleanup(plan_freep) struct plan *p = sample();
        cleanup(buf_done) struct buf b = BUF(PLAN_BYTES_MAX);
        assert_int_equal(plan_encode(p, &b, NULL), 0);
        for (size_t n = 0; n < b.n; n += n < 200 ? 1 : 37) {
                struct plan *back = NULL;
                assert_int_equal(plan_decode(str_first(buf_str(&b), n), &back, NULL), -EBADMSG);
                assert_null(back);
        }
        assert_int_equal(buf_add_char(&b, 'x'), 0);
        struct plan *back = NULL;
        assert_int_equal(plan_decode(buf_str(&b), &back, NULL), -EBADMSG);
}

/* Any damage either is refused or gives a plan that is whole: then encoding it again must work. */
static void test_damaged(void **state) {
        (void)state;
        cleanup(plan_freep) struct plan *p = sample();
        cleanup(buf_done) struct buf b = BUF(PLAN_BYTES_MAX);
        assert_int_equal(plan_encode(p, &b, NULL), 0);
        for (int i = 0; i < 3000; i++) {
                uint32_t where;
                uint8_t with;
                random_bytes(&where, sizeof where);
                random_bytes(&with, sizeof with);
                char old = b.p[where % b.n];
                b.p[where % b.n] = (char)with;
                cleanup(plan_freep) struct plan *back = NULL;
                if (plan_decode(buf_str(&b), &back, NULL) == 0) {
                        cleanup(buf_done) struct buf out = BUF(PLAN_BYTES_MAX);
                        assert_int_equal(plan_encode(back, &out, NULL), 0);
                }
                b.p[where % b.n] = old;
        }
}

static void test_refuses_nonsense(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(PLAN_BYTES_MAX);
        cleanup(plan_freep) struct plan *p = sample();
        struct str filter = p->seccomp;
        p->seccomp = (struct str){ 0 };
        assert_int_equal(plan_encode(p, &b, NULL), -EINVAL);
        p->seccomp = str_first(filter, filter.n - 1);
        assert_int_equal(plan_encode(p, &b, NULL), -EINVAL);
        p->seccomp = filter;
        struct plan_op unmade = { .kind = PLAN_OP_ATTACH, .slot = 900, .at = PLAN_ROOT, .target = "/x" };
        assert_int_equal(vec_push(&p->ops, unmade), 0);
        assert_int_equal(plan_encode(p, &b, NULL), -EINVAL);
        p->ops.p[p->ops.n - 1] = (struct plan_op){ .kind = PLAN_OP_MKDIR, .at = 0, .target = "/absolute" };
        assert_int_equal(plan_encode(p, &b, NULL), -EINVAL);
        p->ops.n--;
        assert_int_equal(plan_encode(p, &b, NULL), 0);
}

static void test_landlock_table(void **state) {
        (void)state;
        assert_int_equal(landlock_rights(0).fs, 0);
        assert_int_equal(landlock_rights(1).fs, 0x1fff);
        assert_int_equal(landlock_rights(2).fs, 0x3fff);
        assert_int_equal(landlock_rights(3).fs, 0x7fff);
        assert_int_equal(landlock_rights(3).net, 0);
        assert_int_equal(landlock_rights(4).net, 3);
        assert_int_equal(landlock_rights(5).fs, 0xffff);
        assert_int_equal(landlock_rights(5).scoped, 0);
        assert_int_equal(landlock_rights(7).scoped, 3);
        assert_int_equal(landlock_rights(8).fs, 0xffff);
        assert_int_equal(landlock_rights(9).fs, 0x1ffff);
        assert_int_equal(landlock_rights(99).fs, 0x1ffff);
}

int main(int argc, char **argv) {
        assert_true(argc == 2);
        cases = argv[1];
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_golden),           cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_truncated),        cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_refuses_nonsense), cmocka_unit_test(test_landlock_table),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
