/* SPDX-License-Identifier: Apache-2.0 */
#include "base/emit.h"

#include "base/escape.h"

#include <errno.h>
#include <inttypes.h>

static bool emit_ready(const struct emit *json) {
        return json->status == 0;
}

static void emit_separate(struct emit *json) {
        if (emit_ready(json) && json->comma)
                json->status = buf_add(json->out, json->spaced ? ", " : ",");
        json->comma = true;
}

void emit_open(struct emit *json, char bracket) {
        emit_separate(json);
        if (!emit_ready(json))
                return;

        if (json->depth == EMIT_DEPTH_MAX) {
                json->status = -E2BIG;
                return;
        }

        json->closers[json->depth++] = bracket == '{' ? '}' : ']';
        json->comma = false;
        json->status = buf_add_char(json->out, bracket);
}

void emit_close(struct emit *json) {
        if (!emit_ready(json))
                return;

        if (json->depth == 0) {
                json->status = -EINVAL;
                return;
        }

        json->status = buf_add_char(json->out, json->closers[--json->depth]);
        json->comma = true;
}

void emit_key_str(struct emit *json, struct str key) {
        emit_separate(json);
        if (emit_ready(json))
                json->status = escape_json(json->out, key);
        if (emit_ready(json))
                json->status = buf_add(json->out, json->spaced ? ": " : ":");
        json->comma = false;
}

void emit_key(struct emit *json, const char *key) {
        emit_key_str(json, str_of(key));
}

void emit_string(struct emit *json, struct str s) {
        emit_separate(json);
        if (emit_ready(json))
                json->status = escape_json(json->out, s);
}

void emit_text(struct emit *json, const char *c_string) {
        if (c_string)
                emit_string(json, str_of(c_string));
        else
                emit_null(json);
}

void emit_number(struct emit *json, uint64_t n) {
        emit_separate(json);
        if (emit_ready(json))
                json->status = buf_printf(json->out, "%" PRIu64, n);
}

void emit_raw(struct emit *json, struct str value) {
        emit_separate(json);
        if (emit_ready(json))
                json->status = buf_append(json->out, value);
}

void emit_bool(struct emit *json, bool b) {
        emit_raw(json, b ? STR("true") : STR("false"));
}

void emit_null(struct emit *json) {
        emit_raw(json, STR("null"));
}

void emit_put_text(struct emit *json, const char *key, const char *c_string) {
        emit_key(json, key);
        emit_text(json, c_string);
}

void emit_put_string(struct emit *json, const char *key, struct str s) {
        emit_key(json, key);
        emit_string(json, s);
}

void emit_put_number(struct emit *json, const char *key, uint64_t n) {
        emit_key(json, key);
        emit_number(json, n);
}

void emit_put_bool(struct emit *json, const char *key, bool b) {
        emit_key(json, key);
        emit_bool(json, b);
}

void emit_put_texts(struct emit *json, const char *key, char *const *texts, size_t n) {
        emit_key(json, key);
        emit_open(json, '[');
        for (size_t i = 0; i < n; i++)
                emit_text(json, texts[i]);
        emit_close(json);
}

int emit_status(const struct emit *json) {
        if (json->status < 0)
                return json->status;

        if (json->depth > 0)
                return -EINVAL;

        return 0;
}
