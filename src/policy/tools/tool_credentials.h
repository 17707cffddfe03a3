/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Credentials of bridged tools. A word of a tool's `credentials` is the name of an entry under the policy's own
 * `credentials`, or PROVIDER[=SOURCE].
 *
 * An entry that a tool names by its `name` is the tool's: the sandbox has neither its stand-in nor its hosts. `sandbox:
 * true` in the entry gives it to the sandbox too. An entry without a name of its own is called by its provider's; a
 * tool that names the provider has it beside the sandbox, unless the entry says `sandbox: false`.
 */
#include "policy/mappings.h"

struct tool_credential {
        const struct credential *own;    /* the policy's entry; NULL: the two below */
        const struct provider *provider; /* a provider that the policy has no entry for */
        struct str source;               /* empty: the provider's variable */
};

/* False: nothing is known by this name. */
bool tool_credential_find(const struct policy *policy, struct str word, struct tool_credential *ret);
/* Once all layers are there: every word is known, and what belongs to tools alone goes to policy->tool_credentials. */
int tool_credentials_settle(struct policy *policy, struct err *err);
/* The policy's own entries of a tool, providers filled in. */
int tool_mappings(const struct policy *policy, const struct bridge_tool *tool, mappings *ret, struct err *err);
/* All entries that tools alone have. */
int tool_mappings_all(const struct policy *policy, mappings *ret, struct err *err);
/* Whatever tools name with a source, in the entry or in the word, for who keeps the sources out of the sandbox; one
 * that two tools name may be there twice. */
int tool_sources(const struct policy *policy, mappings *ret, struct err *err);
