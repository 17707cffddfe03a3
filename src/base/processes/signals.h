/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Signals as something to wait for, beside other descriptors:
 *
 *     static const int numbers[] = { SIGTERM, SIGINT };
 *     cleanup(close_fd) int signals = signals_catch(numbers, 2, NULL);
 *
 * They stay blocked when the descriptor is closed. `ret_before` takes the mask as it was: programs that are started
 * must get that one. -1 and errno if they cannot be caught; then nothing is blocked.
 */
#include <signal.h>
#include <stddef.h>

int signals_catch(const int *numbers, size_t n, sigset_t *ret_before);

/* What asks a program to end: SIGTERM, SIGINT, SIGHUP. */
int signals_catch_end(void);
