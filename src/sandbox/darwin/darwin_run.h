/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One command under a profile, from fork to the end of everything that can be found of it. There is no process
 * namespace: a program that forks twice and starts a session of its own may outlive the run, unless it is a guest.
 */
#include "plan/macos/macos_launch.h"
#include "sandbox/darwin/violation.h"

#include <sys/types.h>

/* What whoever runs it does meanwhile. Each may be NULL. */
struct run_hooks {
        void (*started)(void *arg, pid_t pid); /* the command runs */
        bool (*turn)(void *arg);               /* every 0.1 s; must not wait. False: end it */
        void (*on_denial)(void *arg, const struct violation *denial);
        void *arg;
};

struct run_darwin {
        bool monitored; /* denials are looked for, and reported on standard error unless quiet */
        bool quiet;
        const struct run_hooks *hooks; /* NULL: none */
        volatile int *end_wanted;      /* set by a signal: end it */
        uint64_t deadline_ns;          /* of clock_ns(): end it then. 0: never */
        bool timed_out;                /* it was ended so */
        bool left;                     /* a turn has ended it */
        unsigned long violations;      /* how many were reported; a lower bound */
};

/* The wait status of the command. -EPERM: the profile was refused; nothing ran. */
int run_darwin(const struct macos_launch *launch, struct run_darwin *run, int *ret_status, struct err *e);
