/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include "base/emit.h"

#include <errno.h>
#include <stdio.h>

struct verb_spelling verb_spelled(const struct verb *parent, const struct verb *verb) {
        struct verb_spelling spelling;

        if (parent)
                snprintf(spelling.text, sizeof spelling.text, "%s %s", parent->name, verb->name);
        else
                snprintf(spelling.text, sizeof spelling.text, "%s", verb->name);

        return spelling;
}

const struct verb *verb_find(const struct verb *const *list, const char *name) {
        for (list = list ? list : verbs; *list; list++)
                if (strcmp((*list)->name, name) == 0)
                        return *list;
        return NULL;
}

struct shown verb_suggest(const struct verb *parent, const char *name) {
        struct suggestion near = suggest_for(str_of(name));
        const struct verb *const *list = parent ? parent->subs : verbs;

        for (; list && *list; list++)
                if (!((*list)->flags & VERB_HIDDEN))
                        suggest_offer(&near, (*list)->name);

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

int verb_print_json(const struct emit *json, const struct buf *out, struct err *err) {
        if (emit_status(json) < 0) {
                err_set(err, EMSGSIZE, "there is too much to show");
                return EXIT_SYSTEM;
        }

        fwrite(out->p, 1, out->n, stdout);
        putchar('\n');
        return EXIT_OK;
}
