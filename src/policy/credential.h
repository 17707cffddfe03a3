/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A credential in one word, PROVIDER[=SOURCE] or SIGN-IN, as --credential and the agents' profiles write it. The
 * provider's row has the rest; without SOURCE the value comes from the provider's own variable.
 */
#include "policy/policy.h"
#include "policy/profile/sign_ins.h"

struct provider;

int check_credential_word(struct str word, struct err *err);

/* Adds it. Where the policy has that provider's already, a SOURCE takes the place of the one there. */
int credential_add(struct policy *policy, struct str word, const char *origin, struct err *err);

/* Adds one credential for each secret of a sign-in (policy/profile/sign_ins.h): those that its file has, and those that
 * a token endpoint may give, which are kept in memory where the file has no place for them. */
int sign_in_add(struct policy *policy, const struct sign_in *sign_in, const char *origin, struct err *err);

/* Whether a profile's credential is wanted: the host has a value for it, and nobody decided about its variables. */
bool credential_is_at_hand(const struct policy *policy, struct str provider);
/* The same for one variable. */
bool credential_variable_is_free(const struct policy *policy, const char *name);
/* The policy's credential for this provider; NULL: none. */
struct credential *credential_of_provider(const struct policy *policy, const char *provider);
/* The provider's variable that has a value, else the first. The source of a signature is named by its secret key. */
const char *credential_variable(const struct provider *provider);
