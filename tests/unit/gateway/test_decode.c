/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/decode.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#define TEXT "hello, hello, hello, hello\n"

/* The same text, as each format's own tools write it. */
static const unsigned char gzip_text[] = { 0x1f, 0x8b, 0x8,  0x0,  0x0,  0x0,  0x0,  0x0,  0x2,  0x3,
                                           0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xd7, 0x51, 0xc8, 0xc0, 0xa4,
                                           0xb8, 0x0,  0x4b, 0x21, 0xa1, 0x29, 0x1b, 0x0,  0x0,  0x0 };
static const unsigned char zlib_text[] = { 0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xd7, 0x51,
                                           0xc8, 0xc0, 0xa4, 0xb8, 0x0,  0x85, 0x55, 0x9,  0x3f };
static const unsigned char bare_text[] = { 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xd7, 0x51, 0xc8, 0xc0, 0xa4, 0xb8, 0x0 };
static const unsigned char brotli_text[] = { 0x1b, 0x1a, 0x0,  0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44,
                                             0x9,  0x52, 0x86, 0xd6, 0xa,  0x2c, 0x6c, 0x6f, 0x4a,
                                             0x91, 0x79, 0x22, 0x81, 0xbb, 0x5a, 0x0 };
static const unsigned char zstd_text[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x1b, 0x75, 0x0, 0x0,  0x40, 0x68, 0x65,
                                           0x6c, 0x6c, 0x6f, 0x2c, 0x20, 0xa,  0x1,  0x0, 0x4a, 0x8a, 0x11 };
/* 64 MiB of zeroes, and a window of 128 MiB. */
static const unsigned char brotli_bomb[] = {
        0xcb, 0xff, 0xff, 0x3f, 0x0,  0x24, 0x0,  0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf8, 0xff, 0xff, 0x7,
        0x80, 0x4,  0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0x0,  0x90, 0x0,  0x88, 0xc3,
        0x2,  0xd0, 0xbd, 0xff, 0xe3, 0xff, 0xff, 0x1f, 0x0,  0x12, 0x0,  0x71, 0x58, 0x0,  0xba, 0xf7, 0x7f,
        0xfc, 0xff, 0xff, 0x3,  0x40, 0x2,  0x20, 0xe,  0xb,  0x40, 0xf7, 0xfe, 0x8f, 0xff, 0xff, 0x7f, 0x0,
        0x48, 0x0,  0xc4, 0x61, 0x1,  0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0xf,  0x0,  0x9,  0x80, 0x38, 0x2c,
        0x0,  0xdd, 0xfb, 0x3f, 0xfe, 0xff, 0xff, 0x1,  0x20, 0x1,  0x10, 0x87, 0x5,  0xa0, 0x7b, 0xff, 0x37
};
static const unsigned char zstd_wide[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x0,  0x88, 0x51, 0x0,  0x0, 0x78,
                                           0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78 };

static const struct {
        enum coding coding;
        struct str bytes;
} cases[] = {
        { CODING_GZIP, { (const char *)gzip_text, sizeof gzip_text } },
        { CODING_DEFLATE, { (const char *)zlib_text, sizeof zlib_text } },
        { CODING_DEFLATE, { (const char *)bare_text, sizeof bare_text } },
        { CODING_BROTLI, { (const char *)brotli_text, sizeof brotli_text } },
        { CODING_ZSTD, { (const char *)zstd_text, sizeof zstd_text } },
};
enum { CASES = sizeof cases / sizeof *cases };

static void decoder_freep(struct decoder **d) {
        decoder_free(*d);
}

/* 0, or the error; what came out is in *out. The input in pieces, through room of a given size. */
static int run(enum coding coding, struct str in, size_t piece, size_t room, struct buf *out, bool *ret_whole) {
        cleanup(decoder_freep) struct decoder *d = NULL;
        char text[4096];
        int r = decoder_new(coding, &d);
        if (r < 0)
                return r;
        assert_true(decoder_is_whole(d)); /* an empty body is */
        while (in.n > 0) {
                struct str part = str_first(in, in.n < piece ? in.n : piece);
                in = str_skip(in, part.n);
                do {
                        ssize_t n = decoder_run(d, &part, text, room);
                        if (n < 0)
                                return (int)n;
                        assert_int_equal(buf_append(out, str_n(text, (size_t)n)), 0);
                } while (decoder_owes(d));
                assert_int_equal(part.n, 0);
        }
        *ret_whole = decoder_is_whole(d);
        return 0;
}

/* zstd of before it was settled, alone and behind a frame and one that is skipped; and these two without it. */
static void test_old_formats(void **state) {
        (void)state;
        static const char skipped[] = "\x5f\x2a\x4d\x18\x03\0\0\0abc",
                          old[] = "\x27\xb5\x2f\xfd\xc0\0\x20\x1b\x10\0\0\0";
        for (size_t piece = 1; piece < 64; piece++)
                for (unsigned parts = 1; parts < 8; parts++) {
                        cleanup(buf_done) struct buf in = BUF(256), out = BUF(256);
                        bool whole = false;
                        if (parts & 1)
                                assert_int_equal(buf_append(&in, str_n(zstd_text, sizeof zstd_text)), 0);
                        if (parts & 2)
                                assert_int_equal(buf_append(&in, str_n(skipped, sizeof skipped - 1)), 0);
                        if (parts & 4)
                                assert_int_equal(buf_append(&in, str_n(old, sizeof old - 1)), 0);
                        int r = run(CODING_ZSTD, buf_str(&in), piece, 4096, &out, &whole);
                        assert_int_equal(r, parts & 4 ? -EBADMSG : 0);
                        assert_int_equal(whole, !(parts & 4));
                        assert_int_equal(out.n, parts & 1 ? sizeof TEXT - 1 : 0);
                }
}

