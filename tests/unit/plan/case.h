/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Plans from data: a case file says what is wanted and what the host is like. See tests/cases/plan/README. */
#include "plan/build.h"

/* Reads the file and builds the plan; ends the test with a message when the file itself is wrong. */
struct plan *case_build(const char *file);
