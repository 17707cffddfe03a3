/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/files/tree.h"
#include "guest/access_list.h"
#include "guest/account/guest_account.h"
#include "guest/account/guest_groups.h"
#include "guest/account/guest_ids.h"
#include "guest/agent/agent_wire.h"
#include "guest/guest_files.h"
#include "guest/guest_state.h"
#include "store/guests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "../cmocka_all.h"

/* Every pair of state and step: only those of the table lead anywhere, and an error says what to do. */
static void test_steps(void **unused) {
        static const struct {
                enum guest_step_kind step;
                enum guest_state from, to;
        } allowed[] = {
                { STEP_CREATED, GUEST_CREATING, GUEST_READY },     { STEP_START, GUEST_READY, GUEST_RUNNING },
                { STEP_START, GUEST_STOPPED, GUEST_RUNNING },      { STEP_END, GUEST_RUNNING, GUEST_STOPPED },
                { STEP_ARCHIVE, GUEST_READY, GUEST_ARCHIVED },     { STEP_ARCHIVE, GUEST_STOPPED, GUEST_ARCHIVED },
                { STEP_UNARCHIVE, GUEST_ARCHIVED, GUEST_STOPPED }, { STEP_RESTORE, GUEST_READY, GUEST_READY },
                { STEP_RESTORE, GUEST_STOPPED, GUEST_STOPPED },    { STEP_SNAPSHOT, GUEST_READY, GUEST_READY },
                { STEP_SNAPSHOT, GUEST_STOPPED, GUEST_STOPPED },   { STEP_SNAPSHOT, GUEST_RUNNING, GUEST_RUNNING },
                { STEP_PROVISION, GUEST_READY, GUEST_READY },      { STEP_PROVISION, GUEST_STOPPED, GUEST_STOPPED },
                { STEP_PROVISION, GUEST_RUNNING, GUEST_RUNNING },  { STEP_DELETE, GUEST_CREATING, GUEST_DELETED },
                { STEP_DELETE, GUEST_READY, GUEST_DELETED },       { STEP_DELETE, GUEST_STOPPED, GUEST_DELETED },
                { STEP_DELETE, GUEST_ARCHIVED, GUEST_DELETED },    { STEP_DELETE, GUEST_BROKEN, GUEST_DELETED },
                { STEP_BREAK, GUEST_CREATING, GUEST_BROKEN },      { STEP_BREAK, GUEST_READY, GUEST_BROKEN },
                { STEP_BREAK, GUEST_RUNNING, GUEST_BROKEN },       { STEP_BREAK, GUEST_STOPPED, GUEST_BROKEN },
                { STEP_BREAK, GUEST_ARCHIVED, GUEST_BROKEN },      { STEP_MEND, GUEST_BROKEN, GUEST_ARCHIVED },
        };
        size_t found = 0;

        (void)unused;
        for (unsigned step = 0; step < GUEST_STEPS; step++)
                for (unsigned from = 0; from < GUEST_STATES; from++) {
                        struct err err = { 0 };
                        enum guest_state to = GUEST_STATES, wanted = GUEST_STATES;
                        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
                                if (allowed[i].step == step && allowed[i].from == from)
                                        wanted = allowed[i].to;
                        int r = guest_step(step, from, GUEST_ARCHIVED, "one", &to, &err);
                        assert_int_equal(to, wanted);
                        assert_true(wanted == GUEST_STATES ? r < 0 && strstr(err.text, "one") : r == 0);
                        found += r == 0;
                }
        assert_int_equal(found, sizeof allowed / sizeof *allowed);
        for (unsigned i = 0; i < GUEST_STATES; i++) {
                enum guest_state state = GUEST_STATES;
                assert_true(guest_state_parse(guest_state_name(i), &state) && state == i);
        }
        enum guest_state none = GUEST_STATES;
        assert_false(guest_state_parse("", &none) || guest_state_parse("other", &none));
}

