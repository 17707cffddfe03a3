/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/graphql.h"

#include "bridge/graphql_lex.h"

#include <errno.h>

/* What stands at the root of an operation or a fragment: a field, or a fragment that is spread there. */
struct selection {
        struct str name;
        bool spread;
};

struct definition {
        struct str name; /* n 0: an operation without one */
        bool fragment, mutation, subscription;
        size_t first, n; /* in the parser's selections */
};

struct parser {
        struct str left;
        struct graphql_token next;
        struct graphql *out;
        VEC(struct selection) selections;
        struct definition definitions[GRAPHQL_DEFINITIONS_MAX];
        size_t n_definitions;
};

static int graphql_bad(struct parser *parser, const char *problem) {
        parser->out->problem = problem;
        return -EBADMSG;
}

static int bad_syntax(struct parser *parser) {
        return graphql_bad(parser, "it is not GraphQL as the specification writes it");
}

/* --- tokens --- */

static struct graphql_token graphql_take(struct parser *parser) {
        struct graphql_token taken = parser->next;

        parser->next = graphql_lex(&parser->left);
        return taken;
}

static bool at_mark(const struct parser *parser, char mark) {
        return parser->next.kind == TOKEN_MARK && parser->next.mark == mark;
}

static bool take_mark(struct parser *parser, char mark) {
        if (!at_mark(parser, mark))
                return false;
        (void)graphql_take(parser);
        return true;
}

static int expect_mark(struct parser *parser, char mark) {
        if (take_mark(parser, mark))
                return 0;

        return bad_syntax(parser);
}

static int expect_name(struct parser *parser, struct str *ret) {
        if (parser->next.kind != TOKEN_NAME)
                return bad_syntax(parser);
        *ret = graphql_take(parser).text;
        return 0;
}

/* --- values and types --- */

static int parse_value(struct parser *parser, bool constant, unsigned depth);

