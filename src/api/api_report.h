/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Filling a caller's struct bailey_error. Each returns the code, so that `return report(...)` reads well. */
#include "bailey/error.h"
#include "base/err.h"
#include "base/str.h"

int report(struct bailey_error *error, enum bailey_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* With an inner error's text; running out of memory is that, whatever was being done. */
int report_err(struct bailey_error *error, enum bailey_code code, const struct err *from);
static inline int report_memory(struct bailey_error *err) {
        return report(err, BAILEY_E_MEMORY, "out of memory");
}
static inline int report_null(struct bailey_error *err) {
        return report(err, BAILEY_E_ARGUMENT, "an argument is NULL that must not be");
}

/* Text from a command, made safe to show and cut to what fits. */
void report_escape(char *to, size_t size, struct str text);
