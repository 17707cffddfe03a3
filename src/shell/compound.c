/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/parser.h"

/* ( list ) */
static int subshell(struct parser *p, struct sh_command *c) {
        c->kind = SH_SUBSHELL;
        p->p++;
        int r = parse_body(p, &c->body);
        if (r == 0)
                r = skip_newlines(p);
        if (r == 0 && ahead(p, 0) != ')')
                r = parser_fail(p, at_end(p) ? "a ( is not closed" : "unexpected text in ( )");
        if (r == 0)
                p->p++;
        return r;
}

/* (( expression )), or a subshell in a subshell. */
static int double_parenthesis(struct parser *p, struct sh_command *c) {
        struct sh_word *expression = NULL;
        p->p += 2;
        int r = parse_arithmetic(p, &expression);
        if (r == -EAGAIN) {
                p->p -= 2;
                return subshell(p, c);
        }
        c->kind = SH_ARITHMETIC_COMMAND;
        c->words = expression;
        return r;
}

static int group(struct parser *p, struct sh_command *c) {
        c->kind = SH_GROUP;
        int r = parse_body(p, &c->body);
        return r < 0 ? r : expect_reserved(p, "}");
}

static int if_command(struct parser *p, struct sh_command *c) {
        struct sh_arm **tail = &c->arms;
        c->kind = SH_IF;
        for (bool last = false; !last;) {
                struct sh_arm *arm = parser_get(p, sizeof *arm);
                if (!arm)
                        return -ENOMEM;
                *tail = arm;
                tail = &arm->next;
                int r = parse_body(p, &arm->condition);
                if (r == 0)
                        r = expect_reserved(p, "then");
                if (r == 0)
                        r = parse_body(p, &arm->body);
                if (r == 0)
                        r = skip_newlines(p);
                if (r < 0)
                        return r;
                last = !take_reserved(p, "elif");
        }
        if (take_reserved(p, "else")) {
                struct sh_arm *arm = parser_get(p, sizeof *arm);
                if (!arm)
                        return -ENOMEM;
                *tail = arm;
                int r = parse_body(p, &arm->body);
                if (r < 0)
                        return r;
        }
        return expect_reserved(p, "fi");
}

static int do_group(struct parser *p, struct sh_command *c) {
        int r = expect_reserved(p, "do");
        if (r == 0)
                r = parse_body(p, &c->body);
        return r < 0 ? r : expect_reserved(p, "done");
}

static int while_command(struct parser *p, struct sh_command *c, enum sh_command_kind kind) {
        c->kind = kind;
        int r = parse_body(p, &c->condition);
        return r < 0 ? r : do_group(p, c);
}

static int word_list(struct parser *p, struct sh_word **ret) {
        struct sh_word **tail = ret;
        for (;;) {
                struct sh_word *word = NULL;
                skip_blanks(p);
                int r = parse_word(p, WORD_NORMAL, &word);
                if (r < 0 || !word)
                        return r;
                *tail = word;
                tail = &word->next;
        }
}

/* for and select accept a body in braces as well. */
static int loop_body(struct parser *p, struct sh_command *c) {
        int r = skip_newlines(p);
        if (r < 0)
                return r;
        if (take_reserved(p, "{")) {
                r = parse_body(p, &c->body);
                return r < 0 ? r : expect_reserved(p, "}");
        }
        return do_group(p, c);
}

static int for_arithmetic(struct parser *p, struct sh_command *c) {
        c->kind = SH_FOR_ARITHMETIC;
        p->p += 2;
        int r = parse_arithmetic(p, &c->words);
        if (r == -EAGAIN)
                return parser_fail(p, "a for (( is not closed");
        if (r < 0)
                return r;
        skip_blanks(p);
        if (ahead(p, 0) == ';')
                p->p++;
        return loop_body(p, c);
}

static int for_command(struct parser *p, struct sh_command *c, enum sh_command_kind kind) {
        c->kind = kind;
        skip_blanks(p);
        if (kind == SH_FOR && looking_at(p, "(("))
                return for_arithmetic(p, c);
        c->name = take_name(p);
        if (c->name.n == 0)
                return parser_fail(p, "a loop needs a variable");
        int r = skip_newlines(p);
        if (r < 0)
                return r;
        if (take_reserved(p, "in")) {
                c->in_given = true;
                r = word_list(p, &c->words);
                skip_blanks(p);
                if (r == 0 && ahead(p, 0) != ';' && ahead(p, 0) != '\n')
                        r = parser_fail(p, "unexpected text in a loop's list");
        }
        if (r < 0)
                return r;
        if (ahead(p, 0) == ';')
                p->p++;
        return loop_body(p, c);
}

static int case_patterns(struct parser *p, struct sh_arm *arm) {
        struct sh_word **tail = &arm->patterns;
        if (ahead(p, 0) == '(')
                p->p++;
        for (;;) {
                struct sh_word *word = NULL;
                skip_blanks(p);
                int r = parse_word(p, WORD_CASE, &word);
                if (r < 0)
                        return r;
                if (!word)
                        return parser_fail(p, "a case needs a pattern");
                *tail = word;
                tail = &word->next;
                skip_blanks(p);
                if (ahead(p, 0) == ')') {
                        p->p++;
                        return 0;
                }
                if (ahead(p, 0) != '|')
                        return parser_fail(p, "a case pattern is not closed");
                p->p++;
        }
}

