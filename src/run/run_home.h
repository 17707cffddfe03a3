/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The sandbox's own home, from the side of one run: opened before the plan, filled, shown in the plan. */
#include "base/err.h"

struct home;
struct policy;
struct run;
struct vault_session;

/* Lays into an open home what every run has there: settings, what the profiles bring, sign-ins; and remembers it. */
int run_home_lay(struct home *home, const struct policy *policy, const struct vault_session *vault, struct err *err);

/* Finds or makes it, and fills it. For a look at the plan only its name is found. */
int run_home_open(struct run *run, struct err *err);
/* After the survey: tells the plan where it is, and makes the places in it where something is mounted. */
int run_home_show(struct run *run, struct err *err);
/* After the sandbox has ended, while the vault's files are still there: removes the point that they were mounted on. */
void run_home_end(struct run *run);
/* A command that was not found inside, and lies in the real home: says what would lay it into the own one. */
void run_home_hint(const struct run *run);
