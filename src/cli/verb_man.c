/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages: hand-written sources in man/ with the tables filled in from the registry when the project is built. A
 * source is plain man(7) text; a line `.\" @name@` or `.\" @name argument@` is replaced by what this file writes for
 * it.
 */
#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "cli/verb.h"

#include <stdio.h>

enum { SOURCE_MAX = 1 << 20, PAGE_MAX = 1 << 20 };
static const char page_date[] = "2026-11-15"; /* of the last change to the texts in man/ */

/* Text of ours as roff: hyphens are meant, backslashes are text, a leading dot is no request. */
static int put_text(struct buf *out, struct str text) {
        int r = 0;

        if (text.n > 0 && (text.p[0] == '.' || text.p[0] == '\''))
                r = buf_add(out, "\\&");

        for (size_t i = 0; i < text.n && r == 0; i++) {
                if (text.p[i] == '-')
                        r = buf_add(out, "\\-");
                else if (text.p[i] == '\\')
                        r = buf_add(out, "\\e");
                else
                        r = buf_add_char(out, text.p[i]);
        }
        return r;
}

static int put_upper(struct buf *out, const char *text) {
        int r = 0;

        for (; *text && r == 0; text++) {
                if (*text == '-')
                        r = buf_add(out, "\\-");
                else if (*text >= 'a' && *text <= 'z')
                        r = buf_add_char(out, (char)(*text - 'a' + 'A'));
                else
                        r = buf_add_char(out, *text);
        }

        return r;
}

static int put_c_text(struct buf *out, const char *text) {
        return put_text(out, str_of(text));
}

/* What the verb says about itself, in paragraphs as in help: an empty line separates them, lines that begin with a
 * space are kept. */
static int put_about(struct buf *out, const struct verb *verb) {
        cleanup(buf_done) struct buf about = BUF(PAGE_MAX);
        int r = verb_about(verb, &about);
        struct str rest = buf_str(&about), line;
        bool kept = false;

        while (r == 0 && str_split(&rest, '\n', &line)) {
                bool keep = line.n > 0 && line.p[0] == ' ';
                if (keep != kept)
                        r = buf_add(out, keep ? ".PP\n.nf\n" : ".fi\n");

                kept = keep;

                if (line.n == 0)
                        r = r < 0 ? r : buf_add(out, ".PP\n");
                else {
                        if (r >= 0)
                                r = put_text(out, line);
                        if (r >= 0)
                                r = buf_add_char(out, '\n');
                }
        }

        if (r < 0)
                return r;

        return buf_add(out, kept ? ".fi\n" : "");
}

