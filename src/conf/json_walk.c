/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/json_walk.h"

#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <errno.h>

struct walk {
        struct str left; /* not yet read */
        json_visit *visit;
        void *arg;
        struct buf pointer;
};

static int walk_value(struct walk *walk, struct str key, unsigned depth);

static void skip_space(struct walk *walk) {
        while (walk->left.n > 0 && strchr(" \t\r\n", walk->left.p[0]) && walk->left.p[0] != '\0')
                walk->left = str_skip(walk->left, 1);
}

static bool take_char(struct walk *walk, char wanted) {
        skip_space(walk);
        if (walk->left.n == 0 || walk->left.p[0] != wanted)
                return false;
        walk->left = str_skip(walk->left, 1);
        return true;
}

static bool is_hex4(struct str s) {
        return s.n >= 4 && ascii_hex(s.p[0]) >= 0 && ascii_hex(s.p[1]) >= 0 && ascii_hex(s.p[2]) >= 0 &&
               ascii_hex(s.p[3]) >= 0;
}

/* From the opening quote to behind the closing one. */
static int take_string(struct walk *walk, struct str *ret_raw) {
        struct str s = walk->left;
        size_t i = 1;

        if (s.n == 0 || s.p[0] != '"')
                return -EBADMSG;

        for (; i < s.n && s.p[i] != '"'; i++) {
                if ((unsigned char)s.p[i] < 0x20)
                        return -EBADMSG;
                if (s.p[i] != '\\')
                        continue;

                i++;
                if (i >= s.n || s.p[i] == '\0' || !strchr("\"\\/bfnrtu", s.p[i]))
                        return -EBADMSG;
                if (s.p[i] == 'u' && !is_hex4(str_skip(s, i + 1)))
                        return -EBADMSG;
        }

        if (i >= s.n)
                return -EBADMSG;

        *ret_raw = str_first(s, i + 1);
        walk->left = str_skip(s, i + 1);

        return 0;
}

static bool is_number(struct str s) {
        size_t i = s.n > 0 && s.p[0] == '-', digits = i;

        while (i < s.n && ascii_is_digit(s.p[i]))
                i++;

        if (i == digits || (s.p[digits] == '0' && i > digits + 1))
                return false;

        if (i < s.n && s.p[i] == '.') {
                digits = ++i;
                while (i < s.n && ascii_is_digit(s.p[i]))
                        i++;
                if (i == digits)
                        return false;
        }

        if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
                i++;
                i += i < s.n && (s.p[i] == '+' || s.p[i] == '-');
                digits = i;

                while (i < s.n && ascii_is_digit(s.p[i]))
                        i++;

                if (i == digits)
                        return false;
        }

        return i == s.n;
}

/* A number, true, false or null. */
static int take_word(struct walk *walk, struct str *ret_raw) {
        size_t n = 0;

        while (n < walk->left.n && (ascii_is_alnum(walk->left.p[n]) || strchr("+-.", walk->left.p[n])) &&
               walk->left.p[n] != '\0')
                n++;

        struct str word = str_first(walk->left, n);
        if (!str_is(word, "true") && !str_is(word, "false") && !str_is(word, "null") && !is_number(word))
                return -EBADMSG;

        *ret_raw = word;
        walk->left = str_skip(walk->left, n);

        return 0;
}

/* One step more: "~" and "/" in a key are escaped. */
static int push_step(struct walk *walk, struct str key) {
        int r = buf_add_char(&walk->pointer, '/');

        for (size_t i = 0; r == 0 && i < key.n; i++) {
                if (key.p[i] == '~')
                        r = buf_add(&walk->pointer, "~0");
                else if (key.p[i] == '/')
                        r = buf_add(&walk->pointer, "~1");
                else
                        r = buf_add_char(&walk->pointer, key.p[i]);
        }

        if (r < 0)
                return -E2BIG;

        return 0;
}

