/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include "../cmocka_all.h"

#include <string.h>

static void fills_all_of_it(void **state) {
        (void)state;
        /* Every byte must change at some point; the chance that one does not is 256^-16. */
        enum { N = 700 };
        unsigned char bytes[N + 1], seen[N] = { 0 };
        for (int round = 0; round < 16; round++) {
                memset(bytes, 0, sizeof bytes);
                random_bytes(bytes, N);
                assert_int_equal(bytes[N], 0);
                for (size_t i = 0; i < N; i++)
                        seen[i] |= bytes[i];
        }
        assert_null(memchr(seen, 0, N));
        random_bytes(NULL, 0);
}

static void ids_are_readable_and_differ(void **state) {
        (void)state;
        char ids[200][13], counts[128] = { 0 };
        for (int i = 0; i < 200; i++) {
                random_id(ids[i], sizeof ids[i]);
                assert_int_equal(strlen(ids[i]), 12);
                for (const char *c = ids[i]; *c; c++) {
                        assert_non_null(strchr("abcdefghjkmnpqrstuvwxyz023456789", *c));
                        counts[(unsigned char)*c] = 1;
                }
                for (int j = 0; j < i; j++)
                        assert_string_not_equal(ids[i], ids[j]);
        }
        int different = 0;
        for (int c = 0; c < 128; c++)
                different += counts[c];
        assert_int_equal(different, 32); /* the whole alphabet is used */
        char one[1] = { 'x' };
        random_id(one, 1);
        assert_int_equal(one[0], 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(fills_all_of_it),
                cmocka_unit_test(ids_are_readable_and_differ),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
