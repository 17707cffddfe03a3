/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A credential in one word, PROVIDER[=SOURCE], as --credential and the agents' profiles write it. The provider's row
 * says the rest; without SOURCE it is the provider's own variable.
 */
#include "policy/policy.h"

int check_credential_word(struct str word, struct err *e);

/* Adds it. Where the policy has that provider's already, a SOURCE takes the place of the one there. */
int credential_add(struct policy *p, struct str word, const char *origin, struct err *e);

/* Whether a profile's credential is wanted: the host has a value for it, and nobody decided about its variables. */
bool credential_is_at_hand(const struct policy *p, struct str provider);
/* The same for one variable. */
bool credential_variable_is_free(const struct policy *p, const char *name);
/* The policy's credential for this provider; NULL: none. */
struct credential *credential_of_provider(const struct policy *p, const char *provider);
