/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hooks of coding agents: before an agent runs a command or touches a file, it asks a program, by JSON on its standard
 * input, and obeys what that prints. This reads the question and answers it with the classifier, in the agent's own
 * format (docs/hooks.md has all of them). Input that cannot be read gets the safe answer: ask, or deny if the agent
 * cannot ask.
 */
#include "base/buf.h"
#include "conf/option.h"

enum hook_agent { HOOK_CLAUDE, HOOK_CODEX, HOOK_GEMINI, HOOK_AGENTS };
bool hook_agent_from(const char *name, enum hook_agent *ret);

/* What a command that no rule is about gets. */
enum hook_unknown {
        HOOK_AUTO, /* allow inside a sandbox; pass outside one */
        HOOK_ALLOW,
        HOOK_ASK,
        HOOK_PASS, /* no answer: the agent decides as if there were no hook */
};

struct hook_request {
        enum hook_agent agent;
        enum hook_unknown unknown;
        bool nobody; /* nobody is there whom the agent could ask */
        const struct option_values *options;
        struct str input;
};

/* What is to be printed, maybe nothing; the exit status of the program. */
struct hook_answer {
        struct buf output;
        int status;
        bool bad; /* the question could not be read; e says why */
};
/* -ENOMEM is the only failure. */
int hook_answer(const struct hook_request *request, struct hook_answer *ret, struct err *err);

/* The settings that make the agent call the hook, with the path of this program, and the file they belong into. */
const char *hook_settings_file(enum hook_agent agent);
int hook_settings(enum hook_agent agent, const char *program, struct buf *ret);
