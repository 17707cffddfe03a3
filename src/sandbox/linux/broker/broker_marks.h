/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files whose opening closes a ratchet (policy/judge/ratchet.h). The caller gets the descriptor only after the
 * supervisor has confirmed that everything outside is narrowed. Until then it waits in its call, and so does every
 * other call about files. Giving the file another name, by which it could be read later, closes the ratchet as well.
 *
 * Between the two: the broker sends an EVENT_RATCHET record, and the supervisor answers (broker_talk.h). Without an
 * answer the call fails.
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
/* The object at the first path is about to get the second; a directory with everything below. */
int judge_marked_move(struct held *held, const char *from, const char *to, bool directory);
