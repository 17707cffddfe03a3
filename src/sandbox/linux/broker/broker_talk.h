/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions of the broker to the supervisor: a record with a number on the socket of the reports, and the answer on the
 * same socket (struct broker_answer, sandbox/marks.h). Several may wait at a time, each in a thread of its own; a
 * thread that does nothing else reads the answers and hands them out.
 *
 * A supervisor that is gone, or that sends something malformed, answers nothing any more: whoever waits fails.
 */
#include "ipc/event.h"
#include "sandbox/marks.h"

struct talk;
struct tracee;

/* How many opens may wait for a person. Ratchets have room beside them, and so has what is named: there is one
 * such question of each at a time. */
enum { TALK_HELD_MAX = 64 };

int talk_new(int events_fd, struct talk **ret);

/* Sends the record under a number of its own, which is its `generation`. -EBUSY: too many wait; -EPIPE: nobody is
 * there; others. */
int talk_ask(struct talk *talk, struct event *event);
/* Waits for the answer to the number that the record got. With a tracee: -ESRCH once its call no longer waits, and then
 * the supervisor is told so. *ret_fd (optional) is what came with the answer, or -1; it is the caller's. */
int talk_await(struct talk *talk, uint32_t number, const struct tracee *tracee, uint32_t *ret_value, int *ret_fd);
