/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The environment of a run's command. */
#include "plan/build.h"
#include "roles/vault_session.h"

struct run_env {
        char **block;    /* as execve() wants it */
        char *held_back; /* names of variables that look like credentials, "A, B"; NULL: none */
};

int run_env(const struct policy *policy, const struct plan_host *host, const struct vault_session *vault,
            const char *id, struct run_env *ret, struct err *err);
void run_env_done(struct run_env *env);
