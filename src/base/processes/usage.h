/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Resource use of a process and its descendants, from /proc: good enough for a person who looks, at the price of some
 * reads. Pages that several processes share count for each of them, and the time of a process counts as soon as it or
 * its parent lives; processes reparented outside the tree are not seen.
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

/* Calls on() for the process and everything below it, as long as it returns 0; -E2BIG for more than `max`. */
typedef int usage_on_process(void *arg, pid_t pid);
int usage_each_process(pid_t root, size_t max, usage_on_process *on, void *arg);
