/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the verbs that inspect a policy share: exit codes and the printing of verdicts. */
#include "cli/verb.h"
#include "verbs/inspect/inspect.h"

/* The policy that the call's options give. Returns EXIT_OK or the exit code, with e set. */
int inspect_open(const struct call *call, const char *file, struct inspector **ret, struct err *err);

/* `asked` is the text that the person gave. */
void inspect_print(const char *asked, const struct inspect_verdict *verdict, bool color);
/* "gh pr view 5", as `bailey bridge check` has it: prints what would become of it. Returns the exit code. */
int inspect_tool_call(const struct call *call, const char *text, bool json, struct err *err);
struct emit;
void inspect_emit(struct emit *json, const char *asked, const struct inspect_verdict *verdict);
/* Writes the buffer to standard output. Returns EXIT_OK, or EXIT_SYSTEM with e set. */
int inspect_write(const struct buf *out, struct err *err);
/* The same for what was written to the buffer as JSON, with the end of its line. */
int inspect_write_json(const struct emit *json, struct buf *out, struct err *err);
