/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/account.h"

#include "../cmocka_all.h"

static void accounts_are_found(void **state) {
        struct account root = { 0 }, same = { 0 };
        (void)state;

        assert_true(account_by_uid(0, &root));
        assert_int_equal(root.uid, 0);
        assert_int_equal(root.gid, 0);
        assert_string_equal(root.name, "root");
        assert_int_equal(root.home[0], '/');

        assert_true(account_by_name("root", &same));
        assert_int_equal(same.uid, 0);
        assert_string_equal(same.home, root.home);
}

static void others_are_not(void **state) {
        struct account account = { .uid = 7 };
        (void)state;

        assert_false(account_by_name("no such account", &account));
        assert_false(account_by_name("", &account));
        assert_false(account_by_uid(4000000000u, &account));
        assert_int_equal(account.uid, 7);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(accounts_are_found),
                cmocka_unit_test(others_are_not),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
