/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Writing JSON: straight into a buffer, no tree, no library (this is on the launch path). The first failure sticks.
 *
 *     struct emit j = emit_to(&out);
 *     emit_open(&j, '{');
 *     emit_key(&j, "hosts"); emit_open(&j, '['); emit_string(&j, host); emit_close(&j);
 *     emit_close(&j);
 *     int r = emit_status(&j);
 */
#include "base/buf.h"

enum { EMIT_DEPTH_MAX = 32 };

struct emit {
        struct buf *out;
        int status;
        unsigned depth;
        bool comma;  /* something precedes in the open collection */
        bool spaced; /* a space behind each comma and colon, for people who read it */
        char closers[EMIT_DEPTH_MAX];
};

static inline struct emit emit_to(struct buf *out) {
        return (struct emit){ .out = out };
}
void emit_open(struct emit *json, char bracket); /* '{' or '[' */
void emit_close(struct emit *json);
void emit_key(struct emit *json, const char *key);
void emit_key_str(struct emit *json, struct str key);
void emit_string(struct emit *json, struct str s);
void emit_text(struct emit *json, const char *c_string); /* null for NULL */
void emit_number(struct emit *json, uint64_t n);
void emit_bool(struct emit *json, bool b);
void emit_null(struct emit *json);
void emit_raw(struct emit *json, struct str value); /* that is JSON already */
/* Member of the open object, in one call. */
void emit_put_text(struct emit *json, const char *key, const char *c_string);
void emit_put_string(struct emit *json, const char *key, struct str s);
void emit_put_number(struct emit *json, const char *key, uint64_t n);
void emit_put_bool(struct emit *json, const char *key, bool b);
void emit_put_texts(struct emit *json, const char *key, char *const *texts, size_t n); /* an array of strings */
/* 0 when everything was written and every bracket is closed. */
int emit_status(const struct emit *json);