static void test_sub_ranges(void **unused) {
        struct sub_range range = { 0 };
        const char text[] =
            "root:0:10\nann:100000:65536\nann:500000:10\n1000:700000:70000\nbad:1\nann:x:5\nann:4294967290:100\n:1:1\n";
        const uint32_t taken[] = { 165535, 165533 };

        (void)unused;
        assert_true(sub_range_find(str_of(text), "ann", 5, &range) && range.first == 100000 && range.count == 65536);
        assert_true(sub_range_find(str_of(text), "ann", 1000, &range) && range.first == 700000);
        assert_false(sub_range_find(str_of(text), "bob", 7, &range));
        assert_false(sub_range_find(str_of(text), "root", 7, &range)); /* root itself is nobody's subordinate */
        assert_false(sub_range_find(str_of(""), "ann", 5, &range));
        range = (struct sub_range){ 100000, 65536 };
        assert_int_equal(sub_range_pick(range, NULL, 0), 165535);
        assert_int_equal(sub_range_pick(range, taken, 2), 165534);
        assert_int_equal(sub_range_pick((struct sub_range){ 165533, 1 }, taken, 2), 0);
        const uint32_t last[] = { 165535, 165534 };
        assert_int_equal(sub_range_pick(range, last, 2), 165532); /* 165533 is nobody in a container's map */
}

static void test_access_lists(void **unused) {
        struct access_list list, again, plain;
        unsigned char bytes[4 + 8 * LIST_ENTRIES_MAX];

        (void)unused;
        access_list_of_mode(0750, &plain);
        list = plain;
        assert_int_equal(access_list_give(&list, 1000, 7), 0);
        assert_int_equal(access_list_give(&list, 500, 4), 0);
        assert_int_equal(list.n, 6);
        for (size_t i = 1; i < list.n; i++)
                assert_true(list.entries[i - 1].tag < list.entries[i].tag ||
                            list.entries[i - 1].id < list.entries[i].id);
        size_t n = access_list_write(&list, bytes);
        assert_int_equal(access_list_parse(bytes, n, &again), 0);
        assert_memory_equal(again.entries, list.entries, list.n * sizeof *list.entries);
        assert_int_equal(access_list_parse(bytes, n - 1, &again), -EINVAL);
        assert_int_equal(access_list_parse(bytes, 3, &again), -EINVAL);
        assert_int_equal(access_list_give(&list, 1000, 5), 0); /* again: no second entry */
        assert_int_equal(list.n, 6);
        access_list_take(&list, 500, 9999);
        access_list_take(&list, 77, 9999);
        access_list_take(&list, 1000, 9999);
        assert_int_equal(list.n, plain.n);
        assert_memory_equal(list.entries, plain.entries, plain.n * sizeof *plain.entries);

        /* What a mask keeps back stays so, when it becomes wider and when it goes. */
        const struct access_list masked = {
                .n = 5, .entries = { { 1, 7, -1 }, { 2, 7, 500 }, { 4, 7, -1 }, { 16, 4, -1 }, { 32, 0, -1 } }
        };
        list = masked;
        assert_int_equal(access_list_give(&list, 1000, 7), 0);
        assert_int_equal(list.entries[1].permissions, 4);
        assert_int_equal(list.entries[2].permissions, 7);
        assert_int_equal(list.entries[3].permissions, 4);
        list = masked;
        access_list_take(&list, 500, 9999);
        assert_int_equal(list.n, 3);
        assert_int_equal(list.entries[1].permissions, 4);

        /* A list of ours goes with the last one who is named, and no other list does. */
        list = plain;
        assert_false(access_list_unmark(&list, 500, 100));
        assert_int_equal(access_list_mark(&list, 100), 0);
        assert_int_equal(access_list_give(&list, 500, 7), 0);
        assert_int_equal(access_list_give(&list, 1000, 7), 0);
        assert_false(access_list_unmark(&list, 500, 100));
        access_list_take(&list, 1000, 9999);
        assert_false(access_list_unmark(&list, 500, 101));
        assert_true(access_list_names(&list, 500));
        assert_true(access_list_unmark(&list, 500, 100));
        assert_false(access_list_names(&list, 500));
        assert_int_equal(list.n, plain.n);
        assert_memory_equal(list.entries, plain.entries, plain.n * sizeof *plain.entries);

        /* Nobody but the owner writes, whoever was named, and the owner is let in. */
        list = (struct access_list){
                .n = 6,
                .entries = { { 1, 0, -1 }, { 2, 7, 500 }, { 4, 7, -1 }, { 8, 7, 60 }, { 16, 5, -1 }, { 32, 7, -1 } }
        };
        assert_true(access_list_narrow(&list));
        access_list_of_mode(0755, &again);
        assert_int_equal(list.n, again.n);
        assert_memory_equal(list.entries, again.entries, again.n * sizeof *again.entries);
        assert_false(access_list_narrow(&list));
        access_list_of_mode(0006, &list);
        assert_true(access_list_narrow(&list));
        access_list_of_mode(0604, &again);
        assert_memory_equal(list.entries, again.entries, again.n * sizeof *again.entries);

        list = plain;
        for (uint32_t i = 0; i < LIST_ENTRIES_MAX; i++)
                (void)access_list_give(&list, i, 4);
        assert_int_equal(list.n, LIST_ENTRIES_MAX);
        assert_int_equal(access_list_give(&list, 9999, 4), -E2BIG);
}

