/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/check.h"

#include "base/cleanup.h"
#include "policy/load.h"
#include "shell/classify.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

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

/* --- the policy's rules --------------------------------------------------------------------------------------------
 */

struct borrowed { /* rules in the classifier's form; texts belong to the policy */
        struct sh_user_rule *rules;
        const char **texts;
};

static void borrowed_done(struct borrowed *b) {
        free(b->rules);
        free(b->texts);
}

static const char *const *take_texts(const origin_texts *from, const char ***next) {
        const char **start = *next;
        for (size_t i = 0; i < from->n; i++)
                *(*next)++ = from->p[i].text;
        return start;
}

static int borrow(const struct policy *p, struct borrowed *b, struct err *e) {
        size_t n = 0;
        for (size_t i = 0; i < p->commands.n; i++)
                n += p->commands.p[i].argv.n + p->commands.p[i].match.n + p->commands.p[i].no_match.n;
        b->rules = calloc(p->commands.n + 1, sizeof *b->rules);
        b->texts = calloc(n + 1, sizeof *b->texts);
        if (!b->rules || !b->texts)
                return err_set(e, ENOMEM, "out of memory");
        const char **next = b->texts;
        for (size_t i = 0; i < p->commands.n; i++) {
                const struct command_rule *c = &p->commands.p[i];
                struct sh_user_rule *r = &b->rules[i];
                *r = (struct sh_user_rule){ .name = c->name,
                                            .reason = c->reason,
                                            .n_argv = c->argv.n,
                                            .n_match = c->match.n,
                                            .n_no_match = c->no_match.n };
                r->argv = take_texts(&c->argv, &next);
                r->match = take_texts(&c->match, &next);
                r->no_match = take_texts(&c->no_match, &next);
                if (!sh_decision_from(c->decision, &r->decision))
                        return err_set(e, EINVAL, "%s: command rule '%s' has no decision", c->origin, c->name);
        }
        return 0;
}

static int load_rules(const struct policy *p, struct sh_rules **ret, struct err *e) {
        cleanup(borrowed_done) struct borrowed b = { 0 };
        int r = borrow(p, &b, e);
        return r < 0 ? r : sh_rules_load(b.rules, p->commands.n, ret, e);
}

/* --- the question --------------------------------------------------------------------------------------------------
 */

static int classify(const struct sh_rules *rules, const struct check_question *q, struct sh_verdict *v) {
        if (!q->args)
                return sh_classify(rules, str_of(q->words[0]), v);
        cleanup(free_ptr) struct str *words = calloc(q->n + 1, sizeof *words);
        if (!words)
                return -ENOMEM;
        for (size_t i = 0; i < q->n; i++)
                words[i] = str_of(q->words[i]);
        return sh_classify_argv(rules, words, q->n, v);
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
        return err_set(e, ENOMEM, "out of memory");
}

int check_command(const struct option_values *options, const struct check_question *q, struct check_verdict *ret,
                  enum inspect_fault *ret_fault, struct err *e) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(sh_rules_freep) struct sh_rules *rules = NULL;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        enum policy_layer layer = LAYER_FILES;
        struct policy_request request = { .command_line = options, .ret_layer = &layer, .network_only = true };
        int r = policy_load(&request, &policy, e);
        *ret_fault = r == -EPERM                                          ? INSPECT_UNTRUSTED
                     : layer == LAYER_COMMAND_LINE || layer == LAYER_CALL ? INSPECT_COMMAND_LINE
                                                                          : INSPECT_CONFIG;
        r = r < 0 ? r : load_rules(policy, &rules, e);
        if (r < 0)
                return r;
        *ret_fault = INSPECT_SYSTEM;
        r = classify(rules, q, &v);
        return r < 0 ? err_set(e, ENOMEM, "out of memory") : take_verdict(&v, ret, e);
}
