/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "../alloc_fail.h"
#include "base/cleanup.h"

#include <errno.h>

#include "../cmocka_all.h"

static void pieces_are_zeroed_aligned_and_apart(void **state) {
        (void)state;
        cleanup(arena_done) struct arena arena = ARENA_UNLIMITED;
        char *before = NULL;

        for (size_t n = 1; n < 3000; n += 7) {
                char *piece = arena_get(&arena, n);
                assert_non_null(piece);
                assert_int_equal((uintptr_t)piece % 16, 0);
                for (size_t i = 0; i < n; i++)
                        assert_int_equal(piece[i], 0);
                memset(piece, 0x5a, n);
                if (before)
                        assert_int_equal(before[0], 0x5a);
                before = piece;
        }
}

static void text_takes_what_it_needs(void **state) {
        (void)state;
        cleanup(arena_done) struct arena arena = ARENA_UNLIMITED;

        char *one = arena_text(&arena, 3), *two = arena_text(&arena, 5);
        assert_ptr_equal(two, one + 3);
        assert_int_equal((uintptr_t)arena_get(&arena, 1) % 16, 0); /* after text, too */

        struct str copy = arena_copy(&arena, STR("a\0b"));
        assert_int_equal(copy.n, 3);
        assert_memory_equal(copy.p, "a\0b", 4);
        assert_int_equal(arena_copy(&arena, STR("")).n, 0);
        assert_non_null(arena_copy(&arena, STR("")).p);
}

static void large_pieces_have_a_block_of_their_own(void **state) {
        (void)state;
        cleanup(arena_done) struct arena arena = ARENA_UNLIMITED;

        char *large = arena_get(&arena, 100000);
        assert_non_null(large);
        memset(large, 1, 100000);
        assert_non_null(arena_get(&arena, 16));
        assert_null(arena_get(&arena, SIZE_MAX));
        assert_null(arena_get(&arena, SIZE_MAX - 15));
        assert_null(arena_text(&arena, SIZE_MAX - 8));
}

static void the_limit_holds_for_all_of_it(void **state) {
        (void)state;
        cleanup(arena_done) struct arena arena = ARENA(64);

        assert_non_null(arena_get(&arena, 32));
        assert_null(arena_get(&arena, 48));
        assert_non_null(arena_get(&arena, 32));
        assert_null(arena_get(&arena, 1));
        arena_done(&arena);
        assert_non_null(arena_get(&arena, 64)); /* empty again, with the same limit */
}

static int fill(void *unused) {
        (void)unused;
        cleanup(arena_done) struct arena arena = ARENA_UNLIMITED;

        for (int i = 0; i < 40; i++)
                if (!arena_get(&arena, 4096))
                        return -ENOMEM;
        return 0;
}

static void without_memory_it_says_so(void **state) {
        (void)state;
        assert_true(alloc_fail_each(fill, NULL) >= 10);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
                cmocka_unit_test(text_takes_what_it_needs),
                cmocka_unit_test(large_pieces_have_a_block_of_their_own),
                cmocka_unit_test(the_limit_holds_for_all_of_it),
                cmocka_unit_test(without_memory_it_says_so),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
