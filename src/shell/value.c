/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From words to arguments: what the shell would make of a word, as far as that can be known without running it. Known
 * are literals, the home directory, brace expansions, the splitting that an unquoted $IFS does, and variables whose
 * value the command itself says (parameter.c). Everything else becomes a NUL byte: no rule takes it for something
 * harmless.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "shell/parameter.h"
#include "shell/variables.h"

#include <errno.h>

enum { BRACE_WORDS_MAX = 256, ARG_BYTES_MAX = 1 << 20 };

/* One argument while it is put together. */
struct building {
        struct judge *j;
        struct sh_args *to; /* NULL: the word is not split */
        struct buf text;
        bool unknown, pattern, present, process;
        bool loose_brace; /* an unquoted { in text: with a substitution inside it may be several words */
};

static int value_put(struct building *building, struct str s) {
        building->present = true;
        return buf_append(&building->text, s);
}

static struct sh_arg value_finished(struct building *building) {
        struct str text = buf_str(&building->text);

        if (building->unknown && building->loose_brace)
                text = str_n("", 1);

        if (building->pattern && !memchr(text.p, '*', text.n) && !memchr(text.p, '?', text.n) &&
            !memchr(text.p, ']', text.n))
                building->pattern = false; /* a [ alone */

        struct sh_arg arg = { .text = arena_copy(&building->j->arena, text),
                              .unknown = building->unknown,
                              .pattern = building->pattern,
                              .process = building->process,
                              .under = building->j->directory,
                              .setting = building->j->setting };
        if (!arg.text.p) {
                judge_not_understood(building->j, "too long");
                arg = (struct sh_arg){ .text = str_n("", 1), .unknown = true };
        }

        return arg;
}

static int value_finish(struct building *building) {
        if (!building->present)
                return 0;
        int r = sh_args_add(building->j, building->to, value_finished(building));
        buf_clear(&building->text);
        building->unknown = building->pattern = building->present = building->loose_brace = building->process = false;
        return r;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\n';
}

static int put_text(struct building *building, struct sh_arg value) {
        building->unknown = building->unknown || str_has_nul(value.text);
        building->pattern = building->pattern || value.pattern;
        return value_put(building, value.text);
}

/* An unquoted value: blanks part words, and wildcards count. */
static int put_split(struct building *building, struct sh_arg value) {
        struct str rest = value.text;
        int r = 0;

        while (rest.n && r == 0) {
                size_t n = 0;
                while (n < rest.n && !is_blank(rest.p[n]))
                        n++;

                if (n > 0) {
                        struct sh_arg word = { .text = str_first(rest, n), .pattern = value.pattern };

                        for (size_t i = 0; i < n; i++)
                                word.pattern = word.pattern || memchr("*?[", rest.p[i], 3);
                        r = put_text(building, word);
                } else {
                        r = value_finish(building);
                        n = 1;
                }

                rest = str_skip(rest, n);
        }

        return r;
}

/* "$@" and "${a[@]}": a word for each; joined where there is only one. */
static int put_items(struct building *building, const struct sh_value *value, bool quoted) {
        int r = 0;

        for (size_t i = 0; i < value->n && r == 0; i++) {
                if (i > 0)
                        r = building->to ? value_finish(building) : value_put(building, STR(" "));
                if (r == 0)
                        r = quoted || !building->to ? put_text(building, value->items[i])
                                                    : put_split(building, value->items[i]);
        }

        if (value->n == 0 && building->text.n == 0)
                building->present = false;

        return r;
}

static int put_value(struct building *building, const struct sh_value *value, bool quoted) {
        if (value->array)
                return put_items(building, value, quoted);
        if (quoted || !building->to)
                return put_text(building, value->text);

        return put_split(building, value->text);
}

static int add_parameter(struct building *building, const struct sh_part *part) {
        struct sh_value value = { 0 };

        if (str_is(part->text, "IFS") && !part->quoted && building->to && !variables_find(building->j, STR("IFS")))
                return value_finish(building);
        if (parameter_value(building->j, part, &value))
                return put_value(building, &value, part->quoted);
        if (str_is(part->text, "!") && !part->word)
                return value_put(building, STR("%!")); /* a job of this shell */

        building->unknown = true;
        return value_put(building, str_n("", 1));
}

/* $(pwd) and git's top are where we are. */
static bool is_here(const struct sh_list *list) {
        const struct sh_pipeline *line = list ? list->pipelines : NULL;
        if (!line || line->next || !line->commands || line->commands->next || line->commands->kind != SH_SIMPLE)
                return false;
        struct str raw = str_trim(line->commands->raw);
        return str_is(raw, "pwd") || str_is(raw, "git rev-parse --show-toplevel");
}

