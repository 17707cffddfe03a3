/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/hook.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/paths/path.h"
#include "conf/json.h"
#include "verbs/command_check.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { COMMAND_WORDS_MAX = 256, PATHS_MAX = 64, REASON_MAX = 600, STATUS_BLOCK = 2 };

enum hook_decision { DECIDE_PASS, DECIDE_ALLOW, DECIDE_ASK, DECIDE_DENY };

/* An agent's tool: what it does, and the keys of its input that name the object. */
enum tool_kind { TOOL_COMMAND, TOOL_READ, TOOL_SEARCH, TOOL_WRITE, TOOL_PATCH };
struct tool {
        const char *name;
        enum tool_kind kind;
        const char *keys[3];
};

static const struct tool claude_tools[] = {
        { "Bash", TOOL_COMMAND, { "command" } },
        { "Read", TOOL_READ, { "file_path" } },
        { "NotebookRead", TOOL_READ, { "notebook_path" } },
        { "Grep", TOOL_SEARCH, { "path" } },
        { "Write", TOOL_WRITE, { "file_path" } },
        { "Edit", TOOL_WRITE, { "file_path" } },
        { "MultiEdit", TOOL_WRITE, { "file_path" } },
        { "NotebookEdit", TOOL_WRITE, { "notebook_path" } },
        { NULL },
};
static const struct tool codex_tools[] = {
        { "Bash", TOOL_COMMAND, { "command", "cmd" } },
        { "shell", TOOL_COMMAND, { "command", "cmd" } },
        { "local_shell", TOOL_COMMAND, { "command", "cmd" } },
        { "exec_command", TOOL_COMMAND, { "cmd", "command" } },
        { "apply_patch", TOOL_PATCH, { "command", "input", "patch" } },
        { NULL },
};
static const struct tool gemini_tools[] = {
        { "run_shell_command", TOOL_COMMAND, { "command" } },
        { "read_file", TOOL_READ, { "file_path", "absolute_path" } },
        { "read_many_files", TOOL_READ, { "paths", "include" } },
        { "search_file_content", TOOL_SEARCH, { "path", "dir_path" } },
        { "grep_search", TOOL_SEARCH, { "path", "dir_path" } },
        { "write_file", TOOL_WRITE, { "file_path" } },
        { "replace", TOOL_WRITE, { "file_path" } },
        { NULL },
};

struct agent {
        const char *name, *event, *file;
        const struct tool *tools;
        bool asks;   /* it can be told to ask a person */
        bool allows; /* it can be told to go ahead */
};
static const struct agent agents[] = {
        [HOOK_CLAUDE] = { "claude", "PreToolUse", "~/.claude/settings.json", claude_tools, true, true },
        [HOOK_CODEX] = { "codex", "PreToolUse", "~/.codex/hooks.json", codex_tools, false, false },
        [HOOK_GEMINI] = { "gemini", "BeforeTool", "~/.gemini/settings.json", gemini_tools, true, true },
};
static_assert(sizeof agents / sizeof agents[0] == HOOK_AGENTS, "a row for each agent");

