/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What libbailey needs of the operating system, in a file for each. Descriptors here can be polled for reading. */
#include <pthread.h>
#include <sys/types.h>
#include <time.h>

/* A flag that is readable from the time it is raised on; close() ends it. A negative errno where there is none. Raising
 * is safe in a signal handler, and keeps errno. */
int api_flag_new(void);
void api_flag_raise(int flag);

/* One that is waited for until a time of CLOCK_MONOTONIC. Returns a positive errno. */
int api_cond_init(pthread_cond_t *cond);
/* ETIMEDOUT when that time has come. */
int api_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *end);

/* Readable when this child of ours has ended; -1 where that cannot be watched. */
int api_child_watch(pid_t pid);
/* `watch` is that descriptor, or -1. */
void api_child_kill(int watch, pid_t pid);
