/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* From the merged policy to what a gateway is started with. */
#include "ipc/gateway_messages.h"
#include "policy/policy.h"

/* Limits, name servers and the upstream proxy; listeners and modes stay as they are. */
int gateway_config_apply(struct gateway_start *start, const struct policy *policy, struct err *err);
/* Whether both agree on the settings that a gateway gets only at its start: name servers and the upstream proxy. Limits
 * change while it runs (gateway_process_reload()). */
bool gateway_config_equal(const struct policy *a, const struct policy *b);
