/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Every process of the sandbox is frozen, and goes on: called by init, which is outside it and above it. */
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct freeze_thread {
        pid_t thread;
        bool stopped;
        uint64_t ran; /* grows when it runs */
};
typedef VEC(struct freeze_thread) freeze_threads;

struct freeze {
        bool on;
        VEC(pid_t) stopped;     /* those that stood still before, by job control: they stay as they are */
        freeze_threads threads; /* as they were at the last look */
        uint64_t since_ns, due_ns;
        unsigned woken; /* how often somebody went on meanwhile */
};

/* 0 when everything is frozen; -EAGAIN when it did not within a moment, and then all go on. */
int freeze_begin(struct freeze *freeze);
void freeze_end(struct freeze *f);
/* For poll(): until the next look at whoever is frozen; -1 when nobody is. */
int freeze_due_ms(const struct freeze *freeze);
/* Whoever went on is stopped again. -EBUSY when that does not help. */
int freeze_keep(struct freeze *freeze);
