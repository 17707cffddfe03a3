/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A person is asked about one signature: a question that is about no host. */
#include "gateway/ask.h"

/* Holds the call; answered() comes once, unless ask_leave() takes it back. A change of the policy counts as no. */
int signing_ask(struct worker *worker, struct gate_call *call, const char *text, uint8_t via,
                ask_answered_fn *answered);
