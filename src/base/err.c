/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_errno

static void mark_cut(char *text, int wanted) {
        if (wanted >= ERR_TEXT_MAX)
                memcpy(text + ERR_TEXT_MAX - 4, "...", 4);
}

__attribute__((format(printf, 3, 0))) static void set_text(struct err *e, int code, const char *format, va_list args) {
        char text[ERR_TEXT_MAX]; /* the old text may be among the arguments */
        mark_cut(text, vsnprintf(text, sizeof text, format, args));
        e->code = code;
        memcpy(e->text, text, sizeof text);
}

int err_set(struct err *e, int code, const char *format, ...) {
        if (e) {
                va_list args;
                va_start(args, format);
                set_text(e, code, format, args);
                va_end(args);
        }
        return -code;
}

int err_errno(struct err *e, const char *format, ...) {
        int code = errno ? errno : EIO;
        if (e) {
                va_list args;
                va_start(args, format);
                set_text(e, code, format, args);
                va_end(args);
                size_t used = strlen(e->text);
                mark_cut(e->text, (int)used + snprintf(e->text + used, sizeof e->text - used, ": %s", strerror(code)));
        }
        return -code;
}

int err_wrap(struct err *e, int negative_code, const char *format, ...) {
        if (e) {
                /* A callee that only returned a code said what failed by it. */
                const char *what = e->text[0] ? e->text : strerror(-negative_code);
                char inner[ERR_TEXT_MAX];
                memcpy(inner, what, strlen(what) + 1);
                va_list args;
                va_start(args, format);
                set_text(e, -negative_code, format, args);
                va_end(args);
                size_t used = strlen(e->text);
                mark_cut(e->text, (int)used + snprintf(e->text + used, sizeof e->text - used, ": %s", inner));
        }
        return negative_code;
}

void err_clear(struct err *e) {
        if (e) {
                e->code = 0;
                e->text[0] = '\0';
        }
}

const char *err_text(const struct err *e) {
        if (!e)
                return "unknown error";
        if (e->text[0])
                return e->text;
        return e->code ? strerror(e->code) : "no error";
}
