/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the kernel knows of git's configuration, to see without a watch whether somebody changed it (sandbox/named.h).
 * An account has few watches, 128 as a rule for all of its programs together; this needs none. It costs two system
 * calls for each file at each question, and reading the configuration again costs ten times as much.
 */
#include "base/buf.h"

#include <stdint.h>

struct stamps {
        struct buf bytes;    /* one struct stamp after the other */
        uint64_t begun_us;   /* by the wall clock: when it was begun, */
        uint64_t settled_us; /* and from when on a further change of any of them would show */
};

void stamps_begin(struct stamps *stamps);
void stamps_done(struct stamps *stamps);
/* What is at this path, or that nothing is; of a link also what it leads to. */
int stamps_add(struct stamps *stamps, const char *path);
/* Whether surely nothing was changed between the two. */
bool stamps_same(const struct stamps *older, const struct stamps *newer);
