/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `bailey-gateway door`: TLS for a phone that is paired with the dashboard (ipc/door_messages.h), in a process of its
 * own. */
#include "base/err.h"

int door_main(struct err *err);
