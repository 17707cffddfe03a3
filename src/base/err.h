/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Errors: a function that can fail returns 0 or a negative errno and, if the caller gave one, fills a struct err.
 * The struct is owned by the caller and has a fixed size, so reporting an error never allocates and never fails.
 * Layers add context by wrapping: the innermost text says what failed, each layer says what it was doing.
 *
 *     return err_set(e, EINVAL, "port %u is out of range", port);        -> -EINVAL
 *     return err_errno(e, "cannot open %s", path);                      -> -errno, text ends with strerror
 *     r = conf_load(path, &c, e); if (r < 0) return err_wrap(e, r, "while loading the policy");
 *
 * A function reports or returns, never both. e may be NULL everywhere.
 *
 * Whose mistake it is decides the exit code (cli/exit.c maps it, in one place). A function that knows says so before it
 * takes the steps that it holds for:
 *
 *     err_blame(e, ERR_CONFIG);
 */
#include <stdarg.h>

#define ERR_TEXT_MAX 768

enum err_kind {
        ERR_SYSTEM, /* a system call or a part of Bailey failed; also when nobody said otherwise */
        ERR_NO,     /* asked and answered: it is not so, it cannot be reached */
        ERR_USAGE,
        ERR_CONFIG,
        ERR_UNAVAILABLE, /* not on this machine, not running, no such thing */
        ERR_REFUSED,
        ERR_TIMEOUT,
        ERR_KINDS
};

struct err {
        int code;           /* positive errno, 0 when unset */
        enum err_kind kind; /* of this error, or of the next; see err_blame() */
        char text[ERR_TEXT_MAX];
};

#define ERR_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Each returns the negative code, so that `return err_set(...)` reads well. Text that does not fit is cut with "...".
 */
int err_set(struct err *err, int code, const char *format, ...) ERR_PRINTF(3, 4);
int err_errno(struct err *err, const char *format, ...) ERR_PRINTF(2, 3);
/* -ENOMEM, in the one text that there is for it. */
int err_memory(struct err *err);
int err_wrap(struct err *err, int negative_code, const char *format, ...) ERR_PRINTF(3, 4);

/* Static analysis sees one file at a time; without this it follows ways on which a failure was no failure. */
#ifdef __clang_analyzer__
static inline int err_assumed_negative(int r) {
        if (r >= 0)
                __builtin_unreachable();
        return r;
}
#define err_set(...) err_assumed_negative(err_set(__VA_ARGS__))
#define err_errno(...) err_assumed_negative(err_errno(__VA_ARGS__))
#define err_memory(err) err_assumed_negative(err_memory(err))
#endif

/* Holds for errors from now on, until it is said anew; err_clear() leaves it. */
void err_blame(struct err *err, enum err_kind kind);
void err_clear(struct err *err);
/* The text, or a description of the code when no text was set. Never NULL. */
const char *err_text(const struct err *err);
