/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the sandbox trusts is laid over the system's own files inside: a program with an empty environment (wget, `env
 * -i`, a server that an agent starts) reads those and no variable.
 */
#include "plan/build.h"
#include "roles/vault_session.h"

/* Adds a cover for each bundle and each Java store that this machine has. Nothing without a bundle of the run's own. */
int run_certificates_cover(const struct vault_session *vault, struct plan_host *host, struct err *err);
/* Whether Java finds the certificates without being told: its own store is among the covers. */
bool run_certificates_java(const struct vault_session *vault, const struct plan_host *host);