static void test_grants_that_are_refused(void **unused) {
        static const char home[] = "/home/ann", state[] = "/home/ann/.local/state/bailey",
                          config[] = "/home/ann/.config/bailey";
        static const char *const never[] = { "/",
                                             "/home",
                                             home,
                                             "/home/ann/.ssh",
                                             "/home/ann/.ssh/id",
                                             "/home/ann/.config",
                                             "/home/ann/.local/state",
                                             state,
                                             "/home/ann/.config/bailey/x" };
        static const char *const fine[] = { "/srv/data", "/home/ann/project", "/home/ann/.sshx", "/home/anne",
                                            "/tmp/x" };

        (void)unused;
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
                assert_non_null(grant_refusal(never[i], home, state, config));
        for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
                assert_null(grant_refusal(fine[i], home, state, config));
}

static void test_groups(void **unused) {
        static const struct {
                const char *text, *kept;
        } rows[] = {
                { "", "" },
                { "root:x:0:\n", "root:x:0:\n" },
                { "root:x:0:\ntty:x:5:\nttyd:x:7:tty\n", "root:x:0:\nttyd:x:7:tty\n" },
                { "tty:x:5:\n", "" },
                { "tty:x:5:\nann:x:1000:", "ann:x:1000:\n" },
                { "a:x:1:\n\nb:x:2:\ntty:x:5:", "a:x:1:\n\nb:x:2:\n" },
        };

        (void)unused;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(buf_done) struct buf kept = BUF(256);

                assert_int_equal(guest_groups_filter(str_of(rows[i].text), &kept), 0);
                assert_true(str_is(buf_str(&kept), rows[i].kept));
        }
}

static void test_account_names(void **unused) {
        char name[ACCOUNT_NAME_MAX];

        (void)unused;
        guest_account_name("Ann.Very-Long-Name", "ab12cd34", name);
        assert_string_equal(name, "bailey_ann-very-lon_ab12cd34");
        guest_account_name("x", "ab12cd34", name);
        assert_string_equal(name, "bailey_x_ab12cd34");
        assert_true(guest_account_is_one(name));
        assert_true(guest_account_is_one("bailey_ann-very-lon_ab12cd34"));

        static const char *const others[] = { "",
                                              "bailey_",
                                              "bailey_ab12cd34",
                                              "bailey-x_ab12cd34",
                                              "xbailey_x_ab12cd34",
                                              "bailey_x-ab12cd34",
                                              "bailey_x_ab12cd3",
                                              "bailey_x_ab12 d34" };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                assert_false(guest_account_is_one(others[i]));
}

