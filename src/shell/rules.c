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

static const struct sh_rule_table *const tables[] = { &rules_forbidden, &rules_escalated, &rules_git, &rules_allow };

static bool matches(const struct sh_rule *rule, const struct sh_call *c) {
        if (rule->programs && !word_in(c->name, rule->programs))
                return false;
        if (rule->subcommands && !word_in(call_subcommand(c), rule->subcommands))
                return false;
        if (rule->options && !call_has_any(c, rule->options))
                return false;
        return !rule->test || rule->test(c);
}

/* An Allow is for what is fully known: the program itself, its words, and nothing around it that changes them. */
static bool may_allow(const struct judge *j, const struct sh_call *c) {
        if (c->foreign || j->plain_off)
                return false;
        for (size_t i = 1; i < c->n; i++)
                if (c->p[i].unknown)
                        return false;
        return true;
}

void rules_judge(struct judge *j, const struct sh_call *c) {
        bool asks = c->n == 2 && (str_is(c->p[1].text, "--version") || str_is(c->p[1].text, "--help"));
        bool any = false, allow = may_allow(j, c);
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        const struct sh_rule *rule = &tables[t]->rules[i];
                        if (asks && rule->decision != SH_ALLOW)
                                continue;
                        if ((rule->decision == SH_ALLOW && (any || !allow)) || !matches(rule, c))
                                continue;
                        judge_hit(j, rule);
                        any = true;
                }
        if (!any)
                judge_decide(j, SH_SANDBOXED, NULL);
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

static void user_rule_done(struct user_rule *u) {
        for (size_t i = 0; u->argv && i < u->n_argv; i++)
                free(u->argv[i]);
        free(u->argv);
        free(u->name);
        free(u->reason);
}

void sh_rules_free(struct sh_rules *r) {
        if (!r)
                return;
        for (size_t i = 0; i < r->n; i++)
                user_rule_done(&r->p[i]);
        free(r->p);
        free(r);
}

void sh_rules_freep(struct sh_rules **r) {
        sh_rules_free(*r);
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

static bool user_matches(const struct user_rule *u, const struct sh_call *c) {
        if (c->n < u->n_argv)
                return false;
        struct str program = str_of(u->argv[0]);
        bool lenient = u->rule.decision >= SH_ESCALATED || !c->foreign;
        if (!wild_match(program, c->p[0].text) && !(lenient && wild_match(program, c->name)))
                return false;
        for (size_t i = 1; i < u->n_argv; i++)
                if (c->p[i].unknown || !wild_match(str_of(u->argv[i]), c->p[i].text))
                        return false;
        return true;
}

const struct sh_rule *rules_match_user(const struct sh_rules *rules, const struct sh_call *c) {
        const struct sh_rule *worst = NULL;
        for (size_t i = 0; rules && i < rules->n; i++)
                if (user_matches(&rules->p[i], c) && (!worst || rules->p[i].rule.decision > worst->decision))
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

static int try_examples(const struct sh_rules *rules, const struct sh_rule *rule, const char *const *examples, size_t n,
                        bool expected, struct err *e) {
        for (size_t i = 0; i < n; i++)
                if (judge_example(rules, rule, str_of(examples[i])) != expected)
                        return err_set(e, EINVAL, "command rule '%s' %s its example: %s", rule->name,
                                       expected ? "does not match" : "matches, and should not,", examples[i]);
        return 0;
}

int sh_rules_load(const struct sh_user_rule *rules, size_t n, struct sh_rules **ret, struct err *e) {
        cleanup(sh_rules_freep) struct sh_rules *r = calloc(1, sizeof *r);
        if (!r || !(r->p = calloc(n ? n : 1, sizeof *r->p)))
                return err_set(e, ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                if (rules[i].n_argv == 0 || !rules[i].argv[0][0])
                        return err_set(e, EINVAL, "command rule '%s' names no program", rules[i].name);
                r->n++;
                if (copy_rule(&rules[i], &r->p[i]) < 0)
                        return err_set(e, ENOMEM, "out of memory");
        }
        for (size_t i = 0; i < n; i++) {
                int s = try_examples(r, &r->p[i].rule, rules[i].match, rules[i].n_match, true, e);
                s = s < 0 ? s : try_examples(r, &r->p[i].rule, rules[i].no_match, rules[i].n_no_match, false, e);
                if (s < 0)
                        return rules[i].origin ? err_wrap(e, s, "%s", rules[i].origin) : s;
        }
        *ret = take_ptr(&r);
        return 0;
}

/* --- self-test ---------------------------------------------------------------------------------------------------- */

static size_t count(const char *const *list) {
        size_t n = 0;
        while (list && list[n])
                n++;
        return n;
}

static int test_rule(const struct sh_rule *rule, struct err *e) {
        if (count(rule->match) == 0 || count(rule->no_match) == 0)
                return err_set(e, EINVAL, "command rule '%s' has no examples", rule->name);
        int r = try_examples(NULL, rule, rule->match, count(rule->match), true, e);
        return r < 0 ? r : try_examples(NULL, rule, rule->no_match, count(rule->no_match), false, e);
}

int sh_rules_self_test(struct err *e) {
        int r = 0;
        for (size_t i = 0; i < SH_FINDINGS && r == 0; i++)
                r = test_rule(&finding_rules[i], e);
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
                for (size_t i = 0; i < tables[t]->n && r == 0; i++)
                        r = test_rule(&tables[t]->rules[i], e);
        return r;
}
