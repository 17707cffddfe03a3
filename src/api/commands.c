/* SPDX-License-Identifier: Apache-2.0 */
#include "api/commands.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>

struct borrowed { /* rules in the classifier's form; texts belong to the policy */
        struct sh_user_rule *rules;
        const char **texts;
};

static void borrowed_done(struct borrowed *borrowed) {
        free(borrowed->rules);
        free(borrowed->texts);
}

static const char *const *take_texts(const origin_texts *from, const char ***next) {
        const char **start = *next;
        for (size_t i = 0; i < from->n; i++)
                *(*next)++ = from->p[i].text;
        return start;
}

static int commands_borrow(const struct policy *policy, struct borrowed *borrowed, struct err *err) {
        size_t n = 0;
        for (size_t i = 0; i < policy->commands.n; i++)
                n += policy->commands.p[i].argv.n + policy->commands.p[i].match.n + policy->commands.p[i].no_match.n;

        borrowed->rules = calloc(policy->commands.n + 1, sizeof *borrowed->rules);
        borrowed->texts = calloc(n + 1, sizeof *borrowed->texts);
        if (!borrowed->rules || !borrowed->texts)
                return err_memory(err);

        const char **next = borrowed->texts;

        for (size_t i = 0; i < policy->commands.n; i++) {
                const struct command_rule *rule = &policy->commands.p[i];
                struct sh_user_rule *sh_user_rule = &borrowed->rules[i];

                *sh_user_rule = (struct sh_user_rule){ .name = rule->name,
                                                       .origin = rule->origin,
                                                       .reason = rule->reason,
                                                       .n_argv = rule->argv.n,
                                                       .n_match = rule->match.n,
                                                       .n_no_match = rule->no_match.n };
                sh_user_rule->argv = take_texts(&rule->argv, &next);
                sh_user_rule->match = take_texts(&rule->match, &next);
                sh_user_rule->no_match = take_texts(&rule->no_match, &next);
                if (!sh_decision_from(rule->decision, &sh_user_rule->decision))
                        return err_set(err, EINVAL, "%s: command rule '%s' has no decision", rule->origin, rule->name);
        }

        return 0;
}

int commands_load(const struct policy *policy, struct sh_rules **ret, struct err *err) {
        cleanup(borrowed_done) struct borrowed borrowed = { 0 };
        int r = commands_borrow(policy, &borrowed, err);
        if (r < 0)
                return r;

        return sh_rules_load(borrowed.rules, policy->commands.n, ret, err);
}

/* --- where a command runs ----------------------------------------------------------------------------------------- */

void commands_place_done(struct commands_place *place) {
        free(place->directory);
        free(place->home);
        free(place->workspace);
        *place = (struct commands_place){ 0 };
}

void commands_find_place(const char *directory, const char *workspace, struct commands_place *ret) {
        const char *home = path_home();
        struct commands_place place = { .directory = realpath(directory ? directory : ".", NULL) };

        if (home)
                place.home = realpath(home, NULL);
        if (workspace)
                place.workspace = realpath(workspace, NULL);

        place.setting = (struct sh_setting){ .directory = str_of(place.directory),
                                             .home = str_of(place.home),
                                             .workspace = str_of(place.workspace) };
        *ret = place;
}
