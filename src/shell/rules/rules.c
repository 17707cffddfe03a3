/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules are data: who they are about (program, subcommand, options), an optional question (question.c), a decision, a
 * reason, and examples that are tried whenever rules are loaded. Of the rules that match a call, the strictest decides;
 * when none matches, the call is Sandboxed.
 */
#include "shell/call.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

static const struct sh_rule_table *const tables[] = { SH_RULE_TABLES };

static bool rules_matches(const struct sh_rule *rule, const struct sh_call *call) {
        if (rule->programs && !word_in(call->name, rule->programs))
                return false;
        if (rule->subcommands && !word_in(call_subcommand(call), rule->subcommands))
                return false;
        if (rule->options && !call_has_any(call, rule->options))
                return false;
        return !rule->test || rule->test(call);
}

/* An Allow is for what is fully known: the program itself, its words, and nothing around it that changes them. */
static bool may_allow(const struct judge *judge, const struct sh_call *call) {
        if (call->foreign || judge->plain_off)
                return false;
        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].unknown)
                        return false;
        return true;
}

void rules_judge(struct judge *judge, const struct sh_call *call) {
        bool asks = call->n == 2 && (str_is(call->p[1].text, "--version") || str_is(call->p[1].text, "--help"));
        bool any = false, allow = may_allow(judge, call);

        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        const struct sh_rule *rule = &tables[t]->rules[i];
                        if (asks && rule->decision != SH_ALLOW)
                                continue;
                        if ((rule->decision == SH_ALLOW && (any || !allow)) || !rules_matches(rule, call))
                                continue;

                        judge_hit(judge, rule);
                        any = true;
                }

        if (!any)
                judge_decide(judge, SH_SANDBOXED, NULL);
}

/* --- users' rules ------------------------------------------------------------------------------------------------- */

struct user_rule {
        struct sh_rule rule;
        char *name, *reason;
        char **argv;
        size_t n_argv;
};
struct sh_rules {
        struct user_rule *p;
        size_t n;
};

static void user_rule_done(struct user_rule *rule) {
        for (size_t i = 0; rule->argv && i < rule->n_argv; i++)
                free(rule->argv[i]);
        free(rule->argv);
        free(rule->name);
        free(rule->reason);
}

void sh_rules_free(struct sh_rules *rules) {
        if (!rules)
                return;
        for (size_t i = 0; i < rules->n; i++)
                user_rule_done(&rules->p[i]);
        free(rules->p);
        free(rules);
}

void sh_rules_freep(struct sh_rules **sh_rules) {
        sh_rules_free(*sh_rules);
}

/* * for any text, ? for any byte; linear time but for the one * that is tried again. */
static bool wild_match(struct str pattern, struct str text) {
        size_t p = 0, t = 0, star = SIZE_MAX, from = 0;

        while (t < text.n) {
                if (p < pattern.n && pattern.p[p] == '*') {
                        star = p++;
                        from = t;
                } else if (p < pattern.n && (pattern.p[p] == '?' || pattern.p[p] == text.p[t])) {
                        p++;
                        t++;
                } else if (star != SIZE_MAX) {
                        p = star + 1;
                        t = ++from;
                } else
                        return false;
        }

        while (p < pattern.n && pattern.p[p] == '*')
                p++;

        return p == pattern.n;
}

static bool user_matches(const struct user_rule *rule, const struct sh_call *call) {
        if (call->n < rule->n_argv)
                return false;

        struct str program = str_of(rule->argv[0]);
        bool lenient = rule->rule.decision >= SH_ESCALATED || !call->foreign;
        if (!wild_match(program, call->p[0].text) && !(lenient && wild_match(program, call->name)))
                return false;

        for (size_t i = 1; i < rule->n_argv; i++)
                if (call->p[i].unknown || !wild_match(str_of(rule->argv[i]), call->p[i].text))
                        return false;

        return true;
}

const struct sh_rule *rules_match_user(const struct sh_rules *rules, const struct sh_call *call) {
        const struct sh_rule *worst = NULL;
        for (size_t i = 0; rules && i < rules->n; i++)
                if (user_matches(&rules->p[i], call) && (!worst || rules->p[i].rule.decision > worst->decision))
                        worst = &rules->p[i].rule;
        return worst;
}

static int copy_rule(const struct sh_user_rule *from, struct user_rule *to) {
        to->name = str_dup(str_of(from->name));
        to->reason = str_dup(from->reason && *from->reason ? str_of(from->reason) : STR("a rule of your policy"));
        to->argv = calloc(from->n_argv, sizeof *to->argv);
        if (!to->name || !to->reason || !to->argv)
                return -ENOMEM;

        for (size_t i = 0; i < from->n_argv; i++) {
                to->argv[i] = str_dup(str_of(from->argv[i]));
                if (!to->argv[i])
                        return -ENOMEM;
                to->n_argv++;
        }

        to->rule = (struct sh_rule){ .name = to->name, .decision = from->decision, .reason = to->reason };
        return 0;
}

int rules_copy(const struct sh_user_rule *rules, size_t n, struct sh_rules **ret, struct err *err) {
        cleanup(sh_rules_freep) struct sh_rules *r = calloc(1, sizeof *r);
        if (!r || !(r->p = calloc(n ? n : 1, sizeof *r->p)))
                return err_memory(err);

        for (size_t i = 0; i < n; i++) {
                if (rules[i].n_argv == 0 || !rules[i].argv[0][0])
                        return err_set(err, EINVAL, "command rule '%s' names no program", rules[i].name);
                r->n++;
                if (copy_rule(&rules[i], &r->p[i]) < 0)
                        return err_memory(err);
        }

        *ret = take_ptr(&r);
        return 0;
}

const struct sh_rule *rules_at(const struct sh_rules *rules, size_t i) {
        return &rules->p[i].rule;
}
