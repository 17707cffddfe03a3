/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What waits at a listener for a gateway that does not come, in which systems differ. The supervisor of macOS cannot
 * accept anything, and lets it wait.
 */
#include "ipc/gateway_messages.h"

/* Whether what waits at such a listener can be refused here. */
bool listener_can_refuse(uint32_t kind);
/* Connections are closed, and questions for names are answered with a server failure: what waits now, up to a limit.
 * For kinds that can be refused. False: something waits that cannot be refused now (there is no descriptor free to
 * accept it, say), so that the listener stays ready. */
bool listener_refuse(int fd, uint32_t kind);
