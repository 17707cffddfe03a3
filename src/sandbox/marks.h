/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files whose opening closes a ratchet: what the broker and the supervisor both know of them. */
#include "plan/plan.h"

/* The supervisor's answer to an EVENT_RATCHET of the broker, on the same socket. */
struct mark_answer {
        uint32_t number; /* of the question */
        uint32_t closed; /* ratchets, one bit each */
};

/* The ratchets that opening this path closes, one bit each. */
uint32_t plan_marks_of(const struct plan *plan, const char *path);
