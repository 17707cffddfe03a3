/* SPDX-License-Identifier: Apache-2.0 */
#include "api/commands.h"

#include "base/cleanup.h"
#include "base/path.h"

#include <errno.h>
#include <stdlib.h>

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
                                            .origin = c->origin,
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

int commands_load(const struct policy *p, struct sh_rules **ret, struct err *e) {
        cleanup(borrowed_done) struct borrowed b = { 0 };
        int r = borrow(p, &b, e);
        return r < 0 ? r : sh_rules_load(b.rules, p->commands.n, ret, e);
}

/* --- where a command runs ----------------------------------------------------------------------------------------- */

void commands_place_done(struct commands_place *p) {
        free(p->directory);
        free(p->home);
        free(p->workspace);
        *p = (struct commands_place){ 0 };
}

void commands_find_place(const char *directory, const char *workspace, struct commands_place *ret) {
        const char *home = path_home();
        struct commands_place p = { .directory = realpath(directory ? directory : ".", NULL) };

        if (home)
                p.home = realpath(home, NULL);
        if (workspace)
                p.workspace = realpath(workspace, NULL);
        p.setting = (struct sh_setting){ .directory = str_of(p.directory),
                                         .home = str_of(p.home),
                                         .workspace = str_of(p.workspace) };
        *ret = p;
}
