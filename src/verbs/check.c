/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/check.h"

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

void check_verdict_done(struct check_verdict *v) {
        free(v->rule);
        free(v->reason);
        free(v->segment);
        free(v->detail);
        *v = (struct check_verdict){ 0 };
}

static int classify(const struct sh_rules *rules, const struct sh_setting *setting, const struct check_question *q,
                    struct sh_verdict *v) {
        if (!q->args)
                return sh_classify(rules, setting, str_of(q->words[0]), v);
        cleanup(free_ptr) struct str *words = calloc(q->n + 1, sizeof *words);
        if (!words)
                return -ENOMEM;
        for (size_t i = 0; i < q->n; i++)
                words[i] = str_of(q->words[i]);
        return sh_classify_argv(rules, setting, words, q->n, v);
}

static int take_verdict(struct sh_verdict *from, struct check_verdict *ret, struct err *e) {
        struct check_verdict v = { .name = sh_decision_name(from->decision) };
        v.decision = (enum check_decision)from->decision;
        v.rule = str_dup(str_of(from->rule));
        v.reason = str_dup(str_of(from->reason));
        v.segment = take_ptr(&from->segment);
        v.detail = take_ptr(&from->detail);
        *ret = v;
        if (ret->rule && ret->reason)
                return 0;
        check_verdict_done(ret);
        return err_memory(e);
}

/* What a person would read: the text for the shell, also where an agent gives the shell's own words. */
static const char *command_text(const struct check_question *q) {
        static const char *const shells[] = { "sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash", "zsh" };

        if (!q->args)
                return q->words[0];
        if (q->n != 3 || (strcmp(q->words[1], "-c") != 0 && strcmp(q->words[1], "-lc") != 0))
                return NULL;
        for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
                if (strcmp(q->words[0], shells[i]) == 0)
                        return q->words[2];
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

int check_command(const struct option_values *options, const struct check_question *q, struct check_verdict *ret,
                  struct err *e) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(sh_rules_freep) struct sh_rules *rules = NULL;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        cleanup(commands_place_done) struct commands_place place = { 0 };
        enum policy_layer layer = LAYER_FILES;
        struct policy_request request = { .command_line = options, .ret_layer = &layer, .network_only = true };
        int r = policy_load(&request, &policy, e);

        if (r < 0 &&
            getenv("SANDBOX_RUNTIME")) { /* inside, a person's own policy cannot be seen: the built-in rules hold */
                request.only_text = "";
                r = policy_load(&request, &policy, e);
        }
        err_blame(e, r == -EPERM                                          ? ERR_REFUSED
                     : layer == LAYER_COMMAND_LINE || layer == LAYER_CALL ? ERR_USAGE
                                                                          : ERR_CONFIG);
        r = r < 0 ? r : commands_load(policy, &rules, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        commands_find_place(q->directory, policy->workspace, &place);
        r = classify(rules, &place.setting, q, &v);
        if (r < 0)
                return err_memory(e);
        const char *command = q->looks_back && v.decision == SH_ESCALATED ? command_text(q) : NULL;
        bool agreed = command && agreed_before(policy, v.rule, command);
        r = take_verdict(&v, ret, e);
        if (r == 0)
                ret->agreed = agreed;
        return r;
}
