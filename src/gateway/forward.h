/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A port of the host's loopback, offered to the sandbox as a listener of its own. The listener is the permission: it
 * exists only because the policy names the port, so nothing is judged here, and nothing but that port is ever dialled.
 */
#include "gateway/worker.h"

/* Takes the client over, also when it fails. */
int forward_start(const struct client *client);
