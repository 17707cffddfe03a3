/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/json.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/escape.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static void json_drop(json_t **value) {
        json_decref(*value);
}

static int refuse_syntax(const struct document *document, const json_error_t *error, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(JSON_ERROR_TEXT_LENGTH * 8);
        escape_text(&text, str_of(error->text), JSON_ERROR_TEXT_LENGTH);

        /* Jansson counts from one, and says -1 where it does not know. */
        int line = max_of(error->line, 1);
        int column = max_of(error->column, 1);

        return err_set(err, EINVAL, "%s:%d:%d: not valid JSON: %.*s", document_name(document), line, column,
                       STR_FMT(buf_str(&text)));
}

static int scalar_text(struct document *document, const json_t *value, struct str *ret, struct err *err) {
        char number[40];

        switch (json_typeof(value)) {
        case JSON_STRING:
                return document_text(document, str_n(json_string_value(value), json_string_length(value)), ret, err);
        case JSON_INTEGER:
                snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                return document_text(document, str_of(number), ret, err);
        case JSON_REAL:
                snprintf(number, sizeof number, "%.17g", json_real_value(value));

                return document_text(document, str_of(number), ret, err);
        default:
                return document_text(document, json_is_true(value) ? STR("true") : STR("false"), ret, err);
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

static int json_convert(struct document *document, struct node *parent, struct str key, json_t *value, unsigned depth,
                        struct err *err) {
        if (depth > NODE_DEPTH_MAX)
                return err_set(err, EINVAL, "%s: nested deeper than %d levels", document_name(document),
                               NODE_DEPTH_MAX);

        struct node *node = document_add(document, parent, kind_of(value), err);
        if (!node)
                return -err->code;

        int r = document_text(document, key, &node->key, err);
        if (r == 0 && node->kind == NODE_SCALAR) {
                node->quoted = json_is_string(value);
                return scalar_text(document, value, &node->text, err);
        }

        if (node->kind == NODE_LIST)
                for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
                        r = json_convert(document, node, STR(""), json_array_get(value, i), depth + 1, err);

        if (node->kind == NODE_MAP)
                for (void *at = json_object_iter(value); r == 0 && at; at = json_object_iter_next(value, at))
                        r = json_convert(document, node, str_n(json_object_iter_key(at), json_object_iter_key_len(at)),
                                         json_object_iter_value(at), depth + 1, err);

        return r;
}

int json_read(struct str text, struct str name, struct document **ret, struct err *err) {
        cleanup(document_freep) struct document *d = NULL;
        struct err local = { 0 };

        if (!err)
                err = &local;
        int r = document_new(name, &d, err);
        if (r < 0)
                return r;

        if (text.n > DOCUMENT_BYTES_MAX)
                return err_set(err, EFBIG, "%s:1:1: %zu bytes, more than %d", document_name(d), text.n,
                               DOCUMENT_BYTES_MAX);

        json_error_t error;
        cleanup(json_drop) json_t *root = json_loadb(text.n ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
        if (!root)
                return refuse_syntax(d, &error, err);

        r = json_convert(d, NULL, STR(""), root, 1, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&d);
        return 0;
}
