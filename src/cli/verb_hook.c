/* SPDX-License-Identifier: Apache-2.0 */
/* bailey hook: answers the hooks of coding agents with what the classifier says. */
#include "verbs/hook.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/verb.h"
#include "cli/verb_inspect.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { INPUT_MAX = 4 << 20 };

static const char *const unknown_words[] = { "auto", "allow", "ask", "pass", NULL };
static const char *const escalated_words[] = { "ask", "deny", NULL };
static const struct option rows[] = {
        { .flag = "unknown",
          .type = OPTION_CHOICE,
          .metavar = "ANSWER",
          .choices = unknown_words,
          .fallback = "auto",
          .help = "the answer for what no rule is about; auto: allow inside a sandbox, none outside" },
        { .flag = "escalated",
          .type = OPTION_CHOICE,
          .metavar = "ANSWER",
          .choices = escalated_words,
          .fallback = "ask",
          .help = "the answer for what a person has to decide; deny: nobody is there whom the agent could ask" },
};
static const struct option_table table = { "Answers", rows, 2 };

static enum hook_unknown unknown_of(const struct call *call) {
        const char *given = option_get(&call->options, &rows[0]);

        for (size_t i = 0; given && unknown_words[i]; i++)
                if (str_eq(str_of(given), str_of(unknown_words[i])))
                        return (enum hook_unknown)i;
        return HOOK_AUTO;
}

static bool denies_escalated(const struct call *call) {
        const char *given = option_get(&call->options, &rows[1]);

        return given && str_is(str_of(given), "deny");
}

/* A question that is too long is no question: the answer is the one for bad input. */
static struct str read_input(struct buf *input) {
        int r = fd_read_all(STDIN_FILENO, input);
        return r < 0 ? STR("") : buf_str(input);
}

static int answer_agent(const struct call *call, enum hook_agent agent, struct err *err) {
        cleanup(buf_done) struct buf input = BUF(INPUT_MAX);
        struct hook_answer said = { .status = EXIT_OK };
        const struct hook_request request = { .agent = agent,
                                              .unknown = unknown_of(call),
                                              .nobody = denies_escalated(call),
                                              .options = &call->options,
                                              .input = read_input(&input) };
        int status;

        if (hook_answer(&request, &said, err) < 0) {
                buf_done(&said.output);
                return EXIT_USAGE; /* every agent takes a 2 for no */
        }

        if (said.bad) {
                fprintf(stderr, "bailey: hook: %s; the answer is the safe one\n", err_text(err));
                *err = (struct err){ 0 }; /* told */
        }

        status = inspect_write(&said.output, err);
        buf_done(&said.output);

        return status == EXIT_OK ? said.status : EXIT_USAGE;
}

static int run_claude(const struct call *call, struct err *err) {
        return answer_agent(call, HOOK_CLAUDE, err);
}

static int run_codex(const struct call *call, struct err *err) {
        return answer_agent(call, HOOK_CODEX, err);
}

static int run_gemini(const struct call *call, struct err *err) {
        return answer_agent(call, HOOK_GEMINI, err);
}

static int print_settings(const struct call *call, bool install, struct err *err) {
        cleanup(buf_done) struct buf settings = BUF(65536);
        char self[4096];
        enum hook_agent agent;
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

        if (!hook_agent_from(call->argv[0], &agent)) {
                err_set(err, EINVAL, "there is no hook for '%s': claude, codex or gemini", call->argv[0]);
                return EXIT_USAGE;
        }

        if (n < 0 || hook_settings(agent, (self[n] = '\0', self), &settings) < 0) {
                err_set(err, ENOMEM, "the settings cannot be written");
                return EXIT_SYSTEM;
        }

        fprintf(stderr,
                install ? "Put this into %s (nothing was written):\n" : "Take this out of %s (nothing was written):\n",
                hook_settings_file(agent));

        if (install && agent == HOOK_CODEX)
                fprintf(stderr, "Codex has to be told to use hooks, in ~/.codex/config.toml: [features] hooks = true "
                                "(codex_hooks in older versions), and to trust this one: /hooks\n");
        if (install && agent == HOOK_GEMINI)
                fprintf(stderr, "Without a terminal (gemini -p) Gemini waits for ever where it is told to ask: add "
                                "--escalated deny to the command\n");

        return inspect_write(&settings, err);
}

static int run_install(const struct call *call, struct err *err) {
        return print_settings(call, true, err);
}

static int run_uninstall(const struct call *call, struct err *err) {
        return print_settings(call, false, err);
}

#define ABOUT_ANSWER                                                                                                   \
        "Reads the agent's question from standard input and prints the answer. Shell commands are judged as bailey "   \
        "check does it, files as the command that would read or write them; tools that are neither get no answer. A "  \
        "question that cannot be read gets the safe answer, and standard error says why.\n\nExit code 0: the answer "  \
        "was printed, or there is none; 2: no, whatever was asked."

static const struct verb verb_claude = {
        .name = "claude",
        .synopsis = "[OPTIONS] < QUESTION",
        .help = "answer a PreToolUse hook of Claude Code",
        .about = ABOUT_ANSWER "\n\npermissionDecision is allow, ask (escalated) or deny (forbidden).",
        .tables = { &table, &policy_table_general },
        .max_words = 0,
        .run = run_claude,
};
static const struct verb verb_codex = {
        .name = "codex",
        .synopsis = "[OPTIONS] < QUESTION",
        .help = "answer a PreToolUse or PermissionRequest hook of Codex",
        .about =
            ABOUT_ANSWER "\n\nCodex cannot be told to ask, so what a person has to decide is denied (PreToolUse) or "
                         "left to its own question (PermissionRequest). It is never told to go ahead by PreToolUse.",
        .tables = { &table, &policy_table_general },
        .max_words = 0,
        .run = run_codex,
};
static const struct verb verb_gemini = {
        .name = "gemini",
        .synopsis = "[OPTIONS] < QUESTION",
        .help = "answer a BeforeTool hook of Gemini CLI",
        .about = ABOUT_ANSWER "\n\ndecision is allow, ask (escalated) or deny (forbidden).",
        .tables = { &table, &policy_table_general },
        .max_words = 0,
        .run = run_gemini,
};
static const struct verb verb_install = {
        .name = "install",
        .synopsis = "claude|codex|gemini",
        .help = "print the settings that make an agent call its hook",
        .about = "Prints what belongs into the agent's settings, and says into which file. Nothing is written.",
        .min_words = 1,
        .max_words = 1,
        .run = run_install,
};
static const struct verb verb_uninstall = {
        .name = "uninstall",
        .synopsis = "claude|codex|gemini",
        .help = "print the settings that were added for a hook",
        .about = "Prints what to take out of the agent's settings, and says of which file. Nothing is written.",
        .min_words = 1,
        .max_words = 1,
        .run = run_uninstall,
};

static const struct verb *const subs[] = {
        &verb_claude, &verb_codex, &verb_gemini, &verb_install, &verb_uninstall, NULL
};

const struct verb verb_hook = {
        .name = "hook",
        .group = GROUP_POLICY,
        .synopsis = "claude|codex|gemini|install AGENT|uninstall AGENT",
        .help = "answer the hooks of coding agents",
        .about =
            "Coding agents ask a program before they run a command or touch a file, when their settings say so. This "
            "is that program: the classifier answers, with its rule and its reason. A hook is advice to an agent and "
            "no boundary; bailey run is the boundary.",
        .subs = subs,
};
