/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/option.h"

#include "base/cleanup.h"

#include <errno.h>

/*
 * What people read about the options, made from the same rows that are obeyed: help, man page source, completions.
 */

enum { COLUMN_MIN = 20, COLUMN_MAX = 34, WIDTH_MIN = 40 };

/* A flag that is on by default is of use only as "--no-x". */
static bool shown_negated(const struct option *option) {
        return option->type == OPTION_FLAG && option->fallback && option_number(option, str_of(option->fallback)) != 0;
}

static const char *metavar_of(const struct option *option) {
        if (option->type == OPTION_FLAG)
                return NULL;
        if (option->metavar)
                return option->metavar;

        if (option->type == OPTION_MAP)
                return "NAME=VALUE";

        return "VALUE";
}

int option_usage(struct buf *out, const struct option *option) {
        if (!option->flag)
                return 0;
        int r = 0;

        if (option->letter)
                r = buf_printf(out, "-%c, ", option->letter);

        if (r == 0)
                r = buf_printf(out, "--%s%s", shown_negated(option) ? "no-" : "", option->flag);
        const char *metavar = metavar_of(option);
        if (r == 0 && metavar)
                return buf_printf(out, " %s", metavar);

        return r;
}

/* The help line with what the row knows besides: choices and the default. */
static int help_describe(struct buf *out, const struct option *option) {
        int r = buf_add(out, text_or(option->help, ""));
        for (size_t i = 0; r == 0 && option->choices && option->choices[i]; i++)
                r = buf_printf(out, "%s%s", i ? ", " : ": ", option->choices[i]);
        if (r == 0 && option->fallback && *option->fallback && option->type != OPTION_FLAG)
                r = buf_printf(out, " (default %s)", option->fallback);
        return r;
}

static int help_pad(struct buf *out, size_t n) {
        int r = 0;
        while (n-- > 0 && r == 0)
                r = buf_add_char(out, ' ');
        return r;
}

/* Words of `text` from column `at` on, broken at `width`, continued at column `column`. */
static int wrap_text(struct buf *out, struct str text, size_t column, size_t width) {
        size_t at = column;
        struct str word;
        int r = 0;
        while (r == 0 && str_split(&text, ' ', &word)) {
                if (at > column && at + 1 + word.n > width) {
                        r = buf_add_char(out, '\n');
                        if (r >= 0)
                                r = help_pad(out, column);
                        at = column;
                } else if (at > column) {
                        r = buf_add_char(out, ' ');
                        at++;
                }

                if (r >= 0)
                        r = buf_append(out, word);
                at += word.n;
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static size_t usage_width(const struct option *option) {
        cleanup(buf_done) struct buf usage = BUF(256);
        if (option_usage(&usage, option) < 0)
                return 0;

        return usage.n;
}

/* Where the help column starts: after the longest usage that is not unreasonably long. */
static size_t help_column(const struct option_table *const *tables, size_t n_tables) {
        size_t column = COLUMN_MIN;

        for (size_t t = 0; t < n_tables; t++)
                for (size_t i = 0; i < tables[t]->n; i++) {
                        size_t n = usage_width(&tables[t]->rows[i]) + 4;
                        if (n > column && n <= COLUMN_MAX)
                                column = n;
                }

        return column;
}

static int help_row(struct buf *out, const struct option *option, size_t column, size_t width) {
        cleanup(buf_done) struct buf text = BUF(2048);
        size_t start = out->n;
        int r = buf_add(out, "  ");
        if (r < 0)
                return r;

        r = option_usage(out, option);
        if (r < 0)
                return r;

        r = help_describe(&text, option);
        if (r < 0)
                return r;

        size_t used = out->n - start;
        if (used + 2 > column) {
                r = buf_add_char(out, '\n');
                used = 0;
        }

        if (r >= 0)
                r = help_pad(out, column - used);
        if (r < 0)
                return r;

        return wrap_text(out, buf_str(&text), column, width);
}

static bool has_flags(const struct option_table *table) {
        for (size_t i = 0; i < table->n; i++)
                if (table->rows[i].flag)
                        return true;
        return false;
}

int option_help(struct buf *out, const struct option_table *const *tables, size_t n_tables, unsigned width) {
        size_t column = help_column(tables, n_tables);

        if (width < WIDTH_MIN)
                width = WIDTH_MIN;

        bool first = true;

        for (size_t t = 0; t < n_tables; t++) {
                if (!has_flags(tables[t]))
                        continue;

                int r = buf_printf(out, "%s%s:\n", first ? "" : "\n", tables[t]->title);
                first = false;

                for (size_t i = 0; r == 0 && i < tables[t]->n; i++)
                        if (tables[t]->rows[i].flag)
                                r = help_row(out, &tables[t]->rows[i], column, width);

                if (r < 0)
                        return r;
        }

        return 0;
}

/* Text for roff: hyphens are meant, backslashes are text, a leading dot is no request. */
static int help_roff(struct buf *out, const char *text) {
        int r = 0;

        if (*text == '.' || *text == '\'')
                r = buf_add(out, "\\&");

        for (const char *c = text; *c && r == 0; c++) {
                if (*c == '-')
                        r = buf_add(out, "\\-");
                else if (*c == '\\')
                        r = buf_add(out, "\\e");
                else
                        r = buf_add_char(out, *c);
        }
        return r;
}

static int man_names(struct buf *out, const struct option *option) {
        const struct {
                const char *label, *text;
        } names[] = { { "File key", option->flag ? option->key : NULL }, { "Variable", option->env } };
        int r = 0;
        for (size_t i = 0; r == 0 && i < sizeof names / sizeof names[0]; i++) {
                if (!names[i].text || !*names[i].text)
                        continue;

                r = buf_printf(out, "%s:\n.B ", names[i].label);
                if (r >= 0)
                        r = help_roff(out, names[i].text);
                if (r >= 0)
                        r = buf_add(out, ".\n");
        }

        return r;
}

static int man_row(struct buf *out, const struct option *option) {
        cleanup(buf_done) struct buf usage = BUF(256), text = BUF(2048);
        int r = option->flag ? option_usage(&usage, option) : buf_add(&usage, text_or(option->key, ""));
        if (r < 0)
                return r;

        r = help_describe(&text, option);
        if (r < 0)
                return r;

        const char *usage_text = buf_text(&usage), *help_text = buf_text(&text);
        if (!usage_text || !help_text)
                return -ENOMEM;

        r = buf_add(out, ".TP\n.B ");
        if (r < 0)
                return r;

        r = help_roff(out, usage_text);
        if (r < 0)
                return r;

        r = buf_add_char(out, '\n');
        if (r < 0)
                return r;

        r = help_roff(out, help_text);
        if (r < 0)
                return r;

        r = buf_add(out, ".\n");
        if (r < 0)
                return r;

        return man_names(out, option);
}

int option_man(struct buf *out, const struct option_table *const *tables, size_t n_tables) {
        for (size_t t = 0; t < n_tables; t++) {
                int r = buf_printf(out, ".SS %s\n", tables[t]->title);
                for (size_t i = 0; r == 0 && i < tables[t]->n; i++)
                        r = man_row(out, &tables[t]->rows[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}
