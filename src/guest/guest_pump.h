/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between a command in a guest and whoever started it: bytes both ways, signals, the size of the terminal, the end. */
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

struct pump {
        int agent;                                      /* replies */
        int terminal;                                   /* inside, seen from here; -1: pipes */
        int to_input, from_output, from_errors;         /* pipes; -1 without */
        int input, output, errors;                      /* ours; not closed here */
        uint64_t left;                                  /* bytes of output that are still handed on */
        uint64_t due_ns;                                /* when it is to have ended; CLOCK_NEVER: it takes its time */
        void (*on_output)(void *arg, struct str bytes); /* NULL: nobody */
        void *on_output_arg;
        char pending[4096]; /* input that the command has not taken yet */
        size_t n_pending;
};
#define PUMP_NONE                                                                                                      \
        ((struct pump){ .agent = -1,                                                                                   \
                        .terminal = -1,                                                                                \
                        .to_input = -1,                                                                                \
                        .from_output = -1,                                                                             \
                        .from_errors = -1,                                                                             \
                        .due_ns = CLOCK_NEVER })
void pump_done(struct pump *pump);

/* As guest_exec(). Signals that would end this process go to the command meanwhile. */
int pump_run(struct pump *pump, int *ret_status, struct err *err);