static int case_command(struct parser *p, struct sh_command *c) {
        c->kind = SH_CASE;
        skip_blanks(p);
        int r = parse_word(p, WORD_NORMAL, &c->words);
        if (r == 0 && !c->words)
                r = parser_fail(p, "a case needs a word");
        if (r == 0)
                r = expect_reserved(p, "in");
        struct sh_arm **tail = &c->arms;
        while (r == 0) {
                r = skip_newlines(p);
                if (r < 0 || take_reserved(p, "esac"))
                        return r;
                struct sh_arm *arm = parser_get(p, sizeof *arm);
                if (!arm)
                        return -ENOMEM;
                *tail = arm;
                tail = &arm->next;
                r = case_patterns(p, arm);
                if (r == 0)
                        r = parse_list(p, &arm->body);
                if (r == 0)
                        r = skip_newlines(p);
                if (r < 0)
                        return r;
                if (looking_at(p, ";;&"))
                        p->p += 3;
                else if (looking_at(p, ";;") || looking_at(p, ";&"))
                        p->p += 2;
                else
                        return expect_reserved(p, "esac");
        }
        return r;
}

/* [[ ... ]]: operators and operands alike are kept as words; what counts is what they substitute. */
static int condition(struct parser *p, struct sh_command *c) {
        struct sh_word **tail = &c->words;
        c->kind = SH_CONDITION;
        for (;;) {
                int r = skip_newlines(p);
                if (r < 0)
                        return r;
                if (take_reserved(p, "]]"))
                        return 0;
                if (at_end(p))
                        return parser_fail(p, "a [[ is not closed");
                if (looking_at(p, "&&") || looking_at(p, "||")) {
                        p->p += 2;
                        continue;
                }
                if (strchr("()<>", *p->p)) {
                        p->p++;
                        continue;
                }
                struct sh_word *word = NULL;
                r = parse_word(p, WORD_CONDITION, &word);
                if (r < 0)
                        return r;
                if (!word)
                        return parser_fail(p, "unexpected text in [[ ]]");
                *tail = word;
                tail = &word->next;
        }
}

/* function name [()] body */
static int function_keyword(struct parser *p, struct sh_command *c) {
        struct sh_word *name = NULL;
        c->kind = SH_FUNCTION;
        skip_blanks(p);
        int r = parse_word(p, WORD_NORMAL, &name);
        if (!name)
                return r < 0 ? r : parser_fail(p, "a function needs a name");
        c->name = name->raw;
        skip_blanks(p);
        if (ahead(p, 0) == '(') {
                struct parser look = *p;
                look.p++;
                skip_blanks(&look);
                if (ahead(&look, 0) == ')')
                        p->p = look.p + 1;
        }
        r = skip_newlines(p);
        if (r == 0)
                r = parse_compound(p, &c->inner);
        if (r == 0 && !c->inner)
                r = parser_fail(p, "a function needs a body");
        return r < 0 ? r : parse_redirects(p, c->inner);
}

static int coproc(struct parser *p, struct sh_command *c) {
        c->kind = SH_COPROC;
        skip_blanks(p);
        struct parser before = *p;
        /* "coproc NAME { ...": a name only in front of a compound command. */
        c->name = take_name(p);
        skip_blanks(p);
        int r = c->name.n ? parse_compound(p, &c->inner) : 0;
        if (r == 0 && c->inner)
                return parse_redirects(p, c->inner);
        if (r < 0)
                return r;
        *p = before;
        c->name = STR("");
        r = parse_pipeline_command(p, &c->inner);
        return r == 0 && !c->inner ? parser_fail(p, "coproc needs a command") : r;
}

static int by_keyword(struct parser *p, struct sh_command *c) {
        if (ahead(p, 0) == '(')
                return ahead(p, 1) == '(' ? double_parenthesis(p, c) : subshell(p, c);
        if (take_reserved(p, "{"))
                return group(p, c);
        if (take_reserved(p, "if"))
                return if_command(p, c);
        if (take_reserved(p, "while"))
                return while_command(p, c, SH_WHILE);
        if (take_reserved(p, "until"))
                return while_command(p, c, SH_UNTIL);
        if (take_reserved(p, "for"))
                return for_command(p, c, SH_FOR);
        if (take_reserved(p, "select"))
                return for_command(p, c, SH_SELECT);
        if (take_reserved(p, "case"))
                return case_command(p, c);
        if (take_reserved(p, "[["))
                return condition(p, c);
        if (take_reserved(p, "function"))
                return function_keyword(p, c);
        if (take_reserved(p, "coproc"))
                return coproc(p, c);
        return -ENOENT;
}

int parse_compound(struct parser *p, struct sh_command **ret) {
        *ret = NULL;
        struct sh_command *c = parser_get(p, sizeof *c);
        if (!c)
                return -ENOMEM;
        int r = parser_enter(p);
        if (r < 0)
                return r;
        r = by_keyword(p, c);
        parser_leave(p);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                *ret = c;
        return r;
}