bool hook_agent_from(const char *name, enum hook_agent *ret) {
        for (size_t i = 0; i < HOOK_AGENTS; i++)
                if (str_eq(str_of(name), str_of(agents[i].name))) {
                        *ret = (enum hook_agent)i;
                        return true;
                }
        return false;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

struct verdict {
        enum hook_decision decision;
        char reason[REASON_MAX];
};

static enum hook_decision decide_unknown(const struct hook_request *request) {
        switch (request->unknown) {
        case HOOK_ALLOW:
                return DECIDE_ALLOW;
        case HOOK_ASK:
                return DECIDE_ASK;
        case HOOK_PASS:
                return DECIDE_PASS;
        case HOOK_AUTO:
                break;
        }

        return getenv("SANDBOX_RUNTIME") ? DECIDE_ALLOW : DECIDE_PASS;
}

static enum hook_decision hook_decide(const struct hook_request *request, enum check_decision decision) {
        if (decision == CHECK_FORBIDDEN)
                return DECIDE_DENY;
        if (decision == CHECK_ESCALATED)
                return DECIDE_ASK;
        if (decision == CHECK_ALLOW)
                return DECIDE_ALLOW;

        return decide_unknown(request);
}

/* The strictest of several questions decides. */
static void verdict_add(struct verdict *verdict, enum hook_decision decision, const struct check_verdict *said) {
        if (decision < verdict->decision || (decision == verdict->decision && verdict->reason[0]))
                return;

        cleanup(free_ptr) char *rule = *said->rule ? str_format(" (rule %s)", said->rule) : NULL;
        cleanup(free_ptr) char *detail = said->detail ? str_format(": %s", said->detail) : NULL;

        verdict->decision = decision;
        snprintf(verdict->reason, sizeof verdict->reason, "Bailey: %s%s%s", said->reason, text_or(rule, ""),
                 text_or(detail, ""));
}

static int judge_words(const struct hook_request *request, const struct node *cwd, char *const *words, size_t n,
                       bool args, struct verdict *verdict, struct err *err) {
        cleanup(check_verdict_done) struct check_verdict said = { 0 };
        const struct check_question question = {
                .words = words, .n = n, .args = args, .directory = cwd ? cwd->text.p : NULL, .looks_back = true
        };
        int r = check_command(request->options, &question, &said, err);

        if (r == 0)
                verdict_add(verdict, said.agreed ? DECIDE_ALLOW : hook_decide(request, said.decision), &said);

        return r;
}

static bool is_text(const struct node *node) {
        return node && node->kind == NODE_SCALAR && node->quoted && !str_has_nul(node->text);
}

/* A text for a shell, or a list of words. */
static int judge_command(const struct hook_request *request, const struct node *cwd, const struct node *command,
                         struct verdict *verdict, struct err *err) {
        char *words[COMMAND_WORDS_MAX];
        size_t n = 0;

        if (is_text(command)) {
                words[0] = (char *)command->text.p;
                return judge_words(request, cwd, words, 1, false, verdict, err);
        }

        if (!command || command->kind != NODE_LIST || command->n == 0 || command->n > COMMAND_WORDS_MAX)
                return err_set(err, EINVAL, "tool_input has no command that can be read");

        for (const struct node *word = command->first; word; word = word->next) {
                if (!is_text(word))
                        return err_set(err, EINVAL, "tool_input.command has something in it that is no text");
                words[n++] = (char *)word->text.p;
        }

        return judge_words(request, cwd, words, n, true, verdict, err);
}

/* A file is judged as the command that reads or writes it. Agents know the home by its sign, as shells do. */
static int judge_path(const struct hook_request *request, const struct node *cwd, char *path, bool writes,
                      struct verdict *verdict, struct err *err) {
        static char cat[] = "cat", tee[] = "tee", dashes[] = "--";
        cleanup(free_ptr) char *expanded = NULL;
        char *whole = path;

        if (path[0] == '~') {
                if (path_expand_home(str_of(path), getenv("HOME"), &expanded) < 0)
                        return err_set(err, EINVAL, "the home in '%s' is not known", path);
                whole = expanded;
        }

        char *const words[] = { writes ? tee : cat, dashes, whole };

        return judge_words(request, cwd, words, 3, true, verdict, err);
}

static int judge_paths(const struct hook_request *request, const struct node *cwd, const struct node *paths,
                       bool writes, struct verdict *verdict, struct err *err) {
        if (is_text(paths))
                return judge_path(request, cwd, (char *)paths->text.p, writes, verdict, err);
        if (!paths || paths->kind != NODE_LIST || paths->n > PATHS_MAX)
                return err_set(err, EINVAL, "tool_input has no path that can be read");

        for (const struct node *path = paths->first; path; path = path->next) {
                if (!is_text(path))
                        return err_set(err, EINVAL, "tool_input has a path that is no text");
                int r = judge_path(request, cwd, (char *)path->text.p, writes, verdict, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Blanks on both sides, also those of other systems' lines: the readers of patches take them away. */
static struct str line_trim(struct str line) {
        while (line.n && strchr(" \t\r\v\f", line.p[0]) && line.p[0])
                line = str_skip(line, 1);
        while (line.n && strchr(" \t\r\v\f", line.p[line.n - 1]) && line.p[line.n - 1])
                line = str_first(line, line.n - 1);
        return line;
}

/* "*** Update File: PATH" and its kin. */
static int judge_patch(const struct hook_request *request, const struct node *cwd, const struct node *patch,
                       struct verdict *verdict, struct err *err) {
        static const char *const marks[] = { "*** Add File: ", "*** Update File: ", "*** Delete File: ",
                                             "*** Move to: ", NULL };
        struct str rest, line;
        size_t left = PATHS_MAX;

        if (!is_text(patch))
                return err_set(err, EINVAL, "tool_input has no patch that can be read");

        rest = patch->text;
        while (str_split(&rest, '\n', &line)) {
                line = line_trim(line);

                for (const char *const *mark = marks; *mark; mark++) {
                        if (!str_starts(line, str_of(*mark)))
                                continue;

                        cleanup(free_ptr) char *path = str_dup(str_trim(str_skip(line, strlen(*mark))));
                        if (!path || left-- == 0)
                                return err_set(err, EINVAL, "the patch names too many files");

                        int r = judge_path(request, cwd, path, true, verdict, err);
                        if (r < 0)
                                return r;
                }
        }

        if (left == PATHS_MAX)
                return err_set(err, EINVAL, "the patch names no file that can be read");

        return 0;
}

/* Codex applies patches that stand in a command, whatever runs them. */
static int judge_patches_in(const struct hook_request *request, const struct node *cwd, const struct node *command,
                            struct verdict *verdict, struct err *err) {
        const struct str begin = STR("*** Begin Patch");
        const struct node *word = command && command->kind == NODE_LIST ? command->first : command;
        int r = 0;

        for (; r == 0 && word; word = word == command ? NULL : word->next)
                if (is_text(word) && memmem(word->text.p, word->text.n, begin.p, begin.n))
                        r = judge_patch(request, cwd, word, verdict, err);

        return r;
}

static int judge_shell(const struct hook_request *request, const struct node *cwd, const struct node *command,
                       struct verdict *verdict, struct err *err) {
        int r = judge_command(request, cwd, command, verdict, err);
        if (r < 0)
                return r;

        return judge_patches_in(request, cwd, command, verdict, err);
}

static const struct node *input_of(const struct tool *tool, const struct node *input) {
        for (size_t i = 0; i < sizeof tool->keys / sizeof tool->keys[0] && tool->keys[i]; i++) {
                const struct node *found = input ? node_get(input, str_of(tool->keys[i])) : NULL;
                if (found)
                        return found;
        }
        return NULL;
}

static int judge_tool(const struct hook_request *request, const struct tool *tool, const struct node *root,
                      struct verdict *verdict, struct err *err) {
        const struct node *cwd = node_get(root, STR("cwd")), *input = node_get(root, STR("tool_input"));

        if (cwd && (!is_text(cwd) || cwd->text.n == 0))
                cwd = NULL;
        if (!input || input->kind != NODE_MAP)
                return err_set(err, EINVAL, "there is no object tool_input");

        input = input_of(tool, input);

        switch (tool->kind) {
        case TOOL_COMMAND:
                return judge_shell(request, cwd, input, verdict, err);
        case TOOL_SEARCH: /* without a path: in the directory where the agent is */
                return input ? judge_paths(request, cwd, input, false, verdict, err) : 0;
        case TOOL_READ:
        case TOOL_WRITE:
                return judge_paths(request, cwd, input, tool->kind == TOOL_WRITE, verdict, err);
        case TOOL_PATCH:
                return judge_patch(request, cwd, input, verdict, err);
        }

        return 0;
}

/* --- answering ---------------------------------------------------------------------------------------------------- */

static const char *decision_name(enum hook_decision decision) {
        static const char *const names[] = { "", "allow", "ask", "deny" };
        return names[decision];
}

/* Claude Code and Codex. */
static void emit_permission(struct emit *json, const struct verdict *verdict) {
        emit_open(json, '{');
        emit_key(json, "hookSpecificOutput");
        emit_open(json, '{');
        emit_put_text(json, "hookEventName", "PreToolUse");
        emit_put_text(json, "permissionDecision", decision_name(verdict->decision));
        emit_put_text(json, "permissionDecisionReason", verdict->reason);
        emit_close(json);
        emit_close(json);
}

/* Codex, when it is about to ask a person itself. */
static void emit_request(struct emit *json, const struct verdict *verdict) {
        emit_open(json, '{');
        emit_key(json, "hookSpecificOutput");
        emit_open(json, '{');
        emit_put_text(json, "hookEventName", "PermissionRequest");
        emit_key(json, "decision");
        emit_open(json, '{');
        emit_put_text(json, "behavior", decision_name(verdict->decision));

        if (verdict->decision == DECIDE_DENY)
                emit_put_text(json, "message", verdict->reason);

        emit_close(json);
        emit_close(json);
        emit_close(json);
}

static void emit_decision(struct emit *json, const struct verdict *verdict) {
        emit_open(json, '{');
        emit_put_text(json, "decision", decision_name(verdict->decision));
        emit_put_text(json, "reason", verdict->reason);
        emit_close(json);
}

/* If an agent cannot ask, the answer is no: a person can run the command, or permit it by a rule of the policy. */
static void verdict_fit(const struct hook_request *request, struct verdict *verdict) {
        const struct agent *agent = &agents[request->agent];
        const char *why = request->nobody ? "nobody is there to ask" : "this agent's hooks cannot ask";
        size_t n = strlen(verdict->reason);

        if (verdict->decision == DECIDE_ALLOW && !agent->allows)
                verdict->decision = DECIDE_PASS;

        if (verdict->decision == DECIDE_ASK && (request->nobody || !agent->asks)) {
                verdict->decision = DECIDE_DENY;
                snprintf(verdict->reason + n, sizeof verdict->reason - n,
                         ". A person has to decide, and %s: run it yourself, or allow it by a rule under commands: in "
                         "the policy",
                         why);
        }
}

static int answer_print(const struct hook_request *request, bool asked_already, struct verdict *verdict,
                        struct hook_answer *ret) {
        struct emit j = emit_to(&ret->output);

        if (asked_already && verdict->decision == DECIDE_ASK && !request->nobody)
                verdict->decision = DECIDE_PASS; /* a person is asked anyway */
        if (!asked_already || verdict->decision == DECIDE_ASK)
                verdict_fit(request, verdict);
        if (verdict->decision == DECIDE_PASS)
                return 0;

        if (asked_already)
                emit_request(&j, verdict);
        else if (request->agent == HOOK_GEMINI)
                emit_decision(&j, verdict);
        else
                emit_permission(&j, verdict);

        if (emit_status(&j) < 0 || buf_add_char(&ret->output, '\n') < 0)
                return -ENOMEM;

        return 0;
}

static const struct tool *tool_find(const struct agent *agent, const struct node *name) {
        for (const struct tool *tool = agent->tools; is_text(name) && tool->name; tool++)
                if (str_is(name->text, tool->name))
                        return tool;
        return NULL;
}

/* The question: 0 with a verdict, which is to pass for events and tools that are not judged. */
static int question_judge(const struct hook_request *request, bool *ret_asked, struct verdict *verdict,
                          struct err *err) {
        cleanup(document_freep) struct document *document = NULL;
        const struct agent *agent = &agents[request->agent];
        const struct node *root, *event;
        const struct tool *tool;
        int r;

        r = json_read(request->input, STR("standard input"), &document, err);
        if (r < 0)
                return r;

        root = document_root(document);
        if (!root || root->kind != NODE_MAP)
                return err_set(err, EINVAL, "standard input: it is no JSON object");

        event = node_get(root, STR("hook_event_name"));
        *ret_asked = request->agent == HOOK_CODEX && is_text(event) && str_is(event->text, "PermissionRequest");
        if (event && !(is_text(event) && str_is(event->text, agent->event)) && !*ret_asked)
                return 0; /* an event that is none of ours */
        if (!is_text(node_get(root, STR("tool_name"))))
                return err_set(err, EINVAL, "standard input: there is no text tool_name");

        tool = tool_find(agent, node_get(root, STR("tool_name")));
        if (tool)
                return judge_tool(request, tool, root, verdict, err);

        return 0;
}

int hook_answer(const struct hook_request *request, struct hook_answer *ret, struct err *err) {
        struct verdict verdict = { .decision = DECIDE_PASS };
        bool asked_already = false;
        int r = question_judge(request, &asked_already, &verdict, err);

        ret->output = BUF(65536);
        ret->status = 0;
        ret->bad = r < 0;

        if (r < 0) { /* the safe answer: a request that cannot be read is never allowed */
                verdict.decision = DECIDE_ASK;
                snprintf(verdict.reason, sizeof verdict.reason, "Bailey could not judge this: %s", err_text(err));
        }

        r = answer_print(request, asked_already && !ret->bad, &verdict, ret);
        if (r < 0)
                return err_memory(err);

        return 0;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

const char *hook_settings_file(enum hook_agent agent) {
        return agents[agent].file;
}

int hook_settings(enum hook_agent agent, const char *program, struct buf *ret) {
        static const char *const matchers[] = {
                [HOOK_CLAUDE] = "Bash|Read|Grep|Write|Edit|MultiEdit|NotebookEdit",
                [HOOK_CODEX] = "Bash|apply_patch",
                [HOOK_GEMINI] =
                    "run_shell_command|read_file|read_many_files|search_file_content|grep_search|write_file|replace",
        };
        struct emit j = emit_to(ret);
        char command[4200];

        snprintf(command, sizeof command, "%s hook %s", program, agents[agent].name);
        emit_open(&j, '{');
        emit_key(&j, "hooks");
        emit_open(&j, '{');
        emit_key(&j, agents[agent].event);
        emit_open(&j, '[');
        emit_open(&j, '{');
        emit_put_text(&j, "matcher", matchers[agent]);
        emit_key(&j, "hooks");
        emit_open(&j, '[');
        emit_open(&j, '{');
        emit_put_text(&j, "type", "command");
        emit_put_text(&j, "command", command);
        emit_close(&j);
        emit_close(&j);
        emit_close(&j);
        emit_close(&j);
        emit_close(&j);
        emit_close(&j);

        if (emit_status(&j) < 0)
                return -ENOMEM;

        return buf_add_char(ret, '\n');
}
