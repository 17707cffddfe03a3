/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files whose opening closes a ratchet (policy/ratchet.h). The descriptor is handed over only when the supervisor has
 * said that everything outside is narrowed: until then the caller waits in its call, and with it whoever else wants a
 * file. What could show such a file without opening it by its name, another name for it, closes the ratchet as well.
 *
 * Between the two: the broker sends an EVENT_RATCHET record, and the supervisor answers with a struct mark_answer on
 * the same socket. Without an answer the call fails.
 */
#include "plan/plan.h"

#include <stdbool.h>

struct held;
struct marks;
struct place;

/* NULL in *ret where nothing is marked. */
int marks_new(const struct plan *plan, struct marks **ret);

/* 0, or a negative errno. Something that is at this path is about to be opened. */
int judge_marked(struct held *held, const char *path, int flags);
/* What is at the one path is about to get the other; a directory with everything below. */
int judge_marked_move(struct held *held, const char *from, const char *to, bool directory);
