/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/parser_internal.h"

/* ( list ) */
static int compound_subshell(struct parser *parser, struct sh_command *command) {
        command->kind = SH_SUBSHELL;
        parser->p++;
        int r = parse_body(parser, &command->body);
        if (r == 0)
                r = skip_newlines(parser);
        if (r == 0 && byte_ahead(parser, 0) != ')')
                r = parser_fail(parser, at_end(parser) ? "a ( is not closed" : "unexpected text in ( )");
        if (r == 0)
                parser->p++;

        return r;
}

/* (( expression )), or a subshell in a subshell. */
static int double_parenthesis(struct parser *parser, struct sh_command *command) {
        struct sh_word *expression = NULL;

        parser->p += 2;
        int r = parse_arithmetic(parser, &expression);
        if (r == -EAGAIN) {
                parser->p -= 2;
                return compound_subshell(parser, command);
        }

        command->kind = SH_ARITHMETIC_COMMAND;
        command->words = expression;

        return r;
}

static int compound_group(struct parser *parser, struct sh_command *command) {
        command->kind = SH_GROUP;
        int r = parse_body(parser, &command->body);
        if (r < 0)
                return r;

        return expect_reserved(parser, "}");
}

static int if_command(struct parser *parser, struct sh_command *command) {
        struct sh_arm **tail = &command->arms;

        command->kind = SH_IF;

        for (bool last = false; !last;) {
                struct sh_arm *arm = parser_get(parser, sizeof *arm);
                if (!arm)
                        return -ENOMEM;

                *tail = arm;
                tail = &arm->next;
                int r = parse_body(parser, &arm->condition);
                if (r == 0)
                        r = expect_reserved(parser, "then");
                if (r == 0)
                        r = parse_body(parser, &arm->body);
                if (r == 0)
                        r = skip_newlines(parser);
                if (r < 0)
                        return r;

                last = !take_reserved(parser, "elif");
        }

        if (take_reserved(parser, "else")) {
                struct sh_arm *arm = parser_get(parser, sizeof *arm);
                if (!arm)
                        return -ENOMEM;

                *tail = arm;
                int r = parse_body(parser, &arm->body);
                if (r < 0)
                        return r;
        }

        return expect_reserved(parser, "fi");
}

static int do_group(struct parser *parser, struct sh_command *command) {
        int r = expect_reserved(parser, "do");
        if (r == 0)
                r = parse_body(parser, &command->body);
        if (r < 0)
                return r;

        return expect_reserved(parser, "done");
}

static int while_command(struct parser *parser, struct sh_command *command, enum sh_command_kind kind) {
        command->kind = kind;
        int r = parse_body(parser, &command->condition);
        if (r < 0)
                return r;

        return do_group(parser, command);
}

static int word_list(struct parser *parser, struct sh_word **ret) {
        struct sh_word **tail = ret;

        for (;;) {
                struct sh_word *word = NULL;

                skip_blanks(parser);
                int r = parse_word(parser, WORD_NORMAL, &word);
                if (r < 0 || !word)
                        return r;

                *tail = word;
                tail = &word->next;
        }
}

/* for and select accept a body in braces as well. */
static int loop_body(struct parser *parser, struct sh_command *command) {
        int r = skip_newlines(parser);
        if (r < 0)
                return r;

        if (take_reserved(parser, "{")) {
                r = parse_body(parser, &command->body);
                if (r < 0)
                        return r;

                return expect_reserved(parser, "}");
        }

        return do_group(parser, command);
}

static int for_arithmetic(struct parser *parser, struct sh_command *command) {
        command->kind = SH_FOR_ARITHMETIC;
        parser->p += 2;
        int r = parse_arithmetic(parser, &command->words);
        if (r == -EAGAIN)
                return parser_fail(parser, "a for (( is not closed");
        if (r < 0)
                return r;

        skip_blanks(parser);
        if (byte_ahead(parser, 0) == ';')
                parser->p++;

        return loop_body(parser, command);
}

static int for_command(struct parser *parser, struct sh_command *command, enum sh_command_kind kind) {
        command->kind = kind;
        skip_blanks(parser);
        if (kind == SH_FOR && looking_at(parser, "(("))
                return for_arithmetic(parser, command);

        command->name = take_name(parser);
        if (command->name.n == 0)
                return parser_fail(parser, "a loop needs a variable");

        int r = skip_newlines(parser);
        if (r < 0)
                return r;

        if (take_reserved(parser, "in")) {
                command->in_given = true;
                r = word_list(parser, &command->words);
                skip_blanks(parser);

                if (r == 0 && byte_ahead(parser, 0) != ';' && byte_ahead(parser, 0) != '\n')
                        r = parser_fail(parser, "unexpected text in a loop's list");
        }

        if (r < 0)
                return r;
        if (byte_ahead(parser, 0) == ';')
                parser->p++;

        return loop_body(parser, command);
}

static int case_patterns(struct parser *parser, struct sh_arm *arm) {
        struct sh_word **tail = &arm->patterns;

        if (byte_ahead(parser, 0) == '(')
                parser->p++;

        for (;;) {
                struct sh_word *word = NULL;

                skip_blanks(parser);
                int r = parse_word(parser, WORD_CASE, &word);
                if (r < 0)
                        return r;
                if (!word)
                        return parser_fail(parser, "a case needs a pattern");

                *tail = word;
                tail = &word->next;
                skip_blanks(parser);

                if (byte_ahead(parser, 0) == ')') {
                        parser->p++;
                        return 0;
                }

                if (byte_ahead(parser, 0) != '|')
                        return parser_fail(parser, "a case pattern is not closed");

                parser->p++;
        }
}

