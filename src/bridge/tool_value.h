/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Values of a bridged tool's grammar: whether a text is one of this type, and how it is written for the tool. Pure. */
#include "base/buf.h"
#include "policy/policy.h"
#include "policy/tools/tool_grammar.h"

/* Appends it to `out` in its one form; -EINVAL with why it is none, -ENOMEM, -EMSGSIZE. */
int tool_value_write(const struct bridge_tool *tool, const struct tool_slot *slot, struct str text, struct buf *out,
                     struct err *err);
/* The one repository that the tool has, for an option that was left out; false where there are several. */
bool tool_value_only_repo(const struct bridge_tool *tool, struct str *ret);
