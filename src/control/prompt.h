/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The words of the terminal prompt: what is shown, and what a line that a person typed means. Pure. */
#include "control/protocol.h"
#include "control/questions.h"

/* A few lines, the last without a line break. A host is ASCII that was parsed as a name before; a command is escaped.
 */
int prompt_text(struct buf *out, const struct question *question, const char *sandbox_id);
/* What is written before and after it: the program may have left the terminal in a state that hides or disguises a
 * question. Both are empty for a terminal (TERM) without such features. */
const char *prompt_uncover(const char *terminal_type);
const char *prompt_leave(const char *terminal_type);

enum prompt_reading { PROMPT_AGAIN, PROMPT_ANSWER };
/* One line without its line break. A line with anything but lower-case letters and blanks is not an answer: what a
 * terminal sends by itself (a report that the sandboxed program asked for) begins with an escape character. */
enum prompt_reading prompt_read(struct str line, enum control_answer *ret_answer, enum control_scope *ret_scope);
