/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rows.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "conf/json_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 1 << 20 };

struct field {
        size_t row;
        char *name, *value;
};

struct bailey_rows {
        size_t n;
        VEC(struct field) fields;
};

static void rows_freep(bailey_rows **rows) {
        bailey_rows_free(*rows);
}

/* "/3/name": the row. False: it lies deeper, or not in a list. */
static bool pointer_row(struct str pointer, size_t *ret) {
        struct str step;
        uint64_t row;

        if (!str_starts(pointer, STR("/")))
                return false;
        pointer = str_skip(pointer, 1);
        if (!str_split(&pointer, '/', &step) || memchr(pointer.p, '/', pointer.n) ||
            !str_to_u64(step, SIZE_MAX - 1, &row))
                return false;

        *ret = (size_t)row;
        return true;
}

static int rows_visit(void *arg, const struct json_scalar *scalar) {
        bailey_rows *rows = arg;
        cleanup(buf_done) struct buf text = BUF(VALUE_MAX);
        struct field field = { 0 };
        int r = 0;

        if (!pointer_row(scalar->pointer, &field.row) || str_is(scalar->raw, "null"))
                return 0;

        r = scalar->is_string ? json_scalar_text(scalar, &text) : buf_append(&text, scalar->raw);
        if (r < 0)
                return r;

        field.name = str_dup(scalar->key);
        field.value = str_dup(buf_str(&text));
        if (!field.name || !field.value || vec_push(&rows->fields, field) < 0) {
                free(field.name);
                free(field.value);
                return -ENOMEM;
        }

        if (field.row >= rows->n)
                rows->n = field.row + 1;
        return 0;
}

int rows_parse(struct str text, bailey_rows **ret) {
        cleanup(rows_freep) bailey_rows *rows = calloc(1, sizeof *rows);
        int r = rows ? json_walk(text, rows_visit, rows) : -ENOMEM;

        if (r < 0)
                return r;

        *ret = take_ptr(&rows);
        return 0;
}

size_t bailey_rows_size(const bailey_rows *rows) {
        return rows ? rows->n : 0;
}

const char *bailey_rows_get(const bailey_rows *rows, size_t i, const char *field) {
        for (size_t k = 0; rows && field && k < rows->fields.n; k++)
                if (rows->fields.p[k].row == i && strcmp(rows->fields.p[k].name, field) == 0)
                        return rows->fields.p[k].value;
        return NULL;
}

void bailey_rows_free(bailey_rows *rows) {
        if (!rows)
                return;
        for (size_t i = 0; i < rows->fields.n; i++) {
                free(rows->fields.p[i].name);
                free(rows->fields.p[i].value);
        }
        vec_done(&rows->fields);
        free(rows);
}
