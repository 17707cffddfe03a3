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

int sh_args_add(struct judge *j, struct sh_args *to, struct sh_arg arg) {
        if (to->n == to->cap) {
                size_t cap = to->cap ? to->cap * 2 : 8;
                struct sh_arg *p = arena_get(&j->arena, cap * sizeof *p);
                if (!p) {
                        judge_not_understood(j, "too many arguments");
                        return -ENOMEM;
                }
                if (to->n)
                        memcpy(p, to->p, to->n * sizeof *p);
                to->p = p;
                to->cap = cap;
        }
        to->p[to->n++] = arg;
        return 0;
}

/* One argument while it is put together. */
struct building {
        struct judge *j;
        struct sh_args *to; /* NULL: the word is not split */
        struct buf text;
        bool unknown, pattern, present, process;
        bool loose_brace; /* an unquoted { in text: with a substitution inside it may be several words */
};

static int put(struct building *b, struct str s) {
        b->present = true;
        return buf_append(&b->text, s);
}

static struct sh_arg finished(struct building *b) {
        struct str text = buf_str(&b->text);
        if (b->unknown && b->loose_brace)
                text = str_n("", 1);
        if (b->pattern && !memchr(text.p, '*', text.n) && !memchr(text.p, '?', text.n) && !memchr(text.p, ']', text.n))
                b->pattern = false; /* a [ alone */
        struct sh_arg arg = { .text = arena_copy(&b->j->arena, text),
                              .unknown = b->unknown,
                              .pattern = b->pattern,
                              .process = b->process,
                              .under = b->j->directory,
                              .setting = b->j->setting };
        if (!arg.text.p) {
                judge_not_understood(b->j, "too long");
                arg = (struct sh_arg){ .text = str_n("", 1), .unknown = true };
        }
        return arg;
}

static int finish(struct building *b) {
        if (!b->present)
                return 0;
        int r = sh_args_add(b->j, b->to, finished(b));
        buf_clear(&b->text);
        b->unknown = b->pattern = b->present = b->loose_brace = b->process = false;
        return r;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\n';
}

static int put_text(struct building *b, struct sh_arg value) {
        b->unknown = b->unknown || str_has_nul(value.text);
        b->pattern = b->pattern || value.pattern;
        return put(b, value.text);
}

/* An unquoted value: blanks part words, and wildcards count. */
static int put_split(struct building *b, struct sh_arg value) {
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
                        r = put_text(b, word);
                } else {
                        r = finish(b);
                        n = 1;
                }
                rest = str_skip(rest, n);
        }
        return r;
}

/* "$@" and "${a[@]}": a word for each; joined where there is only one. */
static int put_items(struct building *b, const struct sh_value *value, bool quoted) {
        int r = 0;

        for (size_t i = 0; i < value->n && r == 0; i++) {
                if (i > 0)
                        r = b->to ? finish(b) : put(b, STR(" "));
                if (r == 0)
                        r = quoted || !b->to ? put_text(b, value->items[i]) : put_split(b, value->items[i]);
        }
        if (value->n == 0 && b->text.n == 0)
                b->present = false;
        return r;
}

static int put_value(struct building *b, const struct sh_value *value, bool quoted) {
        if (value->array)
                return put_items(b, value, quoted);
        return quoted || !b->to ? put_text(b, value->text) : put_split(b, value->text);
}

static int add_parameter(struct building *b, const struct sh_part *part) {
        struct sh_value value = { 0 };

        if (str_is(part->text, "IFS") && !part->quoted && b->to && !variables_find(b->j, STR("IFS")))
                return finish(b);
        if (parameter_value(b->j, part, &value))
                return put_value(b, &value, part->quoted);
        if (str_is(part->text, "!") && !part->word)
                return put(b, STR("%!")); /* a job of this shell */
        b->unknown = true;
        return put(b, str_n("", 1));
}

/* $(pwd) and git's top are where we are. */
static bool is_here(const struct sh_list *list) {
        const struct sh_pipeline *line = list ? list->pipelines : NULL;
        if (!line || line->next || !line->commands || line->commands->next || line->commands->kind != SH_SIMPLE)
                return false;
        struct str raw = str_trim(line->commands->raw);
        return str_is(raw, "pwd") || str_is(raw, "git rev-parse --show-toplevel");
}

