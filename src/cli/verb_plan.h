/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The system that Bailey runs on, for `bailey plan`. */
#include "cli/verb.h"

enum { PLAN_OUTPUT_MAX = 16 << 20 };

extern const char plan_system_here[];
/* A plan for Linux. */
int plan_run_here(const struct call *call, bool json, struct err *err);
