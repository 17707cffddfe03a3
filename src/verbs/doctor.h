/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The probe's results in plain words: what works, what is missing and how to get it, and the mode that `bailey run`
 * will use. Also what a launch says when it must refuse.
 */
#include <stdbool.h>
#include <stddef.h>

enum doctor_mode {
        DOCTOR_FULL,     /* every layer */
        DOCTOR_DEGRADED, /* less than that, only with --allow-degraded */
        DOCTOR_NONE,     /* too little to call it a sandbox */
        DOCTOR_MODES
};

enum { DOCTOR_ROWS_MAX = 32, DOCTOR_DETAIL_MAX = 192 };

struct doctor_row {
        const char *name;  /* stable: "user-namespace" */
        const char *title; /* for people: "user namespaces" */
        const char *state; /* "works", "missing", "blocked" */
        const char *cause; /* stable code, "none" when it works */
        bool works;
        bool needed;                    /* without it the sandbox is not full */
        bool follows;                   /* does not work only because user namespaces do not */
        char detail[DOCTOR_DETAIL_MAX]; /* the failing step and its error, or a fact such as "ABI 7" */
        const char *gives;              /* what it is for */
        const char *lost;               /* what is missing without it; NULL when it works */
        const char *why;                /* the cause in words; NULL when it works */
        const char *fix;                /* what to do; NULL when it works or nothing can be done */
};

struct doctor_report {
        enum doctor_mode mode;
        char kernel[65], machine[65];
        unsigned uid, landlock_abi;
        size_t n;
        struct doctor_row rows[DOCTOR_ROWS_MAX];
};

void doctor_examine(struct doctor_report *ret);

const char *doctor_mode_name(enum doctor_mode mode);
/* One sentence: what `bailey run` does in this mode. */
const char *doctor_mode_text(enum doctor_mode mode);
