/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the policy and the plan say about the gateway, in the form that the gateway starts from. */
#include "ipc/gateway.h"
#include "manager/run.h"
#include "plan/plan.h"
#include "policy/policy.h"

int run_gateway_start(const struct policy *p, const struct plan *plan, const char *sandbox_id,
                      const struct run_request *q, struct gateway_start *ret, struct err *e);
/* The policy's network rules, with the addresses that this host has now. */
int run_gateway_compile(const struct policy *p, void **ret, size_t *ret_n, struct err *e);