static int add_tilde(struct building *building, struct str text) {
        if (str_is(text, "~+"))
                return value_put(building, STR("."));
        if (str_is(text, "~-")) {
                building->unknown = true;
                return value_put(building, str_n("", 1));
        }
        return value_put(building, text);
}

static int add_part(struct building *building, const struct sh_part *part, bool first) {
        switch (part->kind) {
        case SH_LITERAL: {
                building->loose_brace =
                    building->loose_brace || (!part->quoted && memchr(part->text.p, '{', part->text.n));
                int r = 0;

                if (first && part->text.n && part->text.p[0] == '~')
                        r = value_put(building, STR("./"));

                if (r < 0)
                        return r;

                return value_put(building, part->text);
        }
        case SH_PATTERN:
                building->pattern = true;
                return value_put(building, part->text);
        case SH_BRACE: /* one that could not be expanded */
                building->unknown = true;

                return value_put(building, str_n("", 1));
        case SH_TILDE:
                return add_tilde(building, part->text);
        case SH_PARAMETER:
                return add_parameter(building, part);
        case SH_COMMAND:
                if (is_here(part->list))
                        return value_put(building, STR("."));
                break;
        case SH_PROCESS:
                building->process = true;
                break;
        case SH_ARITHMETIC:
        case SH_OPAQUE:
                break;
        }

        building->unknown = true;
        return value_put(building, str_n("", 1));
}

static int add_parts(struct building *building, const struct sh_word *word) {
        building->present = word->quoted || !word->parts;
        int r = 0;
        for (const struct sh_part *part = word->parts; part && r == 0; part = part->next)
                r = add_part(building, part, part == word->parts);
        return r;
}

static int plain_word(struct judge *judge, const struct sh_word *word, struct sh_args *ret) {
        cleanup(buf_done) struct buf text = BUF(ARG_BYTES_MAX);
        struct building building = { .j = judge, .to = ret, .text = text };
        int r = add_parts(&building, word);
        if (r >= 0)
                r = value_finish(&building);
        text = building.text;
        return r;
}

/* --- braces ------------------------------------------------------------------------------------------------------- */

/* The first { , } or .. form in the text: where it is and where its commas are. */
struct brace {
        size_t open, close;
        size_t commas[BRACE_WORDS_MAX];
        size_t n_commas;
};

/* Past a quoted or escaped stretch at i; i itself when there is none. */
static size_t skip_quoted(struct str s, size_t i) {
        if (s.p[i] == '\\')
                return i + 1 < s.n ? i + 1 : i;
        if (s.p[i] != '\'' && s.p[i] != '"' && s.p[i] != '`')
                return i;

        for (size_t k = i + 1; k < s.n; k++) {
                if (s.p[k] == s.p[i])
                        return k;
                k += s.p[k] == '\\' && s.p[i] != '\'';
        }

        return s.n - 1;
}

static bool close_brace(struct str s, struct brace *brace) {
        unsigned depth = 0;

        brace->n_commas = 0;
        for (size_t i = brace->open; i < s.n; i++) {
                size_t behind = skip_quoted(s, i);
                if (behind != i || s.p[i] == '\\') {
                        i = behind;
                        continue;
                }

                if (s.p[i] == '{')
                        depth++;
                else if (s.p[i] == '}' && --depth == 0) {
                        brace->close = i;
                        return true;
                } else if (s.p[i] == ',' && depth == 1) {
                        if (brace->n_commas == BRACE_WORDS_MAX)
                                return false;
                        brace->commas[brace->n_commas++] = i;
                }
        }

        return false;
}

static bool find_brace(struct str s, size_t from, struct brace *brace) {
        for (size_t i = from; i < s.n; i++) {
                size_t behind = skip_quoted(s, i);
                if (behind != i || s.p[i] == '\\') {
                        i = behind;
                        continue;
                }

                if (s.p[i] != '{' || (i > 0 && s.p[i - 1] == '$'))
                        continue;

                brace->open = i;
                if (close_brace(s, brace) && brace->n_commas > 0)
                        return true;
        }

        return false;
}

/* Bounded and flat: a list of texts in which the first brace of each is replaced until none is left. */
struct texts {
        struct str p[BRACE_WORDS_MAX];
        size_t n;
};

