/* SPDX-License-Identifier: Apache-2.0 */
#include "import/compare.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/vec.h"

#include <errno.h>

enum { LINES_MAX = 2000, LINE_SHOWN_MAX = 1000 };

typedef VEC(struct str) line_list;

static void lines_done(line_list *lines) {
        vec_done(lines);
}

static int lines_of(struct str text, line_list *ret) {
        struct str line;

        while (str_split(&text, '\n', &line))
                if (vec_push(ret, line) < 0)
                        return -ENOMEM;
        return 0;
}

static int put_line(struct buf *out, char mark, struct str line) {
        int r = buf_printf(out, "%c ", mark);

        if (r == 0)
                r = escape_text(out, line, LINE_SHOWN_MAX);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

/* lengths[i][j]: the longest common part of what follows line i of a and line j of b. */
static void fill_lengths(const line_list *a, const line_list *b, uint16_t *lengths) {
        size_t width = b->n + 1;

        for (size_t i = a->n; i-- > 0;)
                for (size_t j = b->n; j-- > 0;) {
                        uint16_t below = lengths[(i + 1) * width + j], beside = lengths[i * width + j + 1];

                        if (str_eq(a->p[i], b->p[j]))
                                lengths[i * width + j] = (uint16_t)(lengths[(i + 1) * width + j + 1] + 1);
                        else
                                lengths[i * width + j] = max_of(below, beside);
                }
}

int import_compare(struct str before, struct str after, struct buf *out) {
        cleanup(lines_done) line_list a = { 0 }, b = { 0 };
        size_t i = 0, j = 0, width;
        int r;

        if (str_eq(before, after))
                return 0;

        r = lines_of(before, &a);
        if (r == 0)
                r = lines_of(after, &b);
        if (r < 0)
                return r;
        if (a.n > LINES_MAX || b.n > LINES_MAX)
                return buf_printf(out, "- %zu lines\n+ %zu lines\n", a.n, b.n);

        width = b.n + 1;
        cleanup(free_ptr) uint16_t *lengths = calloc((a.n + 1) * width, sizeof *lengths);
        if (!lengths)
                return -ENOMEM;

        fill_lengths(&a, &b, lengths);

        while (r == 0 && (i < a.n || j < b.n)) {
                bool both = i < a.n && j < b.n;
                if (both && str_eq(a.p[i], b.p[j])) {
                        i++;
                        j++;
                } else if (j == b.n || (both && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
                        r = put_line(out, '-', a.p[i++]);
                } else {
                        r = put_line(out, '+', b.p[j++]);
                }
        }

        return r;
}
