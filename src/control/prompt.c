/* SPDX-License-Identifier: Apache-2.0 */
#include "control/prompt.h"

#include "base/escape.h"

enum { SEGMENT_SHOWN = 300 };

static int command_text(struct buf *out, const struct question_command *command) {
        const char *rule = *command->rule ? command->rule : "none";
        int r = buf_add(out, "\r\nbailey: this command needs your approval: ");

        if (r >= 0)
                r = escape_text(out, str_of(command->reason), QUESTION_SHOWN);
        if (r >= 0)
                r = buf_printf(out, " (rule %s)\r\n    ", rule);
        if (r >= 0)
                r = escape_text(out, str_of(command->text), QUESTION_SHOWN);
        if (r == 0 && strcmp(command->segment, command->text) != 0) {
                r = buf_add(out, "\r\n  because of\r\n    ");
                if (r >= 0)
                        r = escape_text(out, str_of(command->segment), SEGMENT_SHOWN);
        }

        if (r < 0)
                return r;

        return buf_add(out, "\r\nbailey: run it in the sandbox? once, workspace, always or no: ");
}

/* In quotes: these are the agent's words, not Bailey's. */
static int put_reason(struct buf *out, const struct question *question) {
        if (!question->reason)
                return 0;

        int r = buf_add(out, "\r\n  its reason: \"");
        if (r < 0)
                return r;

        r = escape_text(out, str_of(question->reason), SEGMENT_SHOWN);
        if (r < 0)
                return r;

        return buf_add(out, "\"");
}

static int call_text(struct buf *out, const struct question *question, const char *sandbox_id) {
        int r =
            buf_printf(out, "\r\nbailey: %s wants the tool %s run on your host:\r\n    ", sandbox_id, question->tool);

        if (r >= 0)
                r = escape_text(out, str_of(question->push), QUESTION_SHOWN);
        if (r >= 0)
                r = buf_add(out, "\r\n  in ");
        if (r >= 0)
                r = escape_text(out, str_of(question->directory), QUESTION_SHOWN);
        if (r < 0)
                return r;

        return buf_add(out, "\r\nbailey: run it? once, sandbox or no: ");
}

static int access_text(struct buf *out, const struct question *question, const char *sandbox_id) {
        int r = buf_printf(out,
                           question->held ? "\r\nbailey: %s waits to open what no rule grants: "
                                          : "\r\nbailey: the agent in %s asks for: ",
                           sandbox_id);

        if (r >= 0)
                r = escape_text(out, str_of(question->push), QUESTION_SHOWN);
        if (r >= 0)
                r = put_reason(out, question);
        if (r < 0)
                return r;

        return buf_add(out, question->held ? "\r\nbailey: agree? once, sandbox, workspace, always or no: "
                                           : "\r\nbailey: agree? once, workspace, always or no: ");
}

static int page_text(struct buf *out, const struct question *question, const char *sandbox_id) {
        int r = buf_printf(out, "\r\nbailey: %s wants this page opened in your browser:\r\n    ", sandbox_id);

        if (r >= 0)
                r = escape_text(out, str_of(question->push), QUESTION_SHOWN);
        if (r < 0)
                return r;

        return buf_add(out, "\r\nbailey: open it? once or no: ");
}

static int push_text(struct buf *out, const struct question *question, const char *sandbox_id) {
        int r = buf_printf(out, "\r\nbailey: %s waits with a ", sandbox_id);

        if (r >= 0)
                r = escape_text(out, str_of(question->push), QUESTION_SHOWN);
        if (r == 0 && question->of_tool)
                r = buf_printf(out, " (tool %s)", question->tool);
        if (r < 0)
                return r;

        return buf_add(out, "\r\nbailey: let it through? once or no: ");
}

int prompt_text(struct buf *out, const struct question *question, const char *sandbox_id) {
        char target[AUTHORITY_TEXT_MAX];

        if (question->command.text)
                return command_text(out, &question->command);

        if (question->access)
                return access_text(out, question, sandbox_id);
        if (question->page)
                return page_text(out, question, sandbox_id);
        if (question->call)
                return call_text(out, question, sandbox_id);
        if (question->push)
                return push_text(out, question, sandbox_id);

        authority_text(&question->target, target);
        int r = buf_printf(out, "\r\nbailey: %s wants to connect to %s, which no rule allows", sandbox_id, target);
        if (r < 0)
                return r;

        r = put_reason(out, question);
        if (r < 0)
                return r;

        return buf_add(out, "\r\nbailey: allow it? once, sandbox, workspace, always or no: ");
}

static bool understands_sequences(const char *terminal_type) {
        return terminal_type && *terminal_type && strcmp(terminal_type, "dumb") != 0;
}

const char *prompt_uncover(const char *terminal_type) {
        static const char uncover[] = "\x18\x1b\\"      /* a sequence or a string that was begun ends here */
                                      "\x1b[?2026l"     /* what is written is shown at once */
                                      "\x1b[!p"         /* soft reset: attributes, character sets, insert mode */
                                      "\x1b[?69l\x1b[r" /* the whole screen scrolls */
                                      "\x1b[999H"       /* and this is its last line */
                                      "\x1b[?7h\x1b[?25h\x1b(B\x0f"
                                      "\x1b[0;97;40m\x1b[38;2;255;255;255;48;2;0;0;0m"; /* whatever the palette is */
        return understands_sequences(terminal_type) ? uncover : "";
}

const char *prompt_leave(const char *terminal_type) {
        return understands_sequences(terminal_type) ? "\x1b[0m" : "";
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