static void test_requests(void **unused) {
        cleanup(agent_request_done) struct agent_request request = { .what = AGENT_EXEC, .directory = "/usr" },
                                                         again = { 0 };
        cleanup(buf_done) struct buf bytes = BUF(AGENT_REQUEST_MAX);

        (void)unused;
        assert_int_equal(vec_push(&request.argv, "echo"), 0);
        assert_int_equal(vec_push(&request.argv, ""), 0);
        assert_int_equal(vec_push(&request.environment, "A=b=c"), 0);
        assert_int_equal(agent_request_write(&request, &bytes), 0);
        assert_int_equal(agent_request_parse(buf_str(&bytes), &again), 0);
        assert_int_equal(again.argv.n, 2);
        assert_string_equal(again.argv.p[0], "echo");
        assert_null(again.argv.p[2]);
        assert_string_equal(again.environment.p[0], "A=b=c");
        struct agent_request cut = { 0 };
        for (size_t n = 0; n < bytes.n; n++)
                assert_int_equal(agent_request_parse(str_n(bytes.p, n), &cut), -EBADMSG);
}

/* Rows: names are unique among those that live, a change and its step are one, an unfinished transaction leaves
 * nothing. */
static int count_step(void *arg, const struct guest_step *step) {
        (void)step;
        ++*(int *)arg;
        return 0;
}

static void test_rows(void **unused) {
        char top[] = "/tmp/test-guests-XXXXXX";
        cleanup(guests_db_closep) struct guests_db *db = NULL;
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        struct guest_row row = { .id = (char *)"a",
                                 .name = (char *)"one",
                                 .kind = (char *)"own",
                                 .state = (char *)"ready",
                                 .doing = (char *)"",
                                 .workspace = (char *)"",
                                 .reason = (char *)"" };
        struct err err = { 0 };
        bool fresh = false;
        int steps = 0;

        (void)unused;
        assert_non_null(mkdtemp(top));
        cleanup(free_ptr) char *path = str_format("%s/guests.db", top);
        assert_int_equal(guests_db_open(path, &db, &fresh, &err), 0);
        assert_true(fresh);
        assert_int_equal(guests_db_add(db, &row, &err), 0);
        assert_int_equal(guests_db_commit(db, &err), 0);
        row.id = (char *)"b";
        assert_int_equal(guests_db_add(db, &row, &err), -EEXIST);
        const struct guest_change gone = { .step = "delete", .state = "deleted" };
        assert_int_equal(guests_db_change(db, "a", &gone, &err), 0);
        assert_int_equal(guests_db_add(db, &row, &err), 0);
        assert_int_equal(guests_db_steps(db, "a", 10, count_step, &steps, &err), 0);
        assert_int_equal(steps, 2);
        assert_int_equal(guests_db_begin(db, &err), 0);
        assert_int_equal(guests_db_rename(db, "b", "two", &err), 0);
        guests_db_rollback(db);
        assert_int_equal(guests_db_list(db, false, &rows, &err), 0);
        assert_int_equal(rows.n, 1);
        assert_string_equal(rows.p[0].name, "one");
        uint64_t number = 0;
        assert_int_equal(guests_db_add_job(db, "b", "make", &number, &err), 0);
        assert_int_equal(guests_db_add_job(db, "b", "make", &number, &err), 0);
        assert_int_equal(number, 2);
        assert_int_equal(guests_db_remove_grant(db, "b", "/x", &err), 0);
        assert_int_equal(guests_db_add_grant(db, "b", &(struct guest_grant){ "/x", true, 0, "1" }, &err), 0);
        assert_int_equal(guests_db_remove_grant(db, "b", "/x", &err), 1);
        assert_int_equal(tree_remove(AT_FDCWD, top), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_steps),         cmocka_unit_test(test_sub_ranges),
                cmocka_unit_test(test_access_lists),  cmocka_unit_test(test_grants_that_are_refused),
                cmocka_unit_test(test_account_names), cmocka_unit_test(test_groups),
                cmocka_unit_test(test_requests),      cmocka_unit_test(test_rows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
