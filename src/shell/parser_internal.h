/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside the shell parser: one position in one text, moved forward only. A failed function leaves the reason in
 * p->e; callers pass it up at once.
 */
#include "base/arena.h"
#include "shell/ast.h"

#include <errno.h>

enum { SH_SOURCE_MAX = 1 << 20, SH_DEPTH_MAX = 100, SH_MEMORY_MAX = 64 << 20, SH_HERE_DOCUMENTS_MAX = 64 };

struct here_document {
        struct sh_redirect *redirect;
        struct str delimiter;
        bool strip_tabs, expands;
};

struct parser {
        const char *p, *end;
        const char *start;
        unsigned depth;
        struct arena *arena;
        struct err *e;
        struct here_document here[SH_HERE_DOCUMENTS_MAX];
        size_t n_here;
};

int parser_fail(struct parser *parser, const char *what);
int parser_enter(struct parser *parser); /* one level deeper, bounded; parser_leave() on every way out */
void parser_leave(struct parser *parser);
void *parser_get(struct parser *parser, size_t n); /* NULL: failure is recorded */

/* For a text inside of what another one reads: as deep as that one, and into the same tree. */
static inline struct parser parser_within(const struct parser *outer, struct str text) {
        return (struct parser){ .p = text.p,
                                .end = text.p + text.n,
                                .start = text.p,
                                .depth = outer->depth,
                                .arena = outer->arena,
                                .e = outer->e };
}

static inline bool at_end(const struct parser *parser) {
        return parser->p >= parser->end;
}
/* The byte n ahead, or NUL at the end (a NUL in the text is refused at the start). */
static inline char byte_ahead(const struct parser *parser, size_t n) {
        return n < (size_t)(parser->end - parser->p) ? parser->p[n] : '\0';
}
/* Asked dozens of times for each word: most differ in the first byte. */
static inline bool looking_at(const struct parser *parser, const char *text) {
        if (parser->p == parser->end || *parser->p != text[0])
                return false;

        size_t n = strlen(text);
        return n <= (size_t)(parser->end - parser->p) && memcmp(parser->p, text, n) == 0;
}

/* Blanks, line continuations and a comment, but not the newline. */
void skip_blanks(struct parser *parser);
/* Blanks, comments and newlines; reads pending here-documents. */
int skip_newlines(struct parser *parser);
bool is_meta(char c);
bool is_name_start(char c);
bool is_name(struct str s);

enum word_mode {
        WORD_NORMAL,
        WORD_BRACED,    /* operand inside ${...}: ends at } */
        WORD_INDEX,     /* a[...]: ends at ] */
        WORD_CONDITION, /* pattern or regular expression in [[ ]]: parentheses and bars are part of it */
        WORD_CASE,      /* case pattern: extended globs are part of it */
};
/* *ret is NULL (and 0 returned) when no word starts here. */
int parse_word(struct parser *parser, enum word_mode mode, struct sh_word **ret);
/* Text in which only $, ` and \ are special: here-document bodies. */
int parse_expanding_text(struct parser *outer, struct str text, struct sh_word **ret);
/* From behind "((" to behind the matching "))": the words inside. -EAGAIN, nothing read: not arithmetic. */
int parse_arithmetic(struct parser *parser, struct sh_word **ret);
/* A nested program from another text (backquotes). */
int parse_nested(struct parser *outer, struct str text, struct sh_list **ret);

/* Commands up to something that ends a list here: ), }, a reserved word, or the end. */
int parse_list(struct parser *parser, struct sh_list **ret);
/* The same, and it must not be empty. */
int parse_body(struct parser *parser, struct sh_list **ret);
int parse_pipeline_command(struct parser *parser, struct sh_command **ret);
/* Compound commands by their first word; *ret NULL when none starts here. */
int parse_compound(struct parser *parser, struct sh_command **ret);
/* One redirection if there is one; 1: read, 0: none. */
int parse_redirect(struct parser *parser, struct sh_redirect ***tail);
int parse_redirects(struct parser *parser, struct sh_command *command);
int parse_assignment(struct parser *parser, struct sh_assignment **ret);
/* An unquoted word that is exactly this, followed by a delimiter: consumed. */
bool take_reserved(struct parser *parser, const char *word);
bool see_reserved(const struct parser *parser, const char *word);
int expect_reserved(struct parser *parser, const char *word);
struct str take_name(struct parser *parser);
