/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A captured connection: the sandbox believes that it speaks to the destination itself. Theory in transparent.c. */
#include "gateway/worker.h"

/* Takes the client over, also when it fails. */
int transparent_start(const struct client *client);
