/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a process and everything below it use, from /proc: good enough for a person who looks, at the price of some
 * reads. Pages that several processes share count for each of them, and the time of a process counts as soon as it or
 * its parent lives; what was orphaned to a process outside of the tree is not seen.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { USAGE_PROCESSES_MAX = 1024 }; /* that are looked at */

struct usage {
        uint64_t cpu_us; /* user and system, with those of children that were waited for */
        uint64_t memory; /* resident bytes */
        unsigned processes;
};

/* False: there is no such process, or nothing is to be learned of it here. */
bool usage_of_tree(pid_t root, struct usage *ret);
