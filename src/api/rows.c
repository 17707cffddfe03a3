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

struct visit {
        bailey_rows *rows;
        struct str member; /* of the object that holds the list; "": the list is all there is */
};

static void rows_freep(bailey_rows **rows) {
        bailey_rows_free(*rows);
}

/* "/options/3/value" is "/3/value" of the member "options". */
static bool pointer_enter(struct str *pointer, struct str member) {
        if (member.n == 0)
                return true;
        if (!str_starts(*pointer, STR("/")) || !str_starts(str_skip(*pointer, 1), member))
                return false;

        *pointer = str_skip(*pointer, member.n + 1);
        return str_starts(*pointer, STR("/"));
}

/* "/3/name", or "/3/disk/limit": the row, and the object in it that holds the field ("": none). False: it lies deeper,
 * or not in a list. */
static bool pointer_row(struct str pointer, size_t *ret, struct str *ret_object) {
        struct str step, object = { 0 };
        uint64_t row;

        if (!str_starts(pointer, STR("/")))
                return false;

        pointer = str_skip(pointer, 1);
        if (!str_split(&pointer, '/', &step) || !str_to_u64(step, SIZE_MAX - 1, &row))
                return false;
        if (memchr(pointer.p, '/', pointer.n) && !str_split(&pointer, '/', &object))
                return false;
        if (memchr(pointer.p, '/', pointer.n))
                return false;

        *ret = (size_t)row;
        *ret_object = object;
        return true;
}

static char *field_name(struct str object, struct str key) {
        cleanup(buf_done) struct buf name = BUF(VALUE_MAX);

        if (object.n == 0)
                return str_dup(key);
        if (buf_printf(&name, "%.*s.%.*s", STR_FMT(object), STR_FMT(key)) < 0)
                return NULL;

        return str_dup(buf_str(&name));
}

static int rows_visit(void *arg, const struct json_scalar *scalar) {
        const struct visit *visit = arg;
        bailey_rows *rows = visit->rows;
        cleanup(buf_done) struct buf text = BUF(VALUE_MAX);
        struct field field = { 0 };
        struct str object = { 0 }, pointer = scalar->pointer;
        int r = 0;

        if (!pointer_enter(&pointer, visit->member) || !pointer_row(pointer, &field.row, &object))
                return 0;
        if (str_is(scalar->raw, "null") || !scalar->key.n)
                return 0;

        if (scalar->is_string)
                r = json_scalar_text(scalar, &text);
        else
                r = buf_append(&text, scalar->raw);
        if (r < 0)
                return r;

        field.name = field_name(object, scalar->key);
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

int rows_parse(struct str text, struct str member, bailey_rows **ret) {
        cleanup(rows_freep) bailey_rows *rows = calloc(1, sizeof *rows);
        struct visit visit = { .rows = rows, .member = member };
        int r = -ENOMEM;

        if (rows)
                r = json_walk(text, rows_visit, &visit);

        if (r < 0)
                return r;

        *ret = take_ptr(&rows);
        return 0;
}

size_t bailey_rows_size(const bailey_rows *rows) {
        if (rows)
                return rows->n;

        return 0;
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
