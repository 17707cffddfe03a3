/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs. To add one: write src/cli/NAME.c with its `const struct verb verb_NAME`, then two lines here. */
#include "cli/verb.h"

#include <assert.h>

extern const struct verb verb_completion;
extern const struct verb verb_doctor;
extern const struct verb verb_gateway;
extern const struct verb verb_help;
extern const struct verb verb_man_page;
extern const struct verb verb_policy;
extern const struct verb verb_trust;
extern const struct verb verb_plan;
extern const struct verb verb_run;
extern const struct verb verb_version;
extern const struct verb verb_why;

const struct verb *const verbs[] = {
        /* GROUP_RUN */
        &verb_run,
        &verb_plan,
        /* GROUP_POLICY */
        &verb_policy,
        &verb_why,
        &verb_trust,
        /* GROUP_EGRESS */
        &verb_gateway,
        /* GROUP_HELP */
        &verb_doctor,
        &verb_version,
        &verb_help,
        /* hidden (man/meson.build makes a page for each verb above this line) */
        &verb_completion,
        &verb_man_page,
        NULL,
};
const size_t n_verbs = sizeof verbs / sizeof verbs[0] - 1;

const char *const verb_group_titles[] = {
        [GROUP_RUN] = "Run programs",
        [GROUP_POLICY] = "Decide and explain",
        [GROUP_WATCH] = "Watch and answer",
        [GROUP_EGRESS] = "Gateway alone",
        [GROUP_HELP] = "This machine, this program",
};
static_assert(sizeof verb_group_titles / sizeof verb_group_titles[0] == VERB_GROUPS, "one title per group");

const struct verb *verb_find(const struct verb *const *list, const char *name) {
        for (list = list ? list : verbs; *list; list++)
                if (strcmp((*list)->name, name) == 0)
                        return *list;
        return NULL;
}

struct shown verb_suggest(const struct verb *parent, const char *name) {
        struct suggestion near = suggest_for(str_of(name));
        const struct verb *const none[] = { NULL };
        for (const struct verb *const *v = !parent ? verbs : parent->subs ? parent->subs : none; *v; v++)
                if (!((*v)->flags & VERB_HIDDEN))
                        suggest_offer(&near, (*v)->name);
        return suggest_text(&near, "");
}

size_t verb_tables(const struct verb *verb, const struct option_table *ret[static VERB_TABLES_MAX + 1]) {
        size_t n = 0;
        while (n < VERB_TABLES_MAX && verb && verb->tables[n]) {
                ret[n] = verb->tables[n];
                n++;
        }
        ret[n++] = &global_options;
        return n;
}

int verb_about(const struct verb *verb, struct buf *ret) {
        if (verb->about)
                return buf_add(ret, verb->about);
        char first = verb->help[0];
        int r = buf_add_char(ret, first >= 'a' && first <= 'z' ? (char)(first - 'a' + 'A') : first);
        return r < 0 ? r : buf_printf(ret, "%s.", verb->help + 1);
}
