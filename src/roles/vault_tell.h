/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a new vault gets before it opens: the start block, values of the user's environment, variables for commands. */
#include "ipc/vault_messages.h"
#include "policy/mappings.h"

/* The start block's list, heap memory. */
int vault_tell_mappings(const mappings *list, struct vault_mapping **ret, struct err *err);
/* Each env: value, as one message each. An unset variable is an error that names it and the credential. */
int vault_tell_values(int control, const mappings *list, char *const *environment, struct err *err);
/* From the user's environment what programs that fetch secrets need, and nothing else. */
int vault_tell_variables(int control, const mappings *list, char *const *environment, struct err *err);
/* Whether a variable of this name tells such a program who the user is, and a source runs it. */
bool vault_tell_is_for_tool(const mappings *list, struct str name);
/* One message on a socket that does not block; waits a while for room. */
int vault_tell(int control, const struct vault_message *message, int fd, struct err *err);
