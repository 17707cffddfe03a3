/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the policy and the plan say about the gateway, in the form that the gateway starts from. */
#include "ipc/gateway_messages.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "run/run_request.h"

int run_gateway_start(const struct policy *policy, const struct plan *plan, const char *sandbox_id,
                      const struct run_request *request, struct gateway_start *ret, struct err *err);
