/* SPDX-License-Identifier: Apache-2.0 */
#include "control/prompt.h"

#include "base/escape.h"

enum { SEGMENT_SHOWN = 300 };

static int command_text(struct buf *out, const struct question_command *c) {
        int r = buf_add(out, "\r\nbailey: this command needs your approval: ");
        r = r < 0 ? r : escape_text(out, str_of(c->reason), QUESTION_SHOWN);
        r = r < 0 ? r : buf_printf(out, " (rule %s)\r\n    ", *c->rule ? c->rule : "none");
        r = r < 0 ? r : escape_text(out, str_of(c->text), QUESTION_SHOWN);
        if (r == 0 && strcmp(c->segment, c->text) != 0) {
                r = buf_add(out, "\r\n  because of\r\n    ");
                r = r < 0 ? r : escape_text(out, str_of(c->segment), SEGMENT_SHOWN);
        }
        return r < 0 ? r : buf_add(out, "\r\nbailey: run it in the sandbox? once, workspace, always or no: ");
}

int prompt_text(struct buf *out, const struct question *q, const char *sandbox_id) {
        char target[AUTHORITY_TEXT_MAX];
        if (q->command.text)
                return command_text(out, &q->command);
        authority_text(&q->target, target);
        return buf_printf(out,
                          "\r\nbailey: %s wants to connect to %s, which no rule allows\r\n"
                          "bailey: allow it? once, sandbox, workspace, always or no: ",
                          sandbox_id, target);
}

enum prompt_reading prompt_read(struct str line, enum control_answer *ret_answer, enum control_scope *ret_scope) {
        static const struct {
                const char *word;
                enum control_answer answer;
                enum control_scope scope;
        } words[] = {
                { "once", ANSWER_ALLOW, SCOPE_ONCE },           { "sandbox", ANSWER_ALLOW, SCOPE_SANDBOX },
                { "workspace", ANSWER_ALLOW, SCOPE_WORKSPACE }, { "always", ANSWER_ALLOW, SCOPE_ALWAYS },
                { "no", ANSWER_DENY, SCOPE_SANDBOX }, /* asked again and again is no answer */
                { "deny", ANSWER_DENY, SCOPE_SANDBOX },
        };
        struct str word = str_trim(line);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (str_is(word, words[i].word)) {
                        *ret_answer = words[i].answer;
                        *ret_scope = words[i].scope;
                        return PROMPT_ANSWER;
                }
        return PROMPT_AGAIN;
}
