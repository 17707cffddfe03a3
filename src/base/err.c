/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_errno
#undef err_memory

static void mark_cut(char *text, int wanted) {
        if (wanted >= ERR_TEXT_MAX)
                memcpy(text + ERR_TEXT_MAX - 4, "...", 4);
}

__attribute__((format(printf, 3, 0))) static void set_text(struct err *err, int code, const char *format,
                                                           va_list args) {
        char text[ERR_TEXT_MAX]; /* the old text may be among the arguments */
        mark_cut(text, vsnprintf(text, sizeof text, format, args));
        err->code = code;
        memcpy(err->text, text, sizeof text);
}

int err_set(struct err *err, int code, const char *format, ...) {
        if (err) {
                va_list args;
                va_start(args, format);
                set_text(err, code, format, args);
                va_end(args);
        }
        return -code;
}

int err_errno(struct err *err, const char *format, ...) {
        int code = errno ? errno : EIO;

        if (err) {
                va_list args;

                va_start(args, format);
                set_text(err, code, format, args);
                va_end(args);

                size_t used = strlen(err->text);
                mark_cut(err->text,
                         (int)used + snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(code)));
        }

        return -code;
}

int err_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

int err_wrap(struct err *err, int negative_code, const char *format, ...) {
        if (err) {
                /* A callee that only returned a code said what failed by it. */
                const char *what = err->text[0] ? err->text : strerror(-negative_code);
                char inner[ERR_TEXT_MAX];

                memcpy(inner, what, strlen(what) + 1);
                va_list args;
                va_start(args, format);
                set_text(err, -negative_code, format, args);
                va_end(args);

                size_t used = strlen(err->text);
                mark_cut(err->text, (int)used + snprintf(err->text + used, sizeof err->text - used, ": %s", inner));
        }

        return negative_code;
}

void err_blame(struct err *err, enum err_kind kind) {
        if (err)
                err->kind = kind;
}

void err_clear(struct err *err) {
        if (err) {
                err->code = 0;
                err->text[0] = '\0';
        }
}

const char *err_text(const struct err *err) {
        if (!err)
                return "unknown error";
        if (err->text[0])
                return err->text;
        if (err->code)
                return strerror(err->code);

        return "no error";
}
