/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Every process of the sandbox stands still, and goes on: called by init, which is outside of it and above it. */
#include "base/vec.h"

#include <stdbool.h>

#include <sys/types.h>

struct freeze {
        bool on;
        VEC(pid_t) stopped; /* those that stood still before, by job control: they stay as they are */
};

/* 0 when everything stands still; -EAGAIN when it did not within a moment, and then all go on. */
int freeze_begin(struct freeze *freeze);
void freeze_end(struct freeze *f);