static int add_tilde(struct building *b, struct str text) {
        if (str_is(text, "~+"))
                return put(b, STR("."));
        if (str_is(text, "~-")) {
                b->unknown = true;
                return put(b, str_n("", 1));
        }
        return put(b, text);
}

static int add_part(struct building *b, const struct sh_part *part, bool first) {
        switch (part->kind) {
        case SH_LITERAL: {
                b->loose_brace = b->loose_brace || (!part->quoted && memchr(part->text.p, '{', part->text.n));
                int r = first && part->text.n && part->text.p[0] == '~' ? put(b, STR("./")) : 0;
                return r < 0 ? r : put(b, part->text);
        }
        case SH_PATTERN:
                b->pattern = true;
                return put(b, part->text);
        case SH_BRACE: /* one that could not be expanded */
                b->unknown = true;
                return put(b, str_n("", 1));
        case SH_TILDE:
                return add_tilde(b, part->text);
        case SH_PARAMETER:
                return add_parameter(b, part);
        case SH_COMMAND:
                if (is_here(part->list))
                        return put(b, STR("."));
                break;
        case SH_PROCESS:
                b->process = true;
                break;
        case SH_ARITHMETIC:
        case SH_OPAQUE:
                break;
        }
        b->unknown = true;
        return put(b, str_n("", 1));
}

static int add_parts(struct building *b, const struct sh_word *word) {
        b->present = word->quoted || !word->parts;
        int r = 0;
        for (const struct sh_part *p = word->parts; p && r == 0; p = p->next)
                r = add_part(b, p, p == word->parts);
        return r;
}

