/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Answers of the supervisor to questions of the sandbox's broker (sandbox/marks.h). */
#include <stdint.h>

/* The broker reads answers all the time, so where there is no room it is waited for, a second at most. `fd`: goes with
 * the answer; -1: none. */
int broker_answer_send(int sock, uint32_t number, uint32_t value, int fd);
/* The same for an answer that somebody inside waits for. If it cannot be told, the broker finds the socket closed and
 * refuses, instead of waiting for ever. */
void broker_answer_last(int sock, uint32_t number, uint32_t value);