static int walk_object(struct walk *walk, unsigned depth) {
        bool first = true;

        while (!take_char(walk, '}')) {
                struct str raw, key;
                size_t before = walk->pointer.n;
                cleanup(buf_done) struct buf plain = BUF(JSON_POINTER_MAX);

                if (!first && !take_char(walk, ','))
                        return -EBADMSG;

                first = false;
                skip_space(walk);
                int r = take_string(walk, &raw);
                if (r < 0)
                        return r;

                key = str_n(raw.p + 1, raw.n - 2);
                const struct json_scalar name = { .raw = raw, .is_string = true };
                if (json_scalar_text(&name, &plain) < 0)
                        return -E2BIG;
                if (!take_char(walk, ':'))
                        return -EBADMSG;

                r = push_step(walk, buf_str(&plain));
                if (r >= 0)
                        r = walk_value(walk, key, depth);
                if (r < 0)
                        return r;

                walk->pointer.n = before;
        }

        return 0;
}

static int walk_list(struct walk *walk, unsigned depth) {
        char number[24];

        for (size_t i = 0; !take_char(walk, ']'); i++) {
                size_t before = walk->pointer.n;
                struct buf text = { .p = number, .cap = sizeof number, .max = sizeof number };

                if (i > 0 && !take_char(walk, ','))
                        return -EBADMSG;
                if (buf_printf(&text, "%zu", i) < 0)
                        return -E2BIG;

                int r = push_step(walk, buf_str(&text));
                if (r >= 0)
                        r = walk_value(walk, STR(""), depth);
                if (r < 0)
                        return r;

                walk->pointer.n = before;
        }

        return 0;
}

static int walk_value(struct walk *walk, struct str key, unsigned depth) {
        struct json_scalar scalar = { .key = key };
        int r;

        if (depth == JSON_WALK_DEPTH)
                return -E2BIG;
        if (take_char(walk, '{'))
                return walk_object(walk, depth + 1);
        if (take_char(walk, '['))
                return walk_list(walk, depth + 1);

        scalar.is_string = walk->left.n > 0 && walk->left.p[0] == '"';
        r = scalar.is_string ? take_string(walk, &scalar.raw) : take_word(walk, &scalar.raw);
        if (r < 0)
                return r;

        scalar.pointer = buf_str(&walk->pointer);
        return walk->visit(walk->arg, &scalar);
}

int json_walk(struct str text, json_visit *visit, void *arg) {
        struct walk walk = { .left = text, .visit = visit, .arg = arg, .pointer = BUF(JSON_POINTER_MAX) };
        int r = walk_value(&walk, STR(""), 0);

        skip_space(&walk);
        if (r == 0 && walk.left.n > 0)
                r = -EBADMSG;

        buf_done(&walk.pointer);
        return r;
}

/* strings */

static int put_utf8(struct buf *out, uint32_t c) {
        char bytes[4];
        size_t n = 0;

        if (c < 0x80) {
                bytes[n++] = (char)c;
        } else if (c < 0x800) {
                bytes[n++] = (char)(0xc0 | c >> 6);
                bytes[n++] = (char)(0x80 | (c & 63));
        } else if (c < 0x10000) {
                bytes[n++] = (char)(0xe0 | c >> 12);
                bytes[n++] = (char)(0x80 | (c >> 6 & 63));
                bytes[n++] = (char)(0x80 | (c & 63));
        } else {
                bytes[n++] = (char)(0xf0 | c >> 18);
                bytes[n++] = (char)(0x80 | (c >> 12 & 63));
                bytes[n++] = (char)(0x80 | (c >> 6 & 63));
                bytes[n++] = (char)(0x80 | (c & 63));
        }

        return buf_append(out, str_n(bytes, n));
}

static uint32_t walk_hex4(const char *p) {
        uint32_t c = 0;
        for (size_t i = 0; i < 4; i++)
                c = c << 4 | (uint32_t)ascii_hex(p[i]);
        return c;
}

