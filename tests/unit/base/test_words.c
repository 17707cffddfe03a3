/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include "base/cleanup.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#include <errno.h>

static void come_back_as_they_were(void **state) {
        (void)state;
        char *const words[] = { (char *)"sh", (char *)"", (char *)"a b\n", (char *)"\xff", (char *)"", NULL };
        cleanup(buf_done) struct buf bytes = BUF(100);
        cleanup(free_ptr) char **found = NULL;
        size_t n = 0;

        assert_int_equal(words_pack(words, &bytes), 0);
        assert_int_equal(words_unpack(buf_str(&bytes), &found, &n), 0);
        assert_int_equal(n, 5);
        for (size_t i = 0; i < n; i++)
                assert_string_equal(found[i], words[i]);
        assert_null(found[n]);
}

static void more_than_fits(void **state) {
        (void)state;
        char *const words[] = { (char *)"1234", (char *)"5678", NULL };
        cleanup(buf_done) struct buf bytes = BUF(9);

        assert_true(words_pack(words, &bytes) < 0);
}

static void bytes_that_are_no_words(void **state) {
        (void)state;
        char **found = NULL;
        size_t n = 0;

        assert_int_equal(words_unpack(str_n(NULL, 0), &found, &n), -EBADMSG);
        assert_int_equal(words_unpack(STR("a\0b"), &found, &n), -EBADMSG);
        assert_null(found);
}

static void without_memory(void **state) {
        (void)state;
        char **found = NULL;
        size_t n = 0;

        alloc_fail_at(1);
        assert_int_equal(words_unpack(str_n("a\0b", 4), &found, &n), -ENOMEM);
        alloc_fail_at(0);
        assert_null(found);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(come_back_as_they_were),
                cmocka_unit_test(more_than_fits),
                cmocka_unit_test(bytes_that_are_no_words),
                cmocka_unit_test(without_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
