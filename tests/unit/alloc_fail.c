/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fail.h"

#include "cmocka_all.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLOCATIONS_MAX = 100000 };

/* The compiler believes that malloc() changes no variable of ours. Across files it would act on that. */
static _Thread_local volatile unsigned countdown;
static _Thread_local volatile bool failed;

void alloc_fail_at(unsigned nth) {
        countdown = nth;
        failed = false;
}

static bool fails_now(void) {
        unsigned left = countdown;
        countdown = left ? left - 1 : 0;
        if (left != 1)
                return false;
        failed = true;
        errno = ENOMEM;
        return true;
}

unsigned alloc_fail_each(int (*step)(void *), void *argument) {
        for (unsigned nth = 1; nth < ALLOCATIONS_MAX; nth++) {
                alloc_fail_at(nth);
                int r = step(argument);
                bool one_failed = failed;
                alloc_fail_at(0);
                if (!one_failed) {
                        assert_int_equal(r, 0);
                        assert_true(nth > 1); /* nothing was allocated: this test shows nothing */
                        return nth - 1;
                }
                if (r != -ENOMEM)
                        print_error("allocation %u failed and the answer was %d\n", nth, r);
                assert_int_equal(r, -ENOMEM);
        }
        fail_msg("no end of allocations");
        return 0;
}

/* The linker leads calls of NAME to __wrap_NAME and calls of __real_NAME to NAME. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
int __real_vasprintf(char **ret, const char *format, va_list args);

void *__wrap_malloc(size_t n) {
        return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
        return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
        return fails_now() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size) {
        return fails_now() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s) {
        return fails_now() ? NULL : __real_strdup(s);
}

int __wrap_vasprintf(char **ret, const char *format, va_list args) {
        return fails_now() ? -1 : __real_vasprintf(ret, format, args);
}

/* With FORTIFY the compiler calls this one instead. */
int __real___vasprintf_chk(char **ret, int flag, const char *format, va_list args);
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args) {
        return fails_now() ? -1 : __real___vasprintf_chk(ret, flag, format, args);
}
