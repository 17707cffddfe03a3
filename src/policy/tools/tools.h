/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tools of the host that the sandbox may call, as data: the section `bridge` of a policy. A tool that Bailey knows
 * (bridges/, built in) needs no more than its name; what a person writes takes the place of what is built in, field by
 * field. policy/tools/tool_grammar.h has the grammar of calls; bridge/tool_call.h judges them.
 */
#include "policy/policy.h"

struct tool_built_in {
        const char *name, *text;
};
extern const struct tool_built_in tools_built_in[];
extern const size_t n_tools_built_in;

/* Of a policy's entries. */
int check_tool_verb(struct str text, struct err *err);
int check_tool_never(struct str text, struct err *err);
int check_tool_front(struct str text, struct err *err);
int check_tool_ask(struct str text, struct err *err);
int check_tool_program(struct str text, struct err *err);
int check_tool_file(struct str text, struct err *err);
int check_tool_credential(struct str text, struct err *err);
int check_tool(const void *record, struct err *err);

/* NAME or NAME=REPO+REPO, as on the command line. */
int check_tool_word(struct str word, struct err *err);
int tool_add_word(struct policy *policy, struct str word, const char *origin, struct err *err);

/* Once all layers are there: the last entry of each name counts, what it leaves out is built in, and repositories that
 * it does not name are those of `git`. -EINVAL: nothing is known of such a tool, or it contradicts itself. */
int tools_complete(struct policy *policy, struct err *err);
const struct bridge_tool *tool_find(const struct policy *policy, struct str name);

enum { TOOL_TIMEOUT_SECONDS = 300 };
uint64_t tool_timeout_ns(const struct bridge_tool *tool);
bool tool_is(const char *value, const char *word, bool fallback);
