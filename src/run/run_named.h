/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The supervisor's side of sandbox/named.h: the broker's questions about git's configuration. */
#include "ipc/event.h"

/* EVENT_NAMED of the broker. */
void run_named_event(void *run, const struct event *event);
