/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The environment of a run's command. */
#include "manager/run_vault.h"
#include "plan/build.h"

/* A block as execve() wants it; released with env_block_free(). */
int run_env(const struct policy *policy, const struct plan_host *host, const struct run_vault *vault, const char *id,
            char ***ret, struct err *e);