static int parse_fields(struct parser *parser, char close, bool constant, unsigned depth) {
        while (!take_mark(parser, close)) {
                struct str name;
                int r = expect_name(parser, &name);

                if (r >= 0)
                        r = expect_mark(parser, ':');
                if (r >= 0)
                        r = parse_value(parser, constant, depth);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse_list(struct parser *parser, bool constant, unsigned depth) {
        while (!take_mark(parser, ']')) {
                int r = parse_value(parser, constant, depth);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_value(struct parser *parser, bool constant, unsigned depth) {
        struct str name;

        if (depth >= GRAPHQL_DEPTH_MAX)
                return graphql_bad(parser, "it is nested too deeply");

        if (parser->next.kind == TOKEN_NAME || parser->next.kind == TOKEN_NUMBER || parser->next.kind == TOKEN_STRING) {
                (void)graphql_take(parser);
                return 0;
        }

        if (at_mark(parser, '$') && !constant) {
                (void)graphql_take(parser);
                return expect_name(parser, &name);
        }

        if (take_mark(parser, '['))
                return parse_list(parser, constant, depth + 1);
        if (take_mark(parser, '{'))
                return parse_fields(parser, '}', constant, depth + 1);

        return bad_syntax(parser);
}

static int parse_arguments(struct parser *parser, bool constant) {
        if (!take_mark(parser, '('))
                return 0;
        if (at_mark(parser, ')'))
                return bad_syntax(parser);
        return parse_fields(parser, ')', constant, 0);
}

static int parse_directives(struct parser *parser, bool constant, bool root) {
        while (take_mark(parser, '@')) {
                struct str name;
                int r = expect_name(parser, &name);
                if (r == 0 && root && !str_is(name, "include") && !str_is(name, "skip"))
                        return graphql_bad(parser, "it has a directive at the root that is not known here");

                if (r >= 0)
                        r = parse_arguments(parser, constant);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse_type(struct parser *parser, unsigned depth) {
        struct str name;
        int r;

        if (depth >= GRAPHQL_DEPTH_MAX)
                return graphql_bad(parser, "it is nested too deeply");

        if (take_mark(parser, '[')) {
                r = parse_type(parser, depth + 1);
                if (r >= 0)
                        r = expect_mark(parser, ']');
        } else {
                r = expect_name(parser, &name);
        }

        if (r == 0)
                (void)take_mark(parser, '!');

        return r;
}

static int parse_variables(struct parser *parser) {
        if (!take_mark(parser, '('))
                return 0;

        do {
                struct str name;
                int r = expect_mark(parser, '$');

                if (r >= 0)
                        r = expect_name(parser, &name);
                if (r >= 0)
                        r = expect_mark(parser, ':');
                if (r >= 0)
                        r = parse_type(parser, 0);
                if (r == 0 && take_mark(parser, '='))
                        r = parse_value(parser, true, 0);

                if (r >= 0)
                        r = parse_directives(parser, true, false);
                if (r < 0)
                        return r;
        } while (!take_mark(parser, ')'));

        return 0;
}

/* --- selections --- */

static int parse_selections(struct parser *parser, unsigned depth, bool root);

static int keep_selection(struct parser *parser, bool root, struct str name, bool spread) {
        if (!root)
                return 0;
        if (parser->selections.n == GRAPHQL_ROOT_MAX)
                return graphql_bad(parser, "it asks for too much at the root");
        return vec_push(&parser->selections, ((struct selection){ name, spread }));
}

static int parse_field(struct parser *parser, unsigned depth, bool root) {
        struct str name;
        int r = expect_name(parser, &name);

        if (r == 0 && take_mark(parser, ':')) /* what stood there was an alias */
                r = expect_name(parser, &name);

        if (r < 0)
                return r;
        r = keep_selection(parser, root, name, false);
        if (r < 0)
                return r;
        r = parse_arguments(parser, false);
        if (r < 0)
                return r;
        r = parse_directives(parser, false, root);
        if (r == 0 && at_mark(parser, '{'))
                r = parse_selections(parser, depth + 1, false);

        return r;
}

/* Behind "...": the name of a fragment, or one that stands right here. */
static int parse_spread(struct parser *parser, unsigned depth, bool root) {
        struct str name;
        int r = 0;

        if (parser->next.kind == TOKEN_NAME && !str_is(parser->next.text, "on")) {
                r = keep_selection(parser, root, parser->next.text, true);
                (void)graphql_take(parser);
                if (r < 0)
                        return r;

                return parse_directives(parser, false, root);
        }

        if (parser->next.kind == TOKEN_NAME) {
                (void)graphql_take(parser);
                r = expect_name(parser, &name);
        }

        if (r >= 0)
                r = parse_directives(parser, false, root);
        if (r < 0)
                return r;

        return parse_selections(parser, depth + 1, root);
}

static int parse_selections(struct parser *parser, unsigned depth, bool root) {
        int r = expect_mark(parser, '{');

        if (r == 0 && depth >= GRAPHQL_DEPTH_MAX)
                return graphql_bad(parser, "it is nested too deeply");
        if (r == 0 && at_mark(parser, '}'))
                return bad_syntax(parser);

        while (r == 0 && !take_mark(parser, '}')) {
                bool spread = parser->next.kind == TOKEN_SPREAD;
                if (spread)
                        (void)graphql_take(parser);
                if (spread)
                        r = parse_spread(parser, depth, root);
                else
                        r = parse_field(parser, depth, root);
        }

        return r;
}

/* --- definitions --- */

static int parse_operation(struct parser *parser, struct definition *definition) {
        struct str type;
        int r = 0;

        if (!at_mark(parser, '{')) {
                r = expect_name(parser, &type);
                if (r < 0)
                        return r;

                definition->mutation = str_is(type, "mutation");
                definition->subscription = str_is(type, "subscription");
                if (!definition->mutation && !definition->subscription && !str_is(type, "query"))
                        return graphql_bad(parser, "it defines something else than operations and fragments");
                if (parser->next.kind == TOKEN_NAME)
                        definition->name = graphql_take(parser).text;

                r = parse_variables(parser);
                if (r == 0 && at_mark(parser, '@'))
                        return graphql_bad(parser, "it has a directive on an operation");
        }

        if (r < 0)
                return r;

        return parse_selections(parser, 0, true);
}

static int parse_fragment(struct parser *parser, struct definition *definition) {
        struct str word;
        int r;

        (void)graphql_take(parser);
        definition->fragment = true;
        r = expect_name(parser, &definition->name);
        if (r == 0 && str_is(definition->name, "on"))
                return bad_syntax(parser);

        if (r >= 0)
                r = expect_name(parser, &word);
        if (r == 0 && !str_is(word, "on"))
                return bad_syntax(parser);

        if (r >= 0)
                r = expect_name(parser, &word);
        if (r >= 0)
                r = parse_directives(parser, false, true);
        if (r < 0)
                return r;

        return parse_selections(parser, 0, true);
}

static int parse_document(struct parser *parser) {
        parser->next = graphql_lex(&parser->left);
        while (parser->next.kind != TOKEN_END) {
                struct definition *definition = &parser->definitions[parser->n_definitions];

                if (parser->n_definitions == GRAPHQL_DEFINITIONS_MAX)
                        return graphql_bad(parser, "it has too many operations and fragments");

                *definition = (struct definition){ .first = parser->selections.n };
                bool fragment = parser->next.kind == TOKEN_NAME && str_is(parser->next.text, "fragment");
                int r = fragment ? parse_fragment(parser, definition) : parse_operation(parser, definition);
                if (r < 0)
                        return r;

                definition->n = parser->selections.n - definition->first;
                parser->n_definitions++;
        }

        if (parser->n_definitions)
                return 0;

        return bad_syntax(parser);
}

/* --- what runs --- */

static int check_names(struct parser *parser) {
        size_t operations = 0, nameless = 0;

        for (size_t i = 0; i < parser->n_definitions; i++) {
                const struct definition *definition = &parser->definitions[i];

                operations += !definition->fragment;
                nameless += !definition->fragment && definition->name.n == 0;

                for (size_t k = 0; k < i; k++)
                        if (definition->name.n > 0 && parser->definitions[k].fragment == definition->fragment &&
                            str_eq(parser->definitions[k].name, definition->name))
                                return graphql_bad(parser, "it uses one name twice");
        }

        if (nameless > 0 && operations > 1)
                return graphql_bad(parser, "it has several operations, and one of them no name");

        if (operations <= 0)
                return graphql_bad(parser, "it has no operation");

        return 0;
}

/* By name; without one, the only operation there is. */
static const struct definition *find_operation(const struct parser *parser, struct str name) {
        const struct definition *found = NULL;

        for (size_t i = 0; i < parser->n_definitions; i++) {
                const struct definition *definition = &parser->definitions[i];
                if (definition->fragment || (name.n > 0 && !str_eq(definition->name, name)))
                        continue;
                if (found)
                        return NULL;

                found = definition;
        }

        return found;
}

static struct definition *find_fragment(struct parser *parser, struct str name) {
        for (size_t i = 0; i < parser->n_definitions; i++)
                if (parser->definitions[i].fragment && str_eq(parser->definitions[i].name, name))
                        return &parser->definitions[i];
        return NULL;
}

/* Fields at the root, those of fragments included; each fragment once, however often it is spread. */
static int graphql_collect(struct parser *parser, const struct definition *definition,
                           bool seen[static GRAPHQL_DEFINITIONS_MAX]) {
        for (size_t i = definition->first; i < definition->first + definition->n; i++) {
                const struct selection *s = &parser->selections.p[i];
                if (!s->spread) {
                        if (vec_push(&parser->out->fields, s->name) < 0)
                                return -ENOMEM;
                        continue;
                }

                struct definition *fragment = find_fragment(parser, s->name);
                if (!fragment)
                        return graphql_bad(parser, "it spreads a fragment that it does not have");
                if (seen[fragment - parser->definitions])
                        continue;

                seen[fragment - parser->definitions] = true;
                int r = graphql_collect(parser, fragment, seen);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int find_fields(struct parser *parser, struct str operation) {
        bool seen[GRAPHQL_DEFINITIONS_MAX] = { 0 };
        int r = check_names(parser);

        if (r < 0)
                return r;

        const struct definition *chosen = find_operation(parser, operation);
        if (!chosen)
                return graphql_bad(parser, operation.n > 0 ? "it has no operation of the name that the request chooses"
                                                           : "it has several operations, and the request chooses none");

        if (chosen->subscription)
                return graphql_bad(parser, "it is a subscription");

        parser->out->mutation = chosen->mutation;
        r = graphql_collect(parser, chosen, seen);
        if (r == 0 && parser->out->fields.n == 0)
                return graphql_bad(parser, "it asks for nothing");

        return r;
}

int graphql_read(struct str document, struct str operation, struct graphql *ret) {
        struct parser p = { .left = document, .out = ret };

        *ret = (struct graphql){ 0 };
        if (document.n > GRAPHQL_DOCUMENT_MAX)
                return graphql_bad(&p, "it is longer than 64 KiB");

        int r = parse_document(&p);
        if (r >= 0)
                r = find_fields(&p, operation);
        vec_done(&p.selections);

        return r;
}

void graphql_done(struct graphql *graphql) {
        vec_done(&graphql->fields);
}
