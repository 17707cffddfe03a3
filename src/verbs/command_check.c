/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/command_check.h"

#include "api/commands.h"
#include "base/cleanup.h"
#include "policy/load.h"
#include "shell/classify.h"
#include "store/state.h"
#include "verbs/mcp_ask.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)CHECK_ALLOW == SH_ALLOW && (int)CHECK_SANDBOXED == SH_SANDBOXED &&
                  (int)CHECK_ESCALATED == SH_ESCALATED && (int)CHECK_FORBIDDEN == SH_FORBIDDEN,
              "the same decisions");

void check_verdict_done(struct check_verdict *verdict) {
        free(verdict->rule);
        free(verdict->reason);
        free(verdict->segment);
        free(verdict->detail);
        *verdict = (struct check_verdict){ 0 };
}

static int check_classify(const struct sh_rules *rules, const struct sh_setting *setting,
                          const struct check_question *question, struct sh_verdict *verdict) {
        if (!question->args)
                return sh_classify(rules, setting, str_of(question->words[0]), verdict);

        cleanup(free_ptr) struct str *words = calloc(question->n + 1, sizeof *words);
        if (!words)
                return -ENOMEM;

        for (size_t i = 0; i < question->n; i++)
                words[i] = str_of(question->words[i]);

        return sh_classify_argv(rules, setting, words, question->n, verdict);
}

static int take_verdict(struct sh_verdict *from, struct check_verdict *ret, struct err *err) {
        struct check_verdict verdict = { .name = sh_decision_name(from->decision) };

        verdict.decision = (enum check_decision)from->decision;
        verdict.rule = str_dup(str_of(from->rule));
        verdict.reason = str_dup(str_of(from->reason));
        verdict.segment = take_ptr(&from->segment);
        verdict.detail = take_ptr(&from->detail);
        *ret = verdict;
        if (ret->rule && ret->reason)
                return 0;

        check_verdict_done(ret);
        return err_memory(err);
}

/* What a person would read: the text for the shell, also where an agent gives the shell's own words. */
static const char *command_text(const struct check_question *question) {
        static const char *const shells[] = { "sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", "zsh" };

        if (!question->args)
                return question->words[0];
        if (question->n != 3 || (strcmp(question->words[1], "-c") != 0 && strcmp(question->words[1], "-lc") != 0))
                return NULL;

        for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
                if (strcmp(question->words[0], shells[i]) == 0)
                        return question->words[2];

        return NULL;
}

/* Inside, the sandbox's supervisor knows it; outside, what is remembered. */
static bool agreed_before(const struct policy *policy, const char *rule, const char *command) {
        cleanup(state_closep) struct state *s = NULL;
        enum state_answer answer = STATE_NO_ANSWER;

        if (getenv("SANDBOX_RUNTIME")) {
                cleanup(free_ptr) char *wants = str_format("run %s", command);
                return wants && mcp_agreed(wants);
        }

        return state_open(&s, NULL) == 0 && state_command(s, policy->workspace, rule, command, &answer, NULL) == 0 &&
               answer == STATE_ALLOWED;
}

/* Whose mistake it is that a policy cannot be used. */
static enum err_kind policy_blame(int code, enum policy_layer layer) {
        if (code == -EPERM)
                return ERR_REFUSED;
        if (layer == LAYER_COMMAND_LINE || layer == LAYER_CALL)
                return ERR_USAGE;

        return ERR_CONFIG;
}

int check_command(const struct option_values *options, const struct check_question *question, struct check_verdict *ret,
                  struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(sh_rules_freep) struct sh_rules *rules = NULL;
        cleanup(sh_verdict_done) struct sh_verdict verdict = { 0 };
        cleanup(commands_place_done) struct commands_place place = { 0 };
        enum policy_layer layer = LAYER_FILES;
        struct policy_request request = { .command_line = options, .ret_layer = &layer, .network_only = true };
        int r = policy_load(&request, &policy, err);

        if (r < 0 &&
            getenv("SANDBOX_RUNTIME")) { /* inside, a person's own policy cannot be seen: the built-in rules hold */
                request.only_text = "";
                r = policy_load(&request, &policy, err);
        }

        err_blame(err, policy_blame(r, layer));
        if (r >= 0)
                r = commands_load(policy, &rules, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        commands_find_place(question->directory, policy->workspace, &place);
        r = check_classify(rules, &place.setting, question, &verdict);
        if (r < 0)
                return err_memory(err);

        const char *command = question->looks_back && verdict.decision == SH_ESCALATED ? command_text(question) : NULL;
        bool agreed = command && agreed_before(policy, verdict.rule, command);
        r = take_verdict(&verdict, ret, err);
        if (r == 0)
                ret->agreed = agreed;

        return r;
}
