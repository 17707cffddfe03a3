/* SPDX-License-Identifier: Apache-2.0 */
/* QR codes: one that zbar read, kept; what every one has; the longest. Reading them is tests/integration/kit/qr.py's.
 */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "ui/qr.h"

#include <errno.h>

static void as_another_program_read_it(void **state) {
        (void)state;
        static const char *const rows[] = {
                "#######.#.#.#.#######", "#.....#...##..#.....#", "#.###.#.##..#.#.###.#", "#.###.#.##..#.#.###.#",
                "#.###.#.#...#.#.###.#", "#.....#..###..#.....#", "#######.#.#.#.#######", ".....................",
                "####..#.###.##..###.#", "..####.#..#..########", ".#.#.###.....#...#.##", ".##.#..#.#.#...#.#.#.",
                "#.#...####..###.##..#", "........#.###...#....", "#######....#.#..#....", "#.....#..#..#..######",
                "#.###.#..###....#.##.", "#.###.#.#####.##...#.", "#.###.#.########..#..", "#.....#.#...#.###...#",
                "#######.#.#..##.###..",
        };
        struct qr qr;

        assert_int_equal(qr_make(STR("https://x/#pair"), &qr), 0);
        assert_int_equal(qr.size, sizeof rows / sizeof *rows);
        for (unsigned row = 0; row < qr.size; row++)
                for (unsigned column = 0; column < qr.size; column++)
                        assert_int_equal(qr.dark[row][column], rows[row][column] == '#');
}

/* The text that is just too long for one version is in the next. */
static void lengths(void **state) {
        (void)state;
        static const unsigned most[] = { 17, 32, 53, 78, 106, 134, 154, 192, 230 };
        char text[QR_TEXT_MAX + 1];
        struct qr qr;

        memset(text, 'x', sizeof text);
        for (unsigned version = 1; version <= 9; version++) {
                assert_int_equal(qr_make(str_n(text, most[version - 1]), &qr), 0);
                assert_int_equal(qr.size, version * 4 + 17);
                assert_true(qr.dark[qr.size - 8][8]);
                for (unsigned i = 8; i < qr.size - 8; i++)
                        assert_int_equal(qr.dark[6][i], i % 2 == 0);
                if (version < 9) {
                        assert_int_equal(qr_make(str_n(text, most[version - 1] + 1), &qr), 0);
                        assert_int_equal(qr.size, (version + 1) * 4 + 17);
                }
        }
        assert_int_equal(qr_make(str_n(text, sizeof text), &qr), -EMSGSIZE);
        assert_int_equal(qr_make(STR(""), &qr), 0);
}

static void drawn(void **state) {
        (void)state;
        cleanup(buf_done) struct buf plain = BUF(65536), coloured = BUF(65536), small = BUF(10);
        struct qr qr;
        size_t lines = 0;

        assert_int_equal(qr_make(STR("x"), &qr), 0);
        assert_int_equal(qr_draw(&qr, false, &plain), 0);
        assert_int_equal(qr_draw(&qr, true, &coloured), 0);
        for (size_t i = 0; i < plain.n; i++)
                lines += plain.p[i] == '\n';
        assert_int_equal(lines, (qr.size + 5) / 2);
        assert_null(memchr(plain.p, '\033', plain.n));
        assert_int_equal(coloured.p[0], '\033');
        assert_true(qr_draw(&qr, false, &small) < 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(as_another_program_read_it),
                cmocka_unit_test(lengths),
                cmocka_unit_test(drawn),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
