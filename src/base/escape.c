/* SPDX-License-Identifier: Apache-2.0 */
#include "base/escape.h"

size_t utf8_decode(struct str s, uint32_t *ret_code_point) {
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

        if (s.n == 0)
                return 0;

        unsigned char first = (unsigned char)s.p[0];
        if (first < 0x80) {
                *ret_code_point = first;
                return 1;
        }

        size_t length;
        if (first >= 0xf0)
                length = 4;
        else if (first >= 0xe0)
                length = 3;
        else if (first >= 0xc0)
                length = 2;
        else
                length = 0;

        if (length == 0 || first > 0xf4 || s.n < length)
                return 0;

        uint32_t code = first & (0x7fU >> length);

        for (size_t i = 1; i < length; i++) {
                unsigned char next = (unsigned char)s.p[i];
                if ((next & 0xc0) != 0x80)
                        return 0;
                code = code << 6 | (next & 0x3f);
        }

        if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
                return 0;

        *ret_code_point = code;
        return length;
}

/* Characters that change how the text around them is shown, or that show nothing: in order, so that a search ends
 * early. */
static const struct {
        uint32_t first, last;
} deceiving[] = {
        { 0x0, 0x1f },         { 0x7f, 0x9f },       /* controls */
        { 0xad, 0xad },        { 0x34f, 0x34f },     /* soft hyphen, grapheme joiner */
        { 0x61c, 0x61c },      { 0x115f, 0x1160 },   /* Arabic letter mark, Hangul fillers */
        { 0x17b4, 0x17b5 },    { 0x180b, 0x180f },   /* Khmer inherent vowels, Mongolian selectors */
        { 0x200b, 0x200f },    { 0x2028, 0x202e },   /* zero width, line breaks, bidirectional */
        { 0x2060, 0x206f },    { 0x2800, 0x2800 },   /* invisible operators, isolates, blank Braille */
        { 0x3164, 0x3164 },    { 0xfe00, 0xfe0f },   /* Hangul filler, variation selectors */
        { 0xfeff, 0xfeff },    { 0xffa0, 0xffa0 },   /* byte order mark, half-width filler */
        { 0xfff0, 0xfffb },    { 0xfffe, 0xffff },   /* annotations, noncharacters */
        { 0x1bca0, 0x1bca3 },  { 0x1d173, 0x1d17a }, /* shorthand and musical format controls */
        { 0xe0000, 0x10ffff },                       /* tags, more selectors, private planes */
};

static bool escape_deceives(uint32_t c) {
        if (c >= 0x20 && c < 0x7f)
                return false;
        for (size_t i = 0; i < sizeof deceiving / sizeof deceiving[0] && c >= deceiving[i].first; i++)
                if (c <= deceiving[i].last)
                        return true;
        return false;
}

int escape_text(struct buf *out, struct str s, size_t max) {
        size_t shown = 0;
        while (shown < s.n && shown < max) {
                struct str rest = str_skip(s, shown);
                uint32_t code = 0;
                size_t n = utf8_decode(rest, &code);
                int r;

                if (n > max - shown)
                        break; /* a character is shown whole or not at all */

                if (n == 0)
                        r = buf_printf(out, "\\x%02x", (unsigned char)rest.p[0]);
                else if (code == '\\')
                        r = buf_add(out, "\\\\");
                else if (escape_deceives(code))
                        r = buf_printf(out, code < 0x80 ? "\\x%02x" : "\\u{%x}", code);
                else
                        r = buf_append(out, str_first(rest, n));

                if (r < 0)
                        return r;

                shown += n ? n : 1;
        }

        if (shown < s.n)
                return buf_printf(out, "...(%zu more)", s.n - shown);

        return 0;
}

/* Runs of plain characters are copied in one piece: most strings are one run. */
static size_t plain_json_run(struct str s) {
        size_t n = 0;
        while (n < s.n && (unsigned char)s.p[n] >= 0x20 && (unsigned char)s.p[n] < 0x7f && s.p[n] != '"' &&
               s.p[n] != '\\')
                n++;
        return n;
}

/* Beyond the first plane JSON spells a character as two halves. */
static int json_code(struct buf *out, uint32_t code) {
        switch (code) {
        case '\n':
                return buf_add(out, "\\n");
        case '\r':
                return buf_add(out, "\\r");
        case '\t':
                return buf_add(out, "\\t");
        default:
                break;
        }

        if (code < 0x10000)
                return buf_printf(out, "\\u%04x", code);

        code -= 0x10000;
        return buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

int escape_json(struct buf *out, struct str s) {
        int r = buf_add_char(out, '"');
        while (r == 0 && s.n > 0) {
                size_t run = plain_json_run(s);
                if (run > 0) {
                        r = buf_append(out, str_first(s, run));
                        s = str_skip(s, run);
                        continue;
                }

                uint32_t code = 0;
                size_t n = utf8_decode(s, &code);
                if (n == 0)
                        r = buf_add(out, "\xef\xbf\xbd");
                else if (code == '"' || code == '\\')
                        r = buf_printf(out, "\\%c", (char)code);
                else if (escape_deceives(code))
                        r = json_code(out, code);
                else
                        r = buf_append(out, str_first(s, n));

                s = str_skip(s, n ? n : 1);
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '"');
}

int escape_shell(struct buf *out, struct str s) {
        static const char safe[] = "@%+=:,./-_";
        bool plain = s.n > 0;
        for (size_t i = 0; i < s.n && plain; i++)
                plain = ascii_is_alnum(s.p[i]) || (s.p[i] && strchr(safe, s.p[i]));

        if (plain)
                return buf_append(out, s);

        int r = buf_add_char(out, '\'');
        for (size_t i = 0; i < s.n && r == 0; i++)
                r = s.p[i] == '\'' ? buf_add(out, "'\\''") : buf_add_char(out, s.p[i]);

        if (r < 0)
                return r;

        return buf_add_char(out, '\'');
}
