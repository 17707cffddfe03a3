/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The credentials in the host's environment: which ones Bailey can stand in for, and which ones it cannot. */
#include "base/err.h"
#include "egress/egress_state.h"
#include "policy/profile/providers.h"

/* The first variable of the provider that is set (for AWS: all that are needed are), or NULL. */
const char *egress_provider_variable(const struct provider *provider, char *const *environment);

struct egress_uncovered {
        const char *variable, *why;
        bool model; /* of a service for models: fail_on_uncovered_providers is about these */
};
/* The i-th variable that is set and cannot be covered (or is not by these settings); NULL when there are no more. */
const struct egress_uncovered *egress_uncovered_next(const struct egress_settings *settings, char *const *environment,
                                                     size_t *cursor);

/* Names of the secrets that Bitwarden's bws lists; the values never reach this process. */
int egress_bitwarden_names(const char *project, char *const *environment, text_list *ret, struct err *err);

/* The environment of the service: an allow list, what the credentials' sources need, and nothing else. Proxy variables
 * are left out: the gateway must not be its own client. */
int egress_environment(const mappings *list, char *const *environment, text_list *ret, struct err *err);
