/* SPDX-License-Identifier: Apache-2.0 */
#include "base/escape.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

/* Input, what a person is shown, what JSON says. */
static const struct {
        struct str input;
        const char *text, *json;
} rows[] = {
        { { "plain text ~", 12 }, "plain text ~", "\"plain text ~\"" },
        { { "", 0 }, "", "\"\"" },
        { { "a\nb\r\t", 5 }, "a\\x0ab\\x0d\\x09", "\"a\\nb\\r\\t\"" },
        { { "a\0b", 3 }, "a\\x00b", "\"a\\u0000b\"" },
        { { "\033[31mred\033]0;t\a", 14 }, "\\x1b[31mred\\x1b]0;t\\x07", "\"\\u001b[31mred\\u001b]0;t\\u0007\"" },
        { { "back\\slash \"q\"", 14 }, "back\\\\slash \"q\"", "\"back\\\\slash \\\"q\\\"\"" },
        { { "\x7f\xc2\x9b", 3 }, "\\x7f\\u{9b}", "\"\\u007f\\u009b\"" },                 /* DEL, 8-bit CSI */
        { { "gr\xc3\xbc\xc3\x9f", 6 }, "gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"" }, /* letters stay */
        { { "\xe6\x97\xa5", 3 }, "\xe6\x97\xa5", "\"\xe6\x97\xa5\"" },                   /* U+65E5 */
        { { "\xf0\x9f\x94\x92", 4 }, "\xf0\x9f\x94\x92", "\"\xf0\x9f\x94\x92\"" },       /* U+1F512 */
        { { "a\xe2\x80\xaeMOC", 7 }, "a\\u{202e}MOC", "\"a\\u202eMOC\"" },               /* right to left override */
        { { "\xe2\x81\xa6x\xe2\x81\xa9", 7 }, "\\u{2066}x\\u{2069}", "\"\\u2066x\\u2069\"" }, /* isolates */
        { { "\xe2\x80\x8b\xef\xbb\xbf", 6 }, "\\u{200b}\\u{feff}", "\"\\u200b\\ufeff\"" },    /* nothing to see */
        { { "\xe3\x85\xa4\xc2\xad", 5 }, "\\u{3164}\\u{ad}", "\"\\u3164\\u00ad\"" }, /* Hangul filler, soft hyphen */
        { { "\xf3\xa0\x81\x81", 4 }, "\\u{e0041}", "\"\\udb40\\udc41\"" },           /* tag letter */
        { { "\xe2\x80\xa8", 3 }, "\\u{2028}", "\"\\u2028\"" },                       /* line separator */
        { { "\xff\xfe", 2 }, "\\xff\\xfe", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { { "\xc0\x80", 2 }, "\\xc0\\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },                      /* overlong NUL */
        { { "\xed\xa0\x80", 3 }, "\\xed\\xa0\\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* surrogate */
        { { "\xf4\x90\x80\x80", 4 }, "\\xf4\\x90\\x80\\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { { "x\xe2\x82", 3 }, "x\\xe2\\x82", "\"x\xef\xbf\xbd\xef\xbf\xbd\"" }, /* cut short */
};

static void shows_and_encodes(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                cleanup(buf_done) struct buf text = BUF(1000);
                cleanup(buf_done) struct buf json = BUF(1000);
                assert_int_equal(escape_text(&text, rows[i].input, 100), 0);
                assert_string_equal(buf_text(&text), rows[i].text);
                assert_int_equal(escape_json(&json, rows[i].input), 0);
                assert_string_equal(buf_text(&json), rows[i].json);
        }
}

static void clips_at_whole_characters(void **state) {
        (void)state;
        static const struct {
                const char *input;
                size_t max;
                const char *text;
        } clipped[] = {
                { "abcdef", 6, "abcdef" },         { "abcdef", 4, "abcd...(2 more)" },
                { "abcdef", 0, "...(6 more)" },    { "ab\xc3\xbc", 3, "ab...(2 more)" },
                { "ab\xc3\xbc", 4, "ab\xc3\xbc" }, { "ab\xc3", 3, "ab\\xc3" },
        };
        for (size_t i = 0; i < sizeof clipped / sizeof clipped[0]; i++) {
                cleanup(buf_done) struct buf out = BUF(1000);
                assert_int_equal(escape_text(&out, str_of(clipped[i].input), clipped[i].max), 0);
                assert_string_equal(buf_text(&out), clipped[i].text);
        }
}

static void quotes_for_the_shell(void **state) {
        (void)state;
        static const struct {
                const char *input, *word;
        } words[] = {
                { "plain-1.2_x/y:z=@%+,", "plain-1.2_x/y:z=@%+," },
                { "", "''" },
                { "a b", "'a b'" },
                { "it's", "'it'\\''s'" },
                { "$HOME", "'$HOME'" },
                { "`x`;&|<>*?[]{}()!#~\\\"", "'`x`;&|<>*?[]{}()!#~\\\"'" },
                { "~", "'~'" },
                { "a^b", "'a^b'" },
                { "\xc3\xbc", "'\xc3\xbc'" },
        };
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
                cleanup(buf_done) struct buf out = BUF(1000);
                assert_int_equal(escape_shell(&out, str_of(words[i].input)), 0);
                assert_string_equal(buf_text(&out), words[i].word);
        }
}

static void decodes_only_what_is_valid(void **state) {
        (void)state;
        /* Every code point there and back, by an encoder of our own. */
        for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 61) {
                char b[4];
                size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
                static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
                for (size_t i = 1; i < n; i++)
                        b[i] = (char)(0x80 | ((c >> (6 * (n - 1 - i))) & 0x3f));
                b[0] = (char)(lead[n] | (c >> (6 * (n - 1))));
                uint32_t decoded = 0;
                bool surrogate = c >= 0xd800 && c <= 0xdfff;
                assert_int_equal(utf8_decode(str_n(b, n), &decoded), surrogate ? 0 : n);
                assert_int_equal(decoded, surrogate ? 0 : c);
                assert_int_equal(utf8_decode(str_n(b, n - 1), &decoded), 0);
        }
        uint32_t untouched = 4711;
        for (unsigned first = 0x80; first <= 0xff; first++) {
                char alone[2] = { (char)first, 'x' };
                assert_int_equal(utf8_decode(str_n(alone, 2), &untouched), 0);
        }
        assert_int_equal(untouched, 4711);
}

static void full_buffers_are_reported(void **state) {
        (void)state;
        for (size_t max = 0; max < 12; max++) {
                cleanup(buf_done) struct buf text = BUF(max);
                cleanup(buf_done) struct buf json = BUF(max);
                cleanup(buf_done) struct buf word = BUF(max);
                assert_int_equal(escape_text(&text, STR("\n\n\n"), 10), -EMSGSIZE);
                assert_int_equal(escape_json(&json, STR("abc\x01\x01")), -EMSGSIZE);
                assert_int_equal(escape_shell(&word, STR("a b 'quoted'")), -EMSGSIZE);
        }
}

static int escape_everything(void *unused) {
        (void)unused;
        cleanup(buf_done) struct buf out = BUF(4096);
        int r =
            escape_text(&out, STR("some text that is long enough to make the buffer grow more than once\n\n\n"), 100);
        r = r < 0 ? r : escape_json(&out, STR("\xff\xff \xe2\x80\xae and a longer run of plain characters behind it"));
        return r < 0 ? r : escape_shell(&out, STR("it's a long word that needs quotes, and so is much longer"));
}

static void every_allocation_may_fail(void **state) {
        (void)state;
        alloc_fail_each(escape_everything, NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(shows_and_encodes),         cmocka_unit_test(clips_at_whole_characters),
                cmocka_unit_test(quotes_for_the_shell),      cmocka_unit_test(decodes_only_what_is_valid),
                cmocka_unit_test(full_buffers_are_reported), cmocka_unit_test(every_allocation_may_fail),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