static int plain_word(struct judge *j, const struct sh_word *word, struct sh_args *ret) {
        cleanup(buf_done) struct buf text = BUF(ARG_BYTES_MAX);
        struct building b = { .j = j, .to = ret, .text = text };
        int r = add_parts(&b, word);
        r = r < 0 ? r : finish(&b);
        text = b.text;
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

static bool close_brace(struct str s, struct brace *b) {
        unsigned depth = 0;
        b->n_commas = 0;
        for (size_t i = b->open; i < s.n; i++) {
                size_t behind = skip_quoted(s, i);
                if (behind != i || s.p[i] == '\\') {
                        i = behind;
                        continue;
                }
                if (s.p[i] == '{')
                        depth++;
                else if (s.p[i] == '}' && --depth == 0) {
                        b->close = i;
                        return true;
                } else if (s.p[i] == ',' && depth == 1) {
                        if (b->n_commas == BRACE_WORDS_MAX)
                                return false;
                        b->commas[b->n_commas++] = i;
                }
        }
        return false;
}

static bool find_brace(struct str s, size_t from, struct brace *b) {
        for (size_t i = from; i < s.n; i++) {
                size_t behind = skip_quoted(s, i);
                if (behind != i || s.p[i] == '\\') {
                        i = behind;
                        continue;
                }
                if (s.p[i] != '{' || (i > 0 && s.p[i - 1] == '$'))
                        continue;
                b->open = i;
                if (close_brace(s, b) && b->n_commas > 0)
                        return true;
        }
        return false;
}

/* Bounded and flat: a list of texts in which the first brace of each is replaced until none is left. */
struct texts {
        struct str p[BRACE_WORDS_MAX];
        size_t n;
};

static bool texts_add(struct judge *j, struct texts *t, struct str a, struct str b, struct str c) {
        char *joined = arena_get(&j->arena, a.n + b.n + c.n + 1);
        if (!joined || t->n == BRACE_WORDS_MAX)
                return false;
        memcpy(joined, a.p, a.n);
        memcpy(joined + a.n, b.p, b.n);
        memcpy(joined + a.n + b.n, c.p, c.n);
        t->p[t->n++] = str_n(joined, a.n + b.n + c.n);
        return true;
}

static bool expand_first(struct judge *j, struct str s, const struct brace *b, struct texts *to) {
        size_t from = b->open + 1;
        bool ok = true;
        for (size_t i = 0; i <= b->n_commas && ok; i++) {
                size_t end = i < b->n_commas ? b->commas[i] : b->close;
                ok = texts_add(j, to, str_first(s, b->open), str_n(s.p + from, end - from), str_skip(s, b->close + 1));
                from = end + 1;
        }
        return ok;
}

/* Breadth first would lose the order, which is what decides which word is the command: expand in place. */
static bool expand_braces(struct judge *j, struct str raw, struct texts *done) {
        struct texts *pending = arena_get(&j->arena, sizeof *pending), *next = arena_get(&j->arena, sizeof *next);
        struct brace *b = arena_get(&j->arena, sizeof *b);
        if (!pending || !next || !b)
                return false;
        pending->p[pending->n++] = raw;
        for (bool any = true; any;) {
                any = false;
                next->n = 0;
                for (size_t i = 0; i < pending->n; i++) {
                        bool found = find_brace(pending->p[i], 0, b);
                        any = any || found;
                        if (!(found ? expand_first(j, pending->p[i], b, next)
                                    : texts_add(j, next, pending->p[i], STR(""), STR(""))))
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
        return line->commands->words ? line->commands->words->next : NULL;
}

/* The text of one expanded word, read again: quotes and substitutions inside the braces count only now. */
static int expanded_word(struct judge *j, struct str text, struct sh_args *ret) {
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        cleanup(buf_done) struct buf program = BUF(ARG_BYTES_MAX);
        if (buf_add(&program, ": ") < 0 || buf_append(&program, text) < 0)
                return -ENOMEM;
        if (text.n == 0)
                return 0;
        const struct sh_word *word = sh_parse(buf_str(&program), &tree, NULL) < 0 ? NULL : only_words(tree);
        if (!word || word->next) {
                judge_not_understood(j, "a brace expansion");
                return 0;
        }
        judge_words(j, word);
        return plain_word(j, word, ret);
}

static bool has_brace(const struct sh_word *word) {
        for (const struct sh_part *p = word->parts; p; p = p->next)
                if (p->kind == SH_BRACE)
                        return true;
        return false;
}

static int brace_word(struct judge *j, const struct sh_word *word, struct sh_args *ret) {
        struct texts *texts = arena_get(&j->arena, sizeof *texts);
        if (!texts || ++j->depth > JUDGE_DEPTH_MAX || !expand_braces(j, word->raw, texts)) {
                judge_not_understood(j, "a brace expansion");
                return plain_word(j, word, ret);
        }
        int r = 0;
        for (size_t i = 0; i < texts->n && r == 0; i++)
                r = expanded_word(j, texts->p[i], ret);
        j->depth--;
        return r;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

int sh_words_to_args(struct judge *j, const struct sh_word *words, struct sh_args *ret) {
        int r = 0;
        for (const struct sh_word *w = words; w && r == 0; w = w->next)
                r = has_brace(w) ? brace_word(j, w, ret) : plain_word(j, w, ret);
        return r;
}

struct sh_arg sh_word_to_arg(struct judge *j, const struct sh_word *word) {
        cleanup(buf_done) struct buf text = BUF(ARG_BYTES_MAX);
        struct building b = { .j = j, .text = text };
        if (!word)
                return (struct sh_arg){ .text = STR("") };
        if (add_parts(&b, word) < 0)
                b.unknown = true;
        struct sh_arg arg = finished(&b);
        text = b.text;
        return arg;
}

struct str sh_args_join(struct judge *j, const struct sh_arg *args, size_t n, bool *ret_unknown) {
        cleanup(buf_done) struct buf text = BUF(ARG_BYTES_MAX);
        int r = 0;
        *ret_unknown = false;
        for (size_t i = 0; i < n && r == 0; i++) {
                struct str s = args[i].text;
                r = i ? buf_add_char(&text, ' ') : 0;
                for (size_t k = 0; k < s.n && r == 0; k++)
                        r = s.p[k] ? buf_add_char(&text, s.p[k]) : buf_add(&text, "${unknown}");
                *ret_unknown = *ret_unknown || args[i].unknown;
        }
        struct str copy = { 0 };
        if (r == 0)
                copy = arena_copy(&j->arena, buf_str(&text));
        if (!copy.p) {
                *ret_unknown = true;
                return STR("");
        }
        return copy;
}