static int put_synopsis(struct buf *out, const struct verb *parent, const struct verb *verb) {
        int r = buf_printf(out, ".B bailey %s\n", verb_spelled(parent, verb).text);
        if (r < 0)
                return r;

        r = put_c_text(out, text_or(verb->synopsis, ""));
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static int put_own_options(struct buf *out, const struct verb *verb) {
        const struct option_table *tables[VERB_TABLES_MAX + 1];
        size_t n = verb_tables(verb, tables) - 1; /* the global ones are in bailey(1) */
        if (n > 0)
                return option_man(out, tables, n);

        return 0;
}

static int put_subs(struct buf *out, const struct verb *verb) {
        int r = 0;
        for (const struct verb *const *s = verb->subs; s && *s && r == 0; s++) {
                if ((*s)->flags & VERB_HIDDEN)
                        continue;

                r = buf_add(out, ".SH ");
                if (r >= 0)
                        r = put_upper(out, verb->name);
                if (r >= 0)
                        r = buf_add_char(out, ' ');
                if (r >= 0)
                        r = put_upper(out, (*s)->name);
                if (r >= 0)
                        r = buf_add_char(out, '\n');
                if (r >= 0)
                        r = put_synopsis(out, verb, *s);
                if (r >= 0)
                        r = buf_add(out, ".PP\n");
                if (r >= 0)
                        r = put_about(out, *s);
                if (r >= 0)
                        r = put_own_options(out, *s);
        }

        return r;
}

/* The directives. Each gets the page's verb (NULL for bailey(1) and others) and the argument. */
typedef int directive_fn(struct buf *out, const char *page, const struct verb *verb, struct str argument);

static int do_title(struct buf *out, const char *page, const struct verb *verb, struct str section) {
        (void)verb;
        if (section.n == 0)
                section = STR("1");

        int r = buf_add(out, ".TH ");
        if (r < 0)
                return r;

        r = put_upper(out, page);
        if (r < 0)
                return r;

        r = buf_printf(out, " %.*s %s \"Bailey ", STR_FMT(section), page_date);
        if (r < 0)
                return r;

        r = put_c_text(out, bailey_version());
        if (r < 0)
                return r;

        return buf_add(out, "\" \"Bailey Manual\"\n");
}

static int do_name(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)argument;
        int r = buf_add(out, ".SH NAME\n");
        if (r < 0)
                return r;

        r = put_c_text(out, page);
        if (r < 0)
                return r;

        r = buf_add(out, " \\- ");
        if (r < 0)
                return r;

        r = put_c_text(out, verb->help);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static int do_synopsis(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)argument;
        int r = buf_add(out, ".SH SYNOPSIS\n");
        if (r == 0 && (verb->run || !verb->subs))
                r = put_synopsis(out, NULL, verb);

        for (const struct verb *const *s = verb->subs; s && *s && r == 0; s++) {
                if ((*s)->flags & VERB_HIDDEN)
                        continue;
                if (s == verb->subs && !verb->run)
                        r = 0;
                else
                        r = buf_add(out, ".br\n");
                if (r >= 0)
                        r = put_synopsis(out, verb, *s);
        }

        return r;
}

static int do_description(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)argument;
        int r = buf_add(out, ".SH DESCRIPTION\n");
        if (r < 0)
                return r;

        return put_about(out, verb);
}

static int do_options(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)argument;
        int r = put_subs(out, verb);
        if (r < 0 || !verb->tables[0])
                return r;

        r = buf_add(out, ".SH OPTIONS\nThe global options in\n.BR bailey (1)\nare accepted too.\n");
        if (r < 0)
                return r;

        return put_own_options(out, verb);
}

static int do_global_options(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)verb, (void)argument;
        const struct option_table *tables[] = { &global_options };
        return option_man(out, tables, 1);
}

static int do_exit_codes(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)verb, (void)argument;
        int r = 0;
        for (size_t i = 0; i < n_exit_rows && r == 0; i++) {
                r = buf_printf(out, ".TP\n.B %s\n", exit_rows[i].codes);
                if (r >= 0)
                        r = put_c_text(out, exit_rows[i].meaning);
                if (r >= 0)
                        r = buf_add_char(out, '\n');
        }

        return r;
}

static int do_verbs(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)verb, (void)argument;
        int r = 0;
        for (unsigned g = 0; g < VERB_GROUPS && r == 0; g++) {
                bool any = false;

                for (const struct verb *const *v = verbs; *v && r == 0; v++) {
                        if ((*v)->group != g || ((*v)->flags & VERB_HIDDEN))
                                continue;

                        if (any)
                                r = 0;
                        else
                                r = buf_printf(out, ".SS %s\n", verb_group_titles[g]);
                        any = true;
                        if (r >= 0)
                                r = buf_printf(out, ".TP\n.BR bailey\\-%s (1)\n", (*v)->name);
                        if (r >= 0)
                                r = put_c_text(out, (*v)->help);
                        if (r >= 0)
                                r = buf_add_char(out, '\n');
                }
        }

        return r;
}