static int case_command(struct parser *parser, struct sh_command *command) {
        command->kind = SH_CASE;
        skip_blanks(parser);
        int r = parse_word(parser, WORD_NORMAL, &command->words);
        if (r == 0 && !command->words)
                r = parser_fail(parser, "a case needs a word");
        if (r == 0)
                r = expect_reserved(parser, "in");

        struct sh_arm **tail = &command->arms;

        while (r == 0) {
                r = skip_newlines(parser);
                if (r < 0 || take_reserved(parser, "esac"))
                        return r;

                struct sh_arm *arm = parser_get(parser, sizeof *arm);
                if (!arm)
                        return -ENOMEM;

                *tail = arm;
                tail = &arm->next;
                r = case_patterns(parser, arm);
                if (r == 0)
                        r = parse_list(parser, &arm->body);
                if (r == 0)
                        r = skip_newlines(parser);
                if (r < 0)
                        return r;

                if (looking_at(parser, ";;&"))
                        parser->p += 3;
                else if (looking_at(parser, ";;") || looking_at(parser, ";&"))
                        parser->p += 2;
                else
                        return expect_reserved(parser, "esac");
        }

        return r;
}

/* [[ ... ]]: operators and operands alike are kept as words; what counts is what they substitute. */
static int compound_condition(struct parser *parser, struct sh_command *command) {
        struct sh_word **tail = &command->words;

        command->kind = SH_CONDITION;

        for (;;) {
                int r = skip_newlines(parser);
                if (r < 0)
                        return r;
                if (take_reserved(parser, "]]"))
                        return 0;
                if (at_end(parser))
                        return parser_fail(parser, "a [[ is not closed");

                if (looking_at(parser, "&&") || looking_at(parser, "||")) {
                        parser->p += 2;
                        continue;
                }

                if (strchr("()<>", *parser->p)) {
                        parser->p++;
                        continue;
                }

                struct sh_word *word = NULL;
                r = parse_word(parser, WORD_CONDITION, &word);
                if (r < 0)
                        return r;
                if (!word)
                        return parser_fail(parser, "unexpected text in [[ ]]");

                *tail = word;
                tail = &word->next;
        }
}

/* function name [()] body */
static int function_keyword(struct parser *parser, struct sh_command *command) {
        struct sh_word *name = NULL;

        command->kind = SH_FUNCTION;
        skip_blanks(parser);
        int r = parse_word(parser, WORD_NORMAL, &name);

        if (!name && r < 0)
                return r;
        if (!name)
                return parser_fail(parser, "a function needs a name");

        command->name = name->raw;
        skip_blanks(parser);

        if (byte_ahead(parser, 0) == '(') {
                struct parser look = *parser;

                look.p++;
                skip_blanks(&look);
                if (byte_ahead(&look, 0) == ')')
                        parser->p = look.p + 1;
        }

        r = skip_newlines(parser);
        if (r == 0)
                r = parse_compound(parser, &command->inner);
        if (r == 0 && !command->inner)
                r = parser_fail(parser, "a function needs a body");
        if (r < 0)
                return r;

        return parse_redirects(parser, command->inner);
}

static int compound_coproc(struct parser *parser, struct sh_command *command) {
        command->kind = SH_COPROC;
        skip_blanks(parser);
        struct parser before = *parser;

        /* "coproc NAME { ...": a name only in front of a compound command. */
        command->name = take_name(parser);
        skip_blanks(parser);
        int r = 0;

        if (command->name.n)
                r = parse_compound(parser, &command->inner);

        if (r == 0 && command->inner)
                return parse_redirects(parser, command->inner);
        if (r < 0)
                return r;

        *parser = before;
        command->name = STR("");
        r = parse_pipeline_command(parser, &command->inner);

        if (r == 0 && !command->inner)
                return parser_fail(parser, "coproc needs a command");

        return r;
}

static int by_keyword(struct parser *parser, struct sh_command *command) {
        if (byte_ahead(parser, 0) == '(') {
                if (byte_ahead(parser, 1) == '(')
                        return double_parenthesis(parser, command);
                return compound_subshell(parser, command);
        }

        if (take_reserved(parser, "{"))
                return compound_group(parser, command);
        if (take_reserved(parser, "if"))
                return if_command(parser, command);
        if (take_reserved(parser, "while"))
                return while_command(parser, command, SH_WHILE);
        if (take_reserved(parser, "until"))
                return while_command(parser, command, SH_UNTIL);
        if (take_reserved(parser, "for"))
                return for_command(parser, command, SH_FOR);
        if (take_reserved(parser, "select"))
                return for_command(parser, command, SH_SELECT);
        if (take_reserved(parser, "case"))
                return case_command(parser, command);
        if (take_reserved(parser, "[["))
                return compound_condition(parser, command);
        if (take_reserved(parser, "function"))
                return function_keyword(parser, command);
        if (take_reserved(parser, "coproc"))
                return compound_coproc(parser, command);

        return -ENOENT;
}

int parse_compound(struct parser *parser, struct sh_command **ret) {
        *ret = NULL;
        struct sh_command *command = parser_get(parser, sizeof *command);
        if (!command)
                return -ENOMEM;

        int r = parser_enter(parser);
        if (r < 0)
                return r;

        r = by_keyword(parser, command);
        parser_leave(parser);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                *ret = command;

        return r;
}
