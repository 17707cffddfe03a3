/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Denials of Seatbelt in the system log: one line of `log stream --style ndjson`. Names and targets are the confined
 * program's own text, so every byte is hostile.
 */
#include "base/str.h"

enum { VIOLATION_NAME_MAX = 256, VIOLATION_TARGET_MAX = 1024, VIOLATION_LINE_MAX = 65536 };

struct violation {
        char process[VIOLATION_NAME_MAX]; /* may hold blanks and brackets */
        uint32_t pid;
        char operation[64];
        char target[VIOLATION_TARGET_MAX]; /* cut where it is longer */
};

enum violation_line {
        VIOLATION_OTHER, /* nothing of interest, or of another run */
        VIOLATION_READY, /* the log says that it filters from now on */
        VIOLATION_NOISE, /* a denial that every program causes */
        VIOLATION_FOUND,
};

/* `tag` is the message of the run's rules (plan/macos/seatbelt.h). */
enum violation_line violation_parse(struct str line, const char *tag, struct violation *ret);
