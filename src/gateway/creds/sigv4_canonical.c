/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of a request. Paths: S3 takes the path as it is, escaped once; every other service normalises it
 * (dot segments, doubled slashes) and escapes once more what is on the wire, so "%20" becomes "%2520". Queries: each
 * name and value escaped in one way, then sorted. Headers: lower-case names, values with runs of spaces made one.
 */
#include "gateway/creds/sigv4.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

enum { QUERY_PARAMETERS_MAX = 1024 };

static bool is_unreserved(char c) {
        return ascii_is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

int sigv4_encode(struct str text, bool keep_slash, struct buf *out) {
        static const char digits[] = "0123456789ABCDEF";
        int r = 0;
        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];
                char escape[3] = { '%', digits[c >> 4], digits[c & 15] };
                bool plain = is_unreserved((char)c) || (keep_slash && c == '/');

                if (plain)
                        r = buf_add_char(out, (char)c);
                else
                        r = buf_append(out, str_n(escape, 3));
        }

        return r;
}

/* Decodes once and encodes in the one way there is. */
static int canonical_recode(struct str text, bool keep_slash, struct buf *out) {
        int r = 0;
        while (r == 0 && text.n > 0) {
                char c = text.p[0];
                size_t width = 1;

                if (c == '%' && text.n >= 3 && ascii_hex(text.p[1]) >= 0 && ascii_hex(text.p[2]) >= 0) {
                        c = (char)(ascii_hex(text.p[1]) << 4 | ascii_hex(text.p[2]));
                        width = 3;
                }

                /* An escaped slash is part of a name, and stays escaped. */
                r = sigv4_encode(str_n(&c, 1), keep_slash && width == 1, out);
                text = str_skip(text, width);
        }

        return r;
}

/* RFC 3986, 5.2.4, and empty segments go too. Writes segments behind `start` of the buffer, which "..": takes back. */
static int canonical_normalise(struct str path, struct buf *out) {
        struct str segment;
        bool slash_at_end = path.n == 0 || path.p[path.n - 1] == '/';
        int r = 0;
        while (r == 0 && str_split(&path, '/', &segment)) {
                bool last = path.n == 0;

                if (str_eq(segment, STR(".."))) {
                        ptrdiff_t slash = str_rfind(buf_str(out), '/');

                        out->n = slash > 0 ? (size_t)slash : 0;
                        slash_at_end |= last;
                } else if (str_eq(segment, STR("."))) {
                        slash_at_end |= last;
                } else if (segment.n > 0) {
                        r = buf_add_char(out, '/');
                        if (r >= 0)
                                r = buf_append(out, segment);
                }
        }

        if (r == 0 && (slash_at_end || out->n == 0))
                r = buf_add_char(out, '/');

        return r;
}

int sigv4_canonical_path(struct str path, bool s3, struct buf *out) {
        if (s3) {
                if (path.n > 0)
                        return canonical_recode(path, true, out);
                return buf_add_char(out, '/');
        }

        cleanup(buf_done) struct buf plain = BUF(path.n + 2);
        int r = canonical_normalise(path, &plain);
        if (r < 0)
                return r;

        return sigv4_encode(buf_str(&plain), true, out);
}

struct parameter {
        struct str name, value; /* encoded */
};

static int compare_texts(struct str left, struct str right) {
        size_t common = min_of(left.n, right.n);
        int order = 0;

        if (common > 0)
                order = memcmp(left.p, right.p, common);

        if (order != 0)
                return order;
        if (left.n == right.n)
                return 0;

        if (left.n < right.n)
                return -1;

        return 1;
}

static int compare_parameters(const void *left, const void *right) {
        const struct parameter *one = left, *other = right;
        int order = compare_texts(one->name, other->name);
        if (order != 0)
                return order;

        return compare_texts(one->value, other->value);
}

int sigv4_canonical_query(struct str query, struct buf *out) {
        cleanup(buf_done) struct buf text = BUF(3 * query.n + 1);
        cleanup(free_ptr) struct parameter *list = calloc(QUERY_PARAMETERS_MAX, sizeof *list);
        struct str part;
        size_t n = 0;
        int r = list ? buf_reserve(&text, 3 * query.n + 1) : -ENOMEM; /* never moves after this */
        while (r == 0 && str_split(&query, '&', &part)) {
                if (part.n == 0)
                        continue;
                if (n == QUERY_PARAMETERS_MAX)
                        return -E2BIG;

                ptrdiff_t equals = str_find(part, '=');
                size_t name_at = text.n;
                r = canonical_recode(equals < 0 ? part : str_first(part, (size_t)equals), false, &text);
                list[n].name = str_skip(buf_str(&text), name_at);

                size_t value_at = text.n;
                if (r == 0 && equals >= 0)
                        r = canonical_recode(str_skip(part, (size_t)equals + 1), false, &text);

                list[n++].value = str_skip(buf_str(&text), value_at);
        }

        if (r == 0 && n > 1)
                qsort(list, n, sizeof *list, compare_parameters);

        for (size_t i = 0; r == 0 && i < n; i++) {
                if (i > 0)
                        r = buf_add_char(out, '&');
                else
                        r = 0;
                if (r >= 0)
                        r = buf_append(out, list[i].name);
                if (r >= 0)
                        r = buf_add_char(out, '=');
                if (r >= 0)
                        r = buf_append(out, list[i].value);
        }

        return r;
}

static int put_value(struct str value, struct buf *out) {
        int r = 0;
        bool space = false;

        value = str_trim(value);
        for (size_t i = 0; r == 0 && i < value.n; i++) {
                bool blank = value.p[i] == ' ' || value.p[i] == '\t';
                if (!blank || !space)
                        r = buf_add_char(out, blank ? ' ' : value.p[i]);
                space = blank;
        }

        return r;
}

int sigv4_canonical_header(const struct request_view *view, struct str name, struct buf *out) {
        bool first = true;
        int e = buf_append(out, name);

        if (e >= 0)
                e = buf_add_char(out, ':');
        if (e == 0 && str_eq(name, STR("host"))) {
                e = buf_append(out, view->host);
                first = false;
        }

        for (size_t i = 0; e == 0 && i < view->n_headers; i++) {
                if (!str_eq_nocase(view->headers[i].name, name) || str_eq(name, STR("host")))
                        continue;

                if (first)
                        e = 0;
                else
                        e = buf_add_char(out, ',');
                if (e >= 0)
                        e = put_value(view->headers[i].value, out);
                first = false;
        }

        if (e < 0)
                return e;

        return buf_add_char(out, '\n');
}
