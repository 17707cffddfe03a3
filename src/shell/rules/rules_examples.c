/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rule comes with examples, those of the tables and those of users. They are tried whenever rules are loaded, on
 * the classifier itself: a rule that does not do what its author meant is an error, and never a surprise.
 */
#include "shell/judge_internal.h"

#include "base/cleanup.h"

#include <errno.h>

static int try_examples(const struct sh_rules *rules, const struct sh_rule *rule, const char *const *examples, size_t n,
                        bool expected, struct err *err) {
        for (size_t i = 0; i < n; i++)
                if (judge_example(rules, rule, str_of(examples[i])) != expected)
                        return err_set(err, EINVAL, "command rule '%s' %s its example: %s", rule->name,
                                       expected ? "does not match" : "matches, and should not,", examples[i]);
        return 0;
}

int sh_rules_load(const struct sh_user_rule *rules, size_t n, struct sh_rules **ret, struct err *err) {
        cleanup(sh_rules_freep) struct sh_rules *copy = NULL;
        int r = rules_copy(rules, n, &copy, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < n && r == 0; i++) {
                const struct sh_rule *rule = rules_at(copy, i);

                r = try_examples(copy, rule, rules[i].match, rules[i].n_match, true, err);
                if (r == 0)
                        r = try_examples(copy, rule, rules[i].no_match, rules[i].n_no_match, false, err);
                if (r < 0 && rules[i].origin)
                        r = err_wrap(err, r, "%s", rules[i].origin);
        }

        if (r < 0)
                return r;

        *ret = take_ptr(&copy);
        return 0;
}

/* --- self-test ---------------------------------------------------------------------------------------------------- */

static size_t rules_count(const char *const *list) {
        size_t n = 0;
        while (list && list[n])
                n++;
        return n;
}

static int test_rule(const struct sh_rule *rule, struct err *err) {
        if (rules_count(rule->match) == 0 || rules_count(rule->no_match) == 0)
                return err_set(err, EINVAL, "command rule '%s' has no examples", rule->name);
        int r = try_examples(NULL, rule, rule->match, rules_count(rule->match), true, err);
        if (r < 0)
                return r;

        return try_examples(NULL, rule, rule->no_match, rules_count(rule->no_match), false, err);
}

int sh_rules_self_test(struct err *err) {
        static const struct sh_rule_table *const tables[] = { SH_RULE_TABLES };
        int r = 0;
        for (size_t i = 0; i < SH_FINDINGS && r == 0; i++)
                r = test_rule(&finding_rules[i], err);
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
                for (size_t i = 0; i < tables[t]->n && r == 0; i++)
                        r = test_rule(&tables[t]->rules[i], err);
        return r;
}
