/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A compiled policy that a gateway was given: its bytes, and opened, since events name its rules by number. */
#include "base/err.h"
#include "policy/judge/snapshot.h"

struct generation {
        uint32_t number; /* 0: empty */
        void *bytes;
        size_t n;
        struct snapshot *snapshot;
};

/* Copies the bytes; they are checked whole. */
int generation_open(struct generation *ret, const void *bytes, size_t n, uint32_t number, struct err *err);
void generation_done(struct generation *generation);
