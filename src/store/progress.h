/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Progress of a long operation, on standard error and on the dashboard.
 *
 * On a terminal it is one line that changes four times a second and goes at the end, elsewhere a line every ten
 * seconds. Short work shows nothing. For the dashboard it is a small locked file below the state directory; the lock
 * goes with the process, and listing them removes those of dead processes. If the file cannot be made, the dashboard
 * shows nothing.
 */
#include "base/emit.h"

enum progress_unit { PROGRESS_BYTES, PROGRESS_STEPS, PROGRESS_TIME };

struct progress {
        const char *what; /* "one: packing"; NULL: nothing is shown */
        enum progress_unit unit;
        uint64_t total; /* 0: not known */
        bool silent;    /* nothing on standard error */
        /* Its own: */
        uint64_t done, since_us, next_ns, note_ns;
        bool begun, terminal, shown;
        int note;
        char *path;
};
#define PROGRESS_NONE ((struct progress){ .note = -1 })

/* Makes the file. A child process may go on with the rest on its copy, whoever it is by then. */
void progress_open(struct progress *progress);
void progress_add(struct progress *progress, uint64_t n);
/* The line on the terminal goes. */
void progress_clear(struct progress *progress);
void progress_close(struct progress *progress);

/* Adds an object for each to an open list. */
void progress_list(struct emit *json);
