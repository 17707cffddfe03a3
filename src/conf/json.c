/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/json.h"

#include "base/cleanup.h"
#include "base/escape.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static void drop(json_t **value) {
        json_decref(*value);
}

static int refuse_syntax(const struct document *d, const json_error_t *error, struct err *e) {
        cleanup(buf_done) struct buf text = BUF(JSON_ERROR_TEXT_LENGTH * 8);
        escape_text(&text, str_of(error->text), JSON_ERROR_TEXT_LENGTH);
        int line = error->line < 1 ? 1 : error->line, column = error->column < 1 ? 1 : error->column;
        return err_set(e, EINVAL, "%s:%d:%d: not valid JSON: %.*s", document_name(d), line, column,
                       STR_FMT(buf_str(&text)));
}

static int scalar_text(struct document *d, const json_t *value, struct str *ret, struct err *e) {
        char number[40];
        switch (json_typeof(value)) {
        case JSON_STRING:
                return document_text(d, str_n(json_string_value(value), json_string_length(value)), ret, e);
        case JSON_INTEGER:
                snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                return document_text(d, str_of(number), ret, e);
        case JSON_REAL:
                snprintf(number, sizeof number, "%.17g", json_real_value(value));
                return document_text(d, str_of(number), ret, e);
        default:
                return document_text(d, json_is_true(value) ? STR("true") : STR("false"), ret, e);
        }
}

static enum node_kind kind_of(const json_t *value) {
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return NODE_MAP;
        case JSON_ARRAY:
                return NODE_LIST;
        case JSON_NULL:
                return NODE_NULL;
        default:
                return NODE_SCALAR;
        }
}

static int convert(struct document *d, struct node *parent, struct str key, json_t *value, unsigned depth,
                   struct err *e) {
        if (depth > NODE_DEPTH_MAX)
                return err_set(e, EINVAL, "%s: nested deeper than %d levels", document_name(d), NODE_DEPTH_MAX);
        struct node *n = document_add(d, parent, kind_of(value), e);
        if (!n)
                return -e->code;
        int r = document_text(d, key, &n->key, e);
        if (r == 0 && n->kind == NODE_SCALAR) {
                n->quoted = json_is_string(value);
                return scalar_text(d, value, &n->text, e);
        }
        if (n->kind == NODE_LIST)
                for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
                        r = convert(d, n, STR(""), json_array_get(value, i), depth + 1, e);
        if (n->kind == NODE_MAP)
                for (void *at = json_object_iter(value); r == 0 && at; at = json_object_iter_next(value, at))
                        r = convert(d, n, str_n(json_object_iter_key(at), json_object_iter_key_len(at)),
                                    json_object_iter_value(at), depth + 1, e);
        return r;
}

int json_read(struct str text, struct str name, struct document **ret, struct err *e) {
        cleanup(document_freep) struct document *d = NULL;
        struct err local = { 0 };
        e = e ? e : &local;
        int r = document_new(name, &d, e);
        if (r < 0)
                return r;
        if (text.n > DOCUMENT_BYTES_MAX)
                return err_set(e, EFBIG, "%s:1:1: %zu bytes, more than %d", document_name(d), text.n,
                               DOCUMENT_BYTES_MAX);
        json_error_t error;
        cleanup(drop) json_t *root = json_loadb(text.n ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
        if (!root)
                return refuse_syntax(d, &error, e);
        r = convert(d, NULL, STR(""), root, 1, e);
        if (r < 0)
                return r;
        *ret = take_ptr(&d);
        return 0;
}
