/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How far a long work on a home is, on standard error: on a terminal one line that changes four times a second and goes
 * at the end, elsewhere a line every ten seconds. Short work shows nothing.
 */
#include <stdbool.h>
#include <stdint.h>

struct pack_progress {
        const char *doing; /* "packing"; NULL: nothing is shown */
        const char *name;  /* of the guest */
        uint64_t total;    /* 0: not known */
        /* Its own: */
        uint64_t done, next_ns;
        bool begun, terminal, shown;
};

void pack_progress_add(struct pack_progress *progress, uint64_t bytes);
void pack_progress_end(struct pack_progress *progress);