/* "\uXXXX", with its second half if it is a pair. Returns how many bytes it is long. */
static size_t put_escaped(struct buf *out, struct str s, int *ret) {
        uint32_t c = walk_hex4(s.p + 2);
        size_t n = 6;

        if (c >= 0xd800 && c < 0xdc00 && s.n >= 12 && s.p[6] == '\\' && s.p[7] == 'u') {
                uint32_t low = walk_hex4(s.p + 8);
                if (low >= 0xdc00 && low < 0xe000) {
                        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                        n = 12;
                }
        }

        *ret = put_utf8(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
        return n;
}

int json_scalar_text(const struct json_scalar *scalar, struct buf *out) {
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        int r = 0;

        if (!scalar->is_string)
                return -EINVAL;

        struct str s = str_n(scalar->raw.p + 1, scalar->raw.n - 2);
        for (size_t i = 0; r == 0 && i < s.n; i++) {
                if (s.p[i] != '\\') {
                        r = buf_add_char(out, s.p[i]);
                        continue;
                }

                const char *letter = strchr(letters, s.p[i + 1]);

                if (s.p[i + 1] == 'u') {
                        i += put_escaped(out, str_skip(s, i), &r) - 1;
                        continue;
                }

                r = buf_add_char(out, letter ? meant[letter - letters] : s.p[i + 1]);
                i++;
        }

        return r;
}

int json_quote(struct str text, struct buf *out) {
        int r = buf_add_char(out, '"');

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];
                if (c == '"' || c == '\\')
                        r = buf_printf(out, "\\%c", c);
                else if (c < 0x20)
                        r = buf_printf(out, "\\u%04x", c);
                else
                        r = buf_add_char(out, (char)c);
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '"');
}

/* finding and editing */

struct finding {
        struct str pointer;
        struct buf *out;
        bool found;
};

static int find_visit(void *arg, const struct json_scalar *scalar) {
        struct finding *finding = arg;

        if (!scalar->is_string || scalar->raw.n == 2 || !str_eq(scalar->pointer, finding->pointer))
                return 0;
        if (finding->found)
                return -ENOTUNIQ;

        finding->found = true;
        return json_scalar_text(scalar, finding->out);
}

int json_find(struct str text, struct str pointer, struct buf *out) {
        struct finding finding = { .pointer = pointer, .out = out };
        int r = json_walk(text, find_visit, &finding);

        if (r < 0)
                return r;
        if (!finding.found)
                return -ENOENT;

        return 0;
}

struct editing {
        const char *copied; /* up to here */
        json_replace *replace;
        void *arg;
        struct buf *out;
};

static int edit_visit(void *arg, const struct json_scalar *scalar) {
        struct editing *e = arg;
        struct buf instead = BUF(e->out->max);
        int r = e->replace(e->arg, scalar, &instead);

        if (r > 0) {
                r = buf_append(e->out, str_n(e->copied, (size_t)(scalar->raw.p - e->copied)));
                if (r >= 0)
                        r = buf_append(e->out, buf_str(&instead));
                e->copied = scalar->raw.p + scalar->raw.n;
        }

        if (instead.p)
                secret_wipe(instead.p, instead.cap);

        buf_done(&instead);
        if (r < 0)
                return r;

        return 0;
}

int json_edit(struct str text, json_replace *replace, void *arg, struct buf *out) {
        struct editing editing = { .copied = text.p, .replace = replace, .arg = arg, .out = out };
        int r = json_walk(text, edit_visit, &editing);

        if (r < 0)
                return r;

        return buf_append(out, str_n(editing.copied, (size_t)(text.p + text.n - editing.copied)));
}

bool json_pointer_matches(struct str pattern, struct str pointer) {
        struct str wanted, step;

        for (;;) {
                bool more = str_split(&pattern, '/', &wanted), has = str_split(&pointer, '/', &step);
                if (!more || !has)
                        return more == has;
                if (!str_is(wanted, "*") && !str_eq(wanted, step))
                        return false;
        }
}
