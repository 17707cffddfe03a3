/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the broker asks the supervisor, as both know it: files whose opening closes a ratchet, and opens that wait for a
 * person. */
#include "plan/plan.h"

/* The supervisor's answer to an EVENT_RATCHET or EVENT_HELD of the broker, on the same socket. */
struct broker_answer {
        uint32_t number; /* of the question */
        uint32_t value;  /* EVENT_RATCHET: the ratchets that have closed, one bit each; EVENT_HELD: enum held_answer */
};

enum held_answer {
        HELD_NO,     /* it fails as it would have */
        HELD_AGAIN,  /* the path is open now: the call is performed again, from its beginning */
        HELD_OPENED, /* the descriptor that comes with the answer is the result, for this call alone */
};

/* The ratchets that opening this path closes, one bit each. */
uint32_t plan_marks_of(const struct plan *plan, const char *path);
/* Whether people are asked about this path (filesystem.ask). */
bool plan_asks_about(const struct plan *plan, const char *path);