/* What can be told from the input so far comes out, however little room there is: its reader may wait for it. */
static void test_nothing_stays_behind(void **state) {
        (void)state;
        for (size_t i = 0; i < CASES; i++)
                for (size_t n = 1; n <= cases[i].bytes.n; n++) {
                        cleanup(buf_done) struct buf wide = BUF(4096), narrow = BUF(4096);
                        struct str in = str_first(cases[i].bytes, n);
                        bool whole;
                        assert_int_equal(run(cases[i].coding, in, in.n, 4096, &wide, &whole), 0);
                        assert_int_equal(run(cases[i].coding, in, in.n, 5, &narrow, &whole), 0);
                        assert_true(str_eq(buf_str(&wide), buf_str(&narrow)));
                }
}

static void test_names(void **state) {
        (void)state;
        assert_int_equal(coding_of(STR("")), CODING_IDENTITY);
        assert_int_equal(coding_of(STR("Identity")), CODING_IDENTITY);
        assert_int_equal(coding_of(STR("GZIP")), CODING_GZIP);
        assert_int_equal(coding_of(STR("x-gzip")), CODING_GZIP);
        assert_int_equal(coding_of(STR("deflate")), CODING_DEFLATE);
        assert_int_equal(coding_of(STR("br")), CODING_BROTLI);
        assert_int_equal(coding_of(STR("zstd")), CODING_ZSTD);
        static const char *const others[] = { "compress",    "gzip, br", "gzip,gzip", "gzi",
                                              "aws-chunked", "dcb",      "gzip;q=1" };
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                assert_int_equal(coding_of(str_of(others[i])), CODING_UNKNOWN);
        struct decoder *d;
        assert_int_equal(decoder_new(CODING_UNKNOWN, &d), -EINVAL);
        assert_int_equal(decoder_new(CODING_IDENTITY, &d), -EINVAL);
}

static void test_any_pieces_any_room(void **state) {
        (void)state;
        for (size_t i = 0; i < CASES; i++)
                for (size_t piece = 1; piece <= cases[i].bytes.n; piece++)
                        for (size_t room = 1; room <= 32; room++) {
                                cleanup(buf_done) struct buf out = BUF(4096);
                                bool whole = false;
                                assert_int_equal(run(cases[i].coding, cases[i].bytes, piece, room, &out, &whole), 0);
                                assert_true(whole);
                                assert_true(str_eq(buf_str(&out), STR(TEXT)));
                        }
}

/* Every beginning is a beginning and not a whole; what follows the end is an error, unless it is another of its kind.
 */
static void test_cut_short_and_too_long(void **state) {
        (void)state;
        for (size_t i = 0; i < CASES; i++) {
                struct str bytes = cases[i].bytes;
                for (size_t n = 1; n < bytes.n; n++) {
                        cleanup(buf_done) struct buf out = BUF(4096);
                        bool whole = true;
                        assert_int_equal(run(cases[i].coding, str_first(bytes, n), 7, 16, &out, &whole), 0);
                        assert_false(whole);
                }
                cleanup(buf_done) struct buf twice = BUF(4096);
                cleanup(buf_done) struct buf out = BUF(4096);
                bool whole = false, chains = cases[i].coding == CODING_GZIP || cases[i].coding == CODING_ZSTD;
                assert_int_equal(buf_append(&twice, bytes) | buf_append(&twice, bytes), 0);
                assert_int_equal(run(cases[i].coding, buf_str(&twice), 5, 16, &out, &whole), chains ? 0 : -EBADMSG);
                assert_true(str_eq(buf_str(&out), chains ? STR(TEXT TEXT) : STR(TEXT)) && whole == chains);
                twice.n = bytes.n;
                assert_int_equal(buf_add(&twice, "more"), 0);
                buf_clear(&out);
                assert_int_equal(run(cases[i].coding, buf_str(&twice), 64, 64, &out, &whole), -EBADMSG);
        }
}

static void test_limits(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        bool whole;
        assert_int_equal(run(CODING_BROTLI, str_n(brotli_bomb, sizeof brotli_bomb), 64, 4096, &out, &whole), -E2BIG);
        assert_true(out.n <= 17 << 20);
        buf_clear(&out);
        assert_int_equal(run(CODING_ZSTD, str_n(zstd_wide, sizeof zstd_wide), 64, 4096, &out, &whole), -EBADMSG);
}

static int decode(void *number) {
        static char text[256];
        struct buf out = { .p = text, .cap = sizeof text, .max = sizeof text };
        size_t i = *(size_t *)number;
        bool whole;
        return run(cases[i].coding, cases[i].bytes, 64, 64, &out, &whole);
}

/* Also that of zlib and brotli, which is ours. */
static void test_no_memory(void **state) {
        (void)state;
        for (size_t i = 0; i < CASES; i++)
                assert_true(alloc_fail_each(decode, &i) >= (cases[i].coding == CODING_ZSTD ? 1 : 2));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_nothing_stays_behind),
                cmocka_unit_test(test_old_formats),
                cmocka_unit_test(test_any_pieces_any_room),
                cmocka_unit_test(test_cut_short_and_too_long),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_no_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
