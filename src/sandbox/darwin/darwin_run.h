/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One command under a profile, from fork to the end of everything that can be found of it. There is no process
 * namespace: a program that forks twice and starts a session of its own may outlive the run, unless it is a guest.
 */
#include "plan/macos/macos_launch.h"

struct run_darwin {
        bool monitored;           /* denials are reported on standard error */
        volatile int *end_wanted; /* set by a signal: end it */
        unsigned long violations; /* how many were reported; a lower bound */
};

/* The wait status of the command. -EPERM: the profile was refused; nothing ran. */
int run_darwin(const struct macos_launch *launch, struct run_darwin *run, int *ret_status, struct err *e);
