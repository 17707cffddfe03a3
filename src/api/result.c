/* SPDX-License-Identifier: Apache-2.0 */
#include "api/result.h"

#include "base/bounds.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024, CHUNKS_AT_ONCE = 16 };

/* Straight into the buffer while there is room; then into a place that is forgotten. */
bool output_read(struct output *output, int fd) {
        char rest[CHUNK]; /* written by read() alone, and never looked at */

        for (int i = 0; i < CHUNKS_AT_ONCE; i++) {
                size_t room = output->kept.max - output->kept.n;
                bool keep = room > 0 && buf_reserve(&output->kept, min_of(room, CHUNK)) == 0;
                // cppcheck-suppress legacyUninitvar
                char *to = keep ? output->kept.p + output->kept.n : rest;
                ssize_t n = read(fd, to, keep && room < CHUNK ? room : CHUNK);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN;
                if (n == 0)
                        return false;

                if (keep)
                        output->kept.n += (size_t)n;
                else
                        output->truncated = true;
        }

        return true;
}

int result_new(uint64_t output_limit, bailey_result **ret) {
        bailey_result *r = calloc(1, sizeof *r);
        if (!r)
                return -ENOMEM;
        size_t limit = output_limit > SIZE_MAX / 4 ? SIZE_MAX / 4 : (size_t)output_limit;
        r->out.kept = r->err.kept = BUF(limit);
        *ret = r;
        return 0;
}

static char *result_copy(const char *text) {
        return str_dup(str_of(text ? text : ""));
}

static void violation_done(struct bailey_violation *violation) {
        free((char *)(uintptr_t)violation->process);
        free((char *)(uintptr_t)violation->operation);
        free((char *)(uintptr_t)violation->target);
        free((char *)(uintptr_t)violation->rule);
        free((char *)(uintptr_t)violation->detail);
}

int result_add_violation(bailey_result *result, const struct bailey_violation *from) {
        struct bailey_violation v = { .operation = result_copy(from->operation),
                                      .target = result_copy(from->target),
                                      .rule = result_copy(from->rule),
                                      .detail = result_copy(from->detail),
                                      .process = result_copy(from->process),
                                      .count = from->count };
        if (v.process && v.operation && v.target && v.rule && v.detail && vec_push(&result->violations, v) == 0)
                return 0;

        violation_done(&v);
        return -ENOMEM;
}

void result_add_notice(bailey_result *result, const char *text) {
        size_t n = strlen(result->notice);
        snprintf(result->notice + n, sizeof result->notice - n, "%s", text);
}

/* The terminating NUL is not part of what the limit counts. */
static int result_terminate(struct buf *buf) {
        char *text = realloc(buf->p, buf->n + 1);
        if (!text)
                return -ENOMEM;
        text[buf->n] = '\0';
        buf->p = text;
        buf->cap = buf->n + 1;
        return 0;
}

int result_finish(bailey_result *result) {
        int a = result_terminate(&result->out.kept), b = result_terminate(&result->err.kept);
        if (a < 0)
                return a;

        return b;
}

void bailey_result_free(bailey_result *result) {
        if (!result)
                return;

        buf_done(&result->out.kept);
        buf_done(&result->err.kept);
        for (size_t i = 0; i < result->violations.n; i++)
                violation_done(&result->violations.p[i]);

        vec_done(&result->violations);
        free(result);
}

void result_freep(bailey_result **result) {
        bailey_result_free(*result);
}

int bailey_result_exit_code(const bailey_result *result) {
        return result->exit_code;
}
int bailey_result_signal(const bailey_result *result) {
        return result->signal;
}

static const char *result_bytes(const struct output *output, size_t *ret_n) {
        if (ret_n)
                *ret_n = output->kept.n;
        return output->kept.p;
}
const char *bailey_result_stdout(const bailey_result *result, size_t *ret_n) {
        return result_bytes(&result->out, ret_n);
}
const char *bailey_result_stderr(const bailey_result *result, size_t *ret_n) {
        return result_bytes(&result->err, ret_n);
}
int bailey_result_truncated(const bailey_result *result) {
        return result->out.truncated || result->err.truncated;
}
uint64_t bailey_result_duration_ns(const bailey_result *result) {
        return result->duration_ns;
}
int bailey_result_sandboxed(const bailey_result *result) {
        return result->sandboxed;
}
const char *bailey_result_notice(const bailey_result *result) {
        return result->notice;
}
size_t bailey_result_violations(const bailey_result *result) {
        return result->violations.n;
}
const struct bailey_violation *bailey_result_violation(const bailey_result *result, size_t i) {
        return i < result->violations.n ? &result->violations.p[i] : NULL;
}
