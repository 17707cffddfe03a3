/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/request_path.h"

#include "base/escape.h"

#include <stdlib.h>

/* One byte of the path, decoded; *ret_n is how long it is written. Negative: an escape that is none. */
static int byte_at(struct str path, size_t at, size_t *ret_n) {
        unsigned char c = (unsigned char)path.p[at];

        *ret_n = 1;
        if (c != '%')
                return c;
        if (path.n - at < 3)
                return -1;

        int high = ascii_hex(path.p[at + 1]), low = ascii_hex(path.p[at + 2]);
        if (high < 0 || low < 0)
                return -1;

        *ret_n = 3;
        return high << 4 | low;
}

/* Written as it is: printable ASCII, and nothing that ends a path. Encoded: nothing that is worth hiding. */
static bool is_plain_byte(int byte, bool encoded) {
        if (byte < 0x20 || byte == 0x7f || byte == '\\')
                return false;
        if (encoded)
                return byte != '.' && byte != '/' && byte != '%';
        return byte > 0x20 && byte < 0x7f && byte != '#' && byte != '?';
}

/* What compatibility normalisation, or a server's old code page, turns into one of . / \ % ; */
static bool is_disguised(uint32_t point) {
        static const uint32_t points[] = {
                0x2024, 0x2025,                         /* leaders of one dot and two */
                0x2044, 0x2215, 0x29f8, 0xff0f,         /* '/' */
                0x2216, 0x29f5, 0x29f9, 0xfe68, 0xff3c, /* '\' */
                0xfe52, 0xff0e,                         /* '.' */
                0xfe54, 0xff1b,                         /* ';' */
                0xfe6a, 0xff05,                         /* '%' */
        };
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
                if (points[i] == point)
                        return true;

        return false;
}

/* The encoded bytes above ASCII that begin here are one character: overlong forms and stray bytes are none. */
static bool is_plain_character(struct str path, size_t at, size_t *ret_n) {
        char bytes[4];
        size_t n = 0, used = 0, step;

        while (n < sizeof bytes && at + used < path.n) {
                int byte = byte_at(path, at + used, &step);
                if (byte < 0x80)
                        break;

                bytes[n++] = (char)byte;
                used += step;
        }

        uint32_t point;
        size_t length = utf8_decode(str_n(bytes, n), &point);
        *ret_n = 3 * length; /* each byte of it is written as %XX: raw ones are refused before */

        return length > 0 && !is_disguised(point);
}

static bool bytes_are_plain(struct str path) {
        size_t n;

        for (size_t at = 0; at < path.n; at += n) {
                int byte = byte_at(path, at, &n);
                if (byte < 0 || !is_plain_byte(byte, n > 1))
                        return false;
                if (byte >= 0x80 && !is_plain_character(path, at, &n))
                        return false;
        }

        return true;
}

/* The segment up to its parameter, which begins with ';' or "%3b". */
static struct str without_parameter(struct str segment) {
        size_t n;

        for (size_t at = 0; at < segment.n; at += n)
                if (byte_at(segment, at, &n) == ';')
                        return str_first(segment, at);
        return segment;
}

/* "." and "..", and with blanks among them: servers on other systems drop those. Three dots are a name. */
static bool is_dots(struct str segment) {
        size_t n, blanks = 0;

        for (size_t at = 0; at < segment.n; at += n) {
                int byte = byte_at(segment, at, &n);
                if (byte != '.' && byte != ' ')
                        return false;
                blanks += byte == ' ';
        }

        return segment.n > 0 && (segment.n < 3 || blanks > 0);
}

/* Empty ones are merged by many servers; only the last may be empty, as the path ends in '/' then. */
static bool segments_are_plain(struct str path) {
        struct str rest = str_skip(path, 1), segment;

        while (str_split(&rest, '/', &segment)) {
                struct str name = without_parameter(segment);
                bool last = segment.p + segment.n == path.p + path.n;

                if (is_dots(name))
                        return false;
                if (name.n == 0 && !(last && segment.n == 0))
                        return false;
        }

        return true;
}

static struct str drop_parameters(struct str path, char *out) {
        struct str rest = path, segment;
        size_t n = 0;

        while (str_split(&rest, '/', &segment)) {
                struct str name = without_parameter(segment);

                if (n > 0 || segment.p != path.p)
                        out[n++] = '/';
                if (name.n > 0)
                        memcpy(out + n, name.p, name.n);

                n += name.n;
        }

        return str_n(out, n);
}

static struct str cut_at_end_mark(struct str path) {
        size_t n;

        for (size_t at = 0; at < path.n; at += n) {
                int byte = byte_at(path, at, &n);
                if (byte == '?' || byte == '#')
                        return str_first(path, at);
        }

        return path;
}

void request_readings_of(struct str path, struct request_readings *ret) {
        *ret = (struct request_readings){ 0 };
        if (path.n == 0 || path.p[0] != '/' || !bytes_are_plain(path) || !segments_are_plain(path))
                return;

        struct str cut = cut_at_end_mark(path);
        bool parameters = without_parameter(path).n < path.n;
        if (parameters) {
                ret->memory = malloc(path.n);
                if (!ret->memory)
                        return;
                ret->at[ret->n++] = drop_parameters(path, ret->memory);
        }

        if (cut.n < path.n)
                ret->at[ret->n++] = parameters ? cut_at_end_mark(ret->at[0]) : cut;

        ret->at[ret->n++] = path;
}

void request_readings_done(struct request_readings *readings) {
        free(readings->memory);
        readings->memory = NULL;
}

struct str request_path_fold(struct str reading, char *out) {
        size_t n = 0, step;

        for (size_t at = 0; at < reading.n; at += step) {
                int byte = byte_at(reading, at, &step);
                out[n++] = ascii_lower(byte < 0 ? '%' : (char)byte);
        }

        while (n > 1 && out[n - 1] == '/')
                n--;

        return str_n(out, n);
}

struct str request_path_without_suffix(struct str folded) {
        ptrdiff_t slash = str_rfind(folded, '/'), dot;
        size_t first = (size_t)(slash + 1);

        dot = str_find(str_skip(folded, first), '.');
        return dot > 0 ? str_first(folded, first + (size_t)dot) : folded;
}
