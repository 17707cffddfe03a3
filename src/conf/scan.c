/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/scan.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "conf/suggest.h"

#include <errno.h>
#include <stdio.h>

char scan_peek(const struct scan *scan, size_t ahead) {
        return scan->at + ahead < scan->text.n ? scan->text.p[scan->at + ahead] : '\0';
}

bool scan_at_end(const struct scan *scan) {
        return scan->at >= scan->text.n;
}

void scan_skip(struct scan *scan, size_t n) {
        for (; n > 0 && !scan_at_end(scan); n--) {
                unsigned char c = (unsigned char)scan->text.p[scan->at++];

                if (c == '\n') {
                        scan->line++;
                        scan->column = 1;
                } else if ((c & 0xc0) != 0x80) {
                        scan->column++;
                }
        }
}

bool scan_take(struct scan *scan, const char *text) {
        if (!str_starts(str_skip(scan->text, scan->at), str_of(text)))
                return false;
        scan_skip(scan, strlen(text));
        return true;
}

int scan_error(struct scan *scan, const char *format, ...) {
        char text[ERR_TEXT_MAX / 2];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        return err_set(scan->err, EINVAL, "%s:%u:%u: %s", document_name(scan->document), scan->line, scan->column,
                       text);
}

int scan_unexpected(struct scan *scan, const char *wanted) {
        uint32_t c;
        size_t n;

        if (scan_at_end(scan))
                return scan_error(scan, "the file ends where %s was expected; it is only half there", wanted);
        n = utf8_decode(str_skip(scan->text, scan->at), &c);
        return scan_error(scan, "%s was expected here, not %s", wanted,
                          show(str_n(scan->text.p + scan->at, n ? n : 1)).text);
}

int scan_open(struct scan *scan, struct str text, struct str name, struct err *err) {
        int r;

        *scan = (struct scan){ .text = text, .line = 1, .column = 1, .err = err };
        r = document_new(name, &scan->document, err);
        if (r < 0)
                return r;
        if (text.n > DOCUMENT_BYTES_MAX)
                return scan_error(scan, "the file has more than %d MiB", DOCUMENT_BYTES_MAX >> 20);

        while (!scan_at_end(scan)) {
                uint32_t c = 0;
                size_t n = utf8_decode(str_skip(text, scan->at), &c);
                if (n == 0)
                        return scan_error(scan, "this byte is not UTF-8");
                if (c == 0)
                        return scan_error(scan, "a zero byte does not belong into a text file");

                scan_skip(scan, n);
        }

        scan->at = 0;
        scan->line = scan->column = 1;
        if (scan_take(scan, "\xef\xbb\xbf"))
                scan->column = 1;

        return 0;
}

struct node *scan_node(struct scan *scan, struct node *parent, enum node_kind kind) {
        struct node *n;

        if (scan->depth > NODE_DEPTH_MAX) {
                scan_error(scan, "nested deeper than %d levels", NODE_DEPTH_MAX);
                return NULL;
        }

        n = document_add(scan->document, parent, kind, scan->err);
        if (!n)
                return NULL;

        n->line = scan->line;
        n->column = scan->column;

        return n;
}

static int add_code_point(struct buf *out, uint32_t c) {
        char bytes[4];
        size_t n = 0;

        if (c < 0x80)
                bytes[n++] = (char)c;
        else if (c < 0x800)
                bytes[n++] = (char)(0xc0 | c >> 6);
        else if (c < 0x10000)
                bytes[n++] = (char)(0xe0 | c >> 12);
        else
                bytes[n++] = (char)(0xf0 | c >> 18);

        if (c >= 0x10000)
                bytes[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        if (c >= 0x800)
                bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        if (c >= 0x80)
                bytes[n++] = (char)(0x80 | (c & 0x3f));

        return buf_append(out, str_n(bytes, n));
}

/* Digits of \u and \U; the scan is behind the letter. */
static int read_hex(struct scan *scan, unsigned digits, uint32_t *ret) {
        uint32_t value = 0;

        for (unsigned i = 0; i < digits; i++) {
                int digit = ascii_hex(scan_peek(scan, 0));
                if (digit < 0)
                        return scan_unexpected(scan, "a hexadecimal digit");

                value = value << 4 | (uint32_t)digit;
                scan_skip(scan, 1);
        }

        *ret = value;
        return 0;
}

/* Two halves of a pair in JSON are one character. */
static int read_unicode(struct scan *scan, unsigned digits, enum scan_escapes escapes, struct buf *out) {
        uint32_t c = 0, low = 0;
        int r;

        r = read_hex(scan, digits, &c);
        if (r < 0)
                return r;

        if (escapes == SCAN_JSON && c >= 0xd800 && c < 0xdc00) {
                if (!scan_take(scan, "\\u"))
                        return scan_error(scan, "the second half of a surrogate pair is missing");

                r = read_hex(scan, 4, &low);
                if (r < 0)
                        return r;
                if (low < 0xdc00 || low > 0xdfff)
                        return scan_error(scan, "this is no second half of a surrogate pair");

                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }

        if (c == 0 || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
                return scan_error(scan, "the escape stands for no character that a text can hold");

        return add_code_point(out, c);
}

/* The scan is behind the backslash. */
static int read_escape(struct scan *scan, enum scan_escapes escapes, struct buf *out) {
        static const char letters[] = "\"\\/bfnrt'", values[] = "\"\\/\b\f\n\r\t'";
        char c = scan_peek(scan, 0);
        const char *found = c ? strchr(letters, c) : NULL;
        bool known = found && !(c == '/' && escapes != SCAN_JSON) && !(c == '\'' && escapes != SCAN_STARLARK);

        if (known) {
                scan_skip(scan, 1);
                return buf_add_char(out, values[found - letters]);
        }

        if (c == 'u' || (c == 'U' && escapes != SCAN_JSON)) {
                scan_skip(scan, 1);
                return read_unicode(scan, c == 'u' ? 4 : 8, escapes, out);
        }

        return scan_error(scan, "an escape that this format does not have");
}

int scan_string(struct scan *scan, char quote, enum scan_escapes escapes, struct str *ret) {
        cleanup(buf_done) struct buf out = BUF(DOCUMENT_BYTES_MAX);
        bool literal = escapes == SCAN_TOML && quote == '\'';
        int r = 0;

        scan_skip(scan, 1);

        while (r == 0) {
                unsigned char c = (unsigned char)scan_peek(scan, 0);
                if (c == (unsigned char)quote) {
                        scan_skip(scan, 1);
                        return document_text(scan->document, buf_str(&out), ret, scan->err);
                }

                if (scan_at_end(scan) || c == '\n' || c == '\r')
                        return scan_error(scan, "the string has no end on this line");
                if ((c < 0x20 && c != '\t') || c == 0x7f || (c == '\t' && escapes == SCAN_JSON))
                        return scan_error(scan, "a control character must be written as an escape in a string");

                scan_skip(scan, 1);
                if (c == '\\' && !literal)
                        r = read_escape(scan, escapes, &out);
                else
                        r = buf_add_char(&out, (char)c);
        }

        if (scan->err && scan->err->code)
                return r;

        return err_set(scan->err, -r, "out of memory");
}
