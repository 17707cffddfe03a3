/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void sets_code_and_text(void **state) {
        (void)state;
        struct err e = { 0 };
        assert_string_equal(err_text(&e), "no error");
        assert_int_equal(err_set(&e, EINVAL, "port %u is out of range", 70000U), -EINVAL);
        assert_int_equal(e.code, EINVAL);
        assert_string_equal(err_text(&e), "port 70000 is out of range");
        err_clear(&e);
        assert_int_equal(e.code, 0);
        assert_string_equal(err_text(&e), "no error");
        e.code = ENOENT;
        assert_string_equal(err_text(&e), strerror(ENOENT));
}

static void adds_the_cause(void **state) {
        (void)state;
        struct err e = { 0 };
        errno = ENOENT;
        assert_int_equal(err_errno(&e, "cannot open %s", "/x"), -ENOENT);
        assert_string_equal(err_text(&e), "cannot open /x: No such file or directory");
        errno = 0; /* a caller that lost it still fails */
        assert_int_equal(err_errno(&e, "cannot read"), -EIO);
}

static void wraps(void **state) {
        (void)state;
        struct err e = { 0 };
        int r = err_set(&e, EINVAL, "bad port");
        assert_int_equal(err_wrap(&e, r, "rule %d", 3), -EINVAL);
        assert_int_equal(err_wrap(&e, r, "while loading %s", "f"), -EINVAL);
        assert_string_equal(err_text(&e), "while loading f: rule 3: bad port");
        assert_int_equal(e.code, EINVAL);
}

static void wraps_a_bare_code(void **state) {
        (void)state;
        struct err e = { 0 };
        assert_int_equal(err_wrap(&e, -ENOMEM, "while loading"), -ENOMEM);
        assert_string_equal(err_text(&e), "while loading: Cannot allocate memory");
}

static void takes_its_own_text_as_argument(void **state) {
        (void)state;
        struct err e = { 0 };
        err_set(&e, EINVAL, "inner");
        err_set(&e, EIO, "outer (%s)", err_text(&e));
        assert_string_equal(err_text(&e), "outer (inner)");
}

static void accepts_null(void **state) {
        (void)state;
        assert_int_equal(err_set(NULL, EINVAL, "x"), -EINVAL);
        errno = EACCES;
        assert_int_equal(err_errno(NULL, "x"), -EACCES);
        assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
        err_clear(NULL);
        assert_non_null(err_text(NULL));
}

static void marks_what_was_cut(void **state) {
        (void)state;
        char wide[2 * ERR_TEXT_MAX];
        memset(wide, 'w', sizeof wide);
        wide[sizeof wide - 1] = '\0';
        static const size_t lengths[] = { ERR_TEXT_MAX - 2, ERR_TEXT_MAX - 1, ERR_TEXT_MAX, 2 * ERR_TEXT_MAX - 1 };
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                struct err e = { 0 };
                err_set(&e, EINVAL, "%.*s", (int)lengths[i], wide);
                bool cut = lengths[i] >= ERR_TEXT_MAX;
                assert_int_equal(strlen(e.text), cut ? ERR_TEXT_MAX - 1 : lengths[i]);
                assert_int_equal(strcmp(e.text + strlen(e.text) - 3, "...") == 0, cut);
                err_wrap(&e, -EINVAL, "context");
                assert_memory_equal(e.text, "context: www", 12);
                assert_string_equal(e.text + ERR_TEXT_MAX - 4, "...");
                errno = EIO;
                err_errno(&e, "%s", wide);
                assert_string_equal(e.text + ERR_TEXT_MAX - 4, "...");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sets_code_and_text),
                cmocka_unit_test(adds_the_cause),
                cmocka_unit_test(wraps),
                cmocka_unit_test(wraps_a_bare_code),
                cmocka_unit_test(accepts_null),
                cmocka_unit_test(takes_its_own_text_as_argument),
                cmocka_unit_test(marks_what_was_cut),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
