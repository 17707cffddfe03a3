/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Case files (tests/cases/NAME.txt): one case a line, fields separated by blanks, '#' begins a comment. In a field \xNN
 * is that byte, \s a space, and "" is the empty field. A bug fix adds a line there.
 */
#include "base/str.h"

enum { CASE_FIELDS_MAX = 12 };

struct case_line {
        const char *file;
        int line;
        size_t n;
        struct str field[CASE_FIELDS_MAX]; /* "" beyond n */
};

/* Runs the function for each case; fails the test when the file is missing or has no case. The function returns false
 * for a case that does not hold, having printed what it saw; all cases are run before the test fails. */
void cases_run(const char *file, bool (*run)(const struct case_line *c, void *context), void *context);
/* Prints "file:line: " and the message; returns false, so that `return case_failed(...)` reads well. */
bool case_failed(const struct case_line *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