static bool texts_add(struct judge *judge, struct texts *texts, struct str a, struct str b, struct str c) {
        char *joined = arena_get(&judge->arena, a.n + b.n + c.n + 1);
        if (!joined || texts->n == BRACE_WORDS_MAX)
                return false;

        memcpy(joined, a.p, a.n);
        memcpy(joined + a.n, b.p, b.n);
        memcpy(joined + a.n + b.n, c.p, c.n);
        texts->p[texts->n++] = str_n(joined, a.n + b.n + c.n);

        return true;
}

static bool expand_first(struct judge *judge, struct str s, const struct brace *brace, struct texts *to) {
        size_t from = brace->open + 1;
        bool ok = true;
        for (size_t i = 0; i <= brace->n_commas && ok; i++) {
                size_t end = i < brace->n_commas ? brace->commas[i] : brace->close;

                ok = texts_add(judge, to, str_first(s, brace->open), str_n(s.p + from, end - from),
                               str_skip(s, brace->close + 1));
                from = end + 1;
        }

        return ok;
}

/* Breadth first would lose the order, which is what decides which word is the command: expand in place. */
static bool expand_braces(struct judge *judge, struct str raw, struct texts *done) {
        struct texts *pending = arena_get(&judge->arena, sizeof *pending),
                     *next = arena_get(&judge->arena, sizeof *next);
        struct brace *brace = arena_get(&judge->arena, sizeof *brace);
        if (!pending || !next || !brace)
                return false;

        pending->p[pending->n++] = raw;

        for (bool any = true; any;) {
                any = false;
                next->n = 0;

                for (size_t i = 0; i < pending->n; i++) {
                        bool found = find_brace(pending->p[i], 0, brace);

                        any = any || found;

                        if (!(found ? expand_first(judge, pending->p[i], brace, next)
                                    : texts_add(judge, next, pending->p[i], STR(""), STR(""))))
                                return false;
                }

                struct texts *swap = pending;
                pending = next;
                next = swap;
        }

        *done = *pending;
        return true;
}

static const struct sh_word *only_words(const struct sh_tree *tree) {
        const struct sh_pipeline *line = sh_tree_list(tree)->pipelines;
        if (!line || line->next || !line->commands || line->commands->next || line->commands->kind != SH_SIMPLE)
                return NULL;
        if (line->commands->words)
                return line->commands->words->next;

        return NULL;
}

/* The text of one expanded word, read again: quotes and substitutions inside the braces count only now. */
static int expanded_word(struct judge *judge, struct str text, struct sh_args *ret) {
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        cleanup(buf_done) struct buf program = BUF(ARG_BYTES_MAX);
        if (buf_add(&program, ": ") < 0 || buf_append(&program, text) < 0)
                return -ENOMEM;
        if (text.n == 0)
                return 0;

        const struct sh_word *word = sh_parse(buf_str(&program), &tree, NULL) < 0 ? NULL : only_words(tree);
        if (!word || word->next) {
                judge_not_understood(judge, "a brace expansion");
                return 0;
        }

        judge_words(judge, word);
        return plain_word(judge, word, ret);
}

static bool has_brace(const struct sh_word *word) {
        for (const struct sh_part *part = word->parts; part; part = part->next)
                if (part->kind == SH_BRACE)
                        return true;
        return false;
}

static int brace_word(struct judge *judge, const struct sh_word *word, struct sh_args *ret) {
        struct texts *texts = arena_get(&judge->arena, sizeof *texts);
        if (!texts || ++judge->depth > JUDGE_DEPTH_MAX || !expand_braces(judge, word->raw, texts)) {
                judge_not_understood(judge, "a brace expansion");
                return plain_word(judge, word, ret);
        }

        int r = 0;
        for (size_t i = 0; i < texts->n && r == 0; i++)
                r = expanded_word(judge, texts->p[i], ret);

        judge->depth--;
        return r;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

int sh_words_to_args(struct judge *judge, const struct sh_word *words, struct sh_args *ret) {
        int r = 0;
        for (const struct sh_word *word = words; word && r == 0; word = word->next)
                r = has_brace(word) ? brace_word(judge, word, ret) : plain_word(judge, word, ret);
        return r;
}

struct sh_arg sh_word_to_arg(struct judge *judge, const struct sh_word *word) {
        cleanup(buf_done) struct buf text = BUF(ARG_BYTES_MAX);
        struct building building = { .j = judge, .text = text };

        if (!word)
                return (struct sh_arg){ .text = STR("") };
        if (add_parts(&building, word) < 0)
                building.unknown = true;

        struct sh_arg arg = value_finished(&building);
        text = building.text;

        return arg;
}
