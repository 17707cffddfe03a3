/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

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
        if (r < 0)
                return r;

        return buf_printf(ret, "%s.", verb->help + 1);
}
