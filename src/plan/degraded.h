/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The plan for hosts without namespaces: Landlock, seccomp and proxy variables, and notes on what is lost. */
#include "plan/build.h"

int plan_degraded(struct plan *plan, const struct plan_request *request, struct err *err);
