/* SPDX-License-Identifier: Apache-2.0 */
#include "base/emit.h"

#include "base/escape.h"

#include <errno.h>
#include <inttypes.h>

static bool emit_ready(const struct emit *j) {
        return j->status == 0;
}

static void emit_separate(struct emit *j) {
        if (emit_ready(j) && j->comma)
                j->status = buf_add_char(j->out, ',');
        j->comma = true;
}

void emit_open(struct emit *j, char bracket) {
        emit_separate(j);
        if (!emit_ready(j))
                return;

        if (j->depth == EMIT_DEPTH_MAX) {
                j->status = -E2BIG;
                return;
        }

        j->closers[j->depth++] = bracket == '{' ? '}' : ']';
        j->comma = false;
        j->status = buf_add_char(j->out, bracket);
}

void emit_close(struct emit *j) {
        if (!emit_ready(j))
                return;

        if (j->depth == 0) {
                j->status = -EINVAL;
                return;
        }

        j->status = buf_add_char(j->out, j->closers[--j->depth]);
        j->comma = true;
}

void emit_key_str(struct emit *j, struct str key) {
        emit_separate(j);
        if (emit_ready(j))
                j->status = escape_json(j->out, key);
        if (emit_ready(j))
                j->status = buf_add_char(j->out, ':');
        j->comma = false;
}

void emit_key(struct emit *j, const char *key) {
        emit_key_str(j, str_of(key));
}

void emit_string(struct emit *j, struct str s) {
        emit_separate(j);
        if (emit_ready(j))
                j->status = escape_json(j->out, s);
}

void emit_text(struct emit *j, const char *c_string) {
        if (c_string)
                emit_string(j, str_of(c_string));
        else
                emit_null(j);
}

void emit_number(struct emit *j, uint64_t n) {
        emit_separate(j);
        if (emit_ready(j))
                j->status = buf_printf(j->out, "%" PRIu64, n);
}

static void emit_word(struct emit *j, const char *text) {
        emit_separate(j);
        if (emit_ready(j))
                j->status = buf_add(j->out, text);
}

void emit_bool(struct emit *j, bool b) {
        emit_word(j, b ? "true" : "false");
}

void emit_null(struct emit *j) {
        emit_word(j, "null");
}

void emit_put_text(struct emit *j, const char *key, const char *c_string) {
        emit_key(j, key);
        emit_text(j, c_string);
}

void emit_put_string(struct emit *j, const char *key, struct str s) {
        emit_key(j, key);
        emit_string(j, s);
}

void emit_put_number(struct emit *j, const char *key, uint64_t n) {
        emit_key(j, key);
        emit_number(j, n);
}

void emit_put_bool(struct emit *j, const char *key, bool b) {
        emit_key(j, key);
        emit_bool(j, b);
}

void emit_put_texts(struct emit *j, const char *key, char *const *texts, size_t n) {
        emit_key(j, key);
        emit_open(j, '[');
        for (size_t i = 0; i < n; i++)
                emit_text(j, texts[i]);
        emit_close(j);
}

int emit_status(const struct emit *j) {
        if (j->status < 0)
                return j->status;

        if (j->depth > 0)
                return -EINVAL;

        return 0;
}