/* Rows that have a file key, of the verb named "policy show": the reference of the policy file. */
static int do_keys(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)verb;
        struct str rest = argument, word;
        const struct verb *const *known = verbs;
        const struct verb *of = NULL;

        while (str_split(&rest, ' ', &word)) {
                cleanup(free_ptr) char *name = str_dup(word);

                if (!name || !known)
                        return -ENOENT;

                of = verb_find(known, name);
                if (!of)
                        return -ENOENT;

                known = of->subs;
        }

        const struct option_table *tables[VERB_TABLES_MAX + 1];
        size_t n = verb_tables(of, tables) - 1;
        int r = 0;

        for (size_t t = 0; t < n; t++)
                for (size_t i = 0, any = 0; i < tables[t]->n && r == 0; i++) {
                        struct option row = tables[t]->rows[i];
                        if (!row.key)
                                continue;

                        /* One row under its heading, tagged by the key: option_man() tags by the key where there is no
                         * flag. */
                        row.flag = NULL;
                        const struct option_table one = { tables[t]->title, &row, 1 }, *list[] = { &one };
                        cleanup(buf_done) struct buf section = BUF(PAGE_MAX);
                        r = option_man(&section, list, 1);

                        struct str text = buf_str(&section), heading;
                        if (any++ && str_split(&text, '\n', &heading)) /* the heading once */
                                r = r < 0 ? r : buf_append(out, text);
                        else
                                r = r < 0 ? r : buf_append(out, buf_str(&section));
                }

        return r;
}

static int do_see_also(struct buf *out, const char *page, const struct verb *verb, struct str argument) {
        (void)page, (void)argument;
        int r = buf_add(out, ".SH SEE ALSO\n.BR bailey (1)");
        for (const struct verb *const *v = verbs; verb && *v && r == 0; v++)
                if ((*v)->group == verb->group && *v != verb && !((*v)->flags & VERB_HIDDEN))
                        r = buf_printf(out, ",\n.BR bailey\\-%s (1)", (*v)->name);

        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static const struct {
        const char *name;
        directive_fn *put;
        bool of_verb; /* only on a verb's page */
} directives[] = {
        { "title", do_title, false },
        { "name", do_name, true },
        { "synopsis", do_synopsis, true },
        { "description", do_description, true },
        { "options", do_options, true },
        { "global-options", do_global_options, false },
        { "exit-codes", do_exit_codes, false },
        { "verbs", do_verbs, false },
        { "keys", do_keys, false },
        { "see-also", do_see_also, false },
};

/* 1 when the line was a directive and was replaced, 0 when it is text. */
static int man_replace(struct buf *out, const char *page, const struct verb *verb, struct str line) {
        if (!str_starts(line, STR(".\\\" @")) || !str_ends(line, STR("@")) || line.n < 6)
                return 0;

        struct str rest = str_n(line.p + 5, line.n - 6), name;
        if (!str_split(&rest, ' ', &name))
                return -EINVAL;

        for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++) {
                if (!str_is(name, directives[i].name))
                        continue;
                if (directives[i].of_verb && !verb)
                        return -EINVAL;

                int r = directives[i].put(out, page, verb, rest);
                if (r < 0)
                        return r;

                return 1;
        }

        return -EINVAL;
}

static int man_run(const struct call *call, struct err *err) {
        const char *page = call->argv[0];
        struct str verb_name = str_starts(str_of(page), STR("bailey-")) ? str_skip(str_of(page), 7) : (struct str){ 0 };
        const struct verb *verb = verb_name.n ? verb_find(NULL, verb_name.p) : NULL;
        cleanup(buf_done) struct buf source = BUF(SOURCE_MAX), out = BUF(PAGE_MAX);
        if (path_read_file(call->argv[1], SOURCE_MAX, &source, err) < 0)
                return EXIT_SYSTEM;

        struct str rest = buf_str(&source), line;
        for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
                int r = man_replace(&out, page, verb, line);
                if (r == 0 && (rest.n > 0 || line.n > 0)) {
                        r = buf_append(&out, line);
                        if (r >= 0)
                                r = buf_add_char(&out, '\n');
                }

                if (r < 0) {
                        err_set(err, -r, "%s:%u: cannot fill in %s", call->argv[1], number, show(line).text);
                        return EXIT_CONFIG;
                }
        }

        fwrite(out.p, 1, out.n, stdout);
        return EXIT_OK;
}

const struct verb verb_man_page = {
        .name = "man-page",
        .group = GROUP_HELP,
        .flags = VERB_HIDDEN,
        .synopsis = "PAGE SOURCE",
        .help = "fill in a man page's tables",
        .min_words = 2,
        .max_words = 2,
        .run = man_run,
};
