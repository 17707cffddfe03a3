/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A process that a file names, and that may be gone when somebody reads the file. Its number alone says nothing, since
 * the kernel gives numbers again; number and start time together mean one process for as long as the machine runs, and
 * with the name of that boot beyond it: machines start alike every time.
 */
#include "base/err.h"
#include "base/str.h"

#include <sys/types.h>

/* In the kernel's ticks since boot; -ENOENT or -ESRCH when there is no such process. */
int process_start_time(pid_t pid, uint64_t *ret);
/* The same from the text of /proc/PID/stat, in which the program's name may hold anything. */
bool process_parse_start_time(struct str stat, uint64_t *ret);

enum { PROCESS_BOOT_MAX = 40 };
/* A name that the kernel has drawn for the time since this machine was started. */
int process_boot(char ret[static PROCESS_BOOT_MAX], struct err *err);

/* Whether it still runs after at most this long. The first process of a process namespace has ended when the kernel has
 * ended all others in there, and not before; the files that it had open are closed earlier than that. */
bool process_outlives(pid_t pid, uint64_t start_time, int wait_ms);

/* A descriptor that becomes readable when this child has ended, or a negative errno. No child inherits it. */
int process_watch(pid_t child);
