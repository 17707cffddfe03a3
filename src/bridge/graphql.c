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

static int bad(struct parser *p, const char *problem) {
        p->out->problem = problem;
        return -EBADMSG;
}

static int bad_syntax(struct parser *p) {
        return bad(p, "it is not GraphQL as the specification writes it");
}

/* --- tokens --- */

static struct graphql_token take(struct parser *p) {
        struct graphql_token taken = p->next;

        p->next = graphql_lex(&p->left);
        return taken;
}

static bool at_mark(const struct parser *p, char mark) {
        return p->next.kind == TOKEN_MARK && p->next.mark == mark;
}

static bool take_mark(struct parser *p, char mark) {
        if (!at_mark(p, mark))
                return false;
        (void)take(p);
        return true;
}

static int expect_mark(struct parser *p, char mark) {
        return take_mark(p, mark) ? 0 : bad_syntax(p);
}

static int expect_name(struct parser *p, struct str *ret) {
        if (p->next.kind != TOKEN_NAME)
                return bad_syntax(p);
        *ret = take(p).text;
        return 0;
}

/* --- values and types --- */

static int parse_value(struct parser *p, bool constant, unsigned depth);

static int parse_fields(struct parser *p, char close, bool constant, unsigned depth) {
        while (!take_mark(p, close)) {
                struct str name;
                int r = expect_name(p, &name);
                r = r < 0 ? r : expect_mark(p, ':');
                r = r < 0 ? r : parse_value(p, constant, depth);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_list(struct parser *p, bool constant, unsigned depth) {
        while (!take_mark(p, ']')) {
                int r = parse_value(p, constant, depth);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_value(struct parser *p, bool constant, unsigned depth) {
        struct str name;

        if (depth >= GRAPHQL_DEPTH_MAX)
                return bad(p, "it is nested too deeply");
        if (p->next.kind == TOKEN_NAME || p->next.kind == TOKEN_NUMBER || p->next.kind == TOKEN_STRING) {
                (void)take(p);
                return 0;
        }
        if (at_mark(p, '$') && !constant) {
                (void)take(p);
                return expect_name(p, &name);
        }
        if (take_mark(p, '['))
                return parse_list(p, constant, depth + 1);
        if (take_mark(p, '{'))
                return parse_fields(p, '}', constant, depth + 1);
        return bad_syntax(p);
}

static int parse_arguments(struct parser *p, bool constant) {
        if (!take_mark(p, '('))
                return 0;
        if (at_mark(p, ')'))
                return bad_syntax(p);
        return parse_fields(p, ')', constant, 0);
}

static int parse_directives(struct parser *p, bool constant, bool root) {
        while (take_mark(p, '@')) {
                struct str name;
                int r = expect_name(p, &name);
                if (r == 0 && root && !str_is(name, "include") && !str_is(name, "skip"))
                        return bad(p, "it has a directive at the root that is not known here");
                r = r < 0 ? r : parse_arguments(p, constant);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_type(struct parser *p, unsigned depth) {
        struct str name;
        int r;

        if (depth >= GRAPHQL_DEPTH_MAX)
                return bad(p, "it is nested too deeply");
        if (take_mark(p, '[')) {
                r = parse_type(p, depth + 1);
                r = r < 0 ? r : expect_mark(p, ']');
        } else {
                r = expect_name(p, &name);
        }
        if (r == 0)
                (void)take_mark(p, '!');
        return r;
}

static int parse_variables(struct parser *p) {
        if (!take_mark(p, '('))
                return 0;
        do {
                struct str name;
                int r = expect_mark(p, '$');
                r = r < 0 ? r : expect_name(p, &name);
                r = r < 0 ? r : expect_mark(p, ':');
                r = r < 0 ? r : parse_type(p, 0);
                if (r == 0 && take_mark(p, '='))
                        r = parse_value(p, true, 0);
                r = r < 0 ? r : parse_directives(p, true, false);
                if (r < 0)
                        return r;
        } while (!take_mark(p, ')'));
        return 0;
}

/* --- selections --- */

static int parse_selections(struct parser *p, unsigned depth, bool root);

static int keep_selection(struct parser *p, bool root, struct str name, bool spread) {
        if (!root)
                return 0;
        if (p->selections.n == GRAPHQL_ROOT_MAX)
                return bad(p, "it asks for too much at the root");
        return vec_push(&p->selections, ((struct selection){ name, spread }));
}

static int parse_field(struct parser *p, unsigned depth, bool root) {
        struct str name;
        int r = expect_name(p, &name);

        if (r == 0 && take_mark(p, ':')) /* what stood there was an alias */
                r = expect_name(p, &name);
        r = r < 0 ? r : keep_selection(p, root, name, false);
        r = r < 0 ? r : parse_arguments(p, false);
        r = r < 0 ? r : parse_directives(p, false, root);
        if (r == 0 && at_mark(p, '{'))
                r = parse_selections(p, depth + 1, false);
        return r;
}

/* Behind "...": the name of a fragment, or one that stands right here. */
static int parse_spread(struct parser *p, unsigned depth, bool root) {
        struct str name;
        int r = 0;

        if (p->next.kind == TOKEN_NAME && !str_is(p->next.text, "on")) {
                r = keep_selection(p, root, p->next.text, true);
                (void)take(p);
                return r < 0 ? r : parse_directives(p, false, root);
        }
        if (p->next.kind == TOKEN_NAME) {
                (void)take(p);
                r = expect_name(p, &name);
        }
        r = r < 0 ? r : parse_directives(p, false, root);
        return r < 0 ? r : parse_selections(p, depth + 1, root);
}

static int parse_selections(struct parser *p, unsigned depth, bool root) {
        int r = expect_mark(p, '{');

        if (r == 0 && depth >= GRAPHQL_DEPTH_MAX)
                return bad(p, "it is nested too deeply");
        if (r == 0 && at_mark(p, '}'))
                return bad_syntax(p);
        while (r == 0 && !take_mark(p, '}')) {
                bool spread = p->next.kind == TOKEN_SPREAD;
                if (spread)
                        (void)take(p);
                r = spread ? parse_spread(p, depth, root) : parse_field(p, depth, root);
        }
        return r;
}

/* --- definitions --- */

static int parse_operation(struct parser *p, struct definition *d) {
        struct str type;
        int r = 0;

        if (!at_mark(p, '{')) {
                r = expect_name(p, &type);
                if (r < 0)
                        return r;
                d->mutation = str_is(type, "mutation");
                d->subscription = str_is(type, "subscription");
                if (!d->mutation && !d->subscription && !str_is(type, "query"))
                        return bad(p, "it defines something else than operations and fragments");
                if (p->next.kind == TOKEN_NAME)
                        d->name = take(p).text;
                r = parse_variables(p);
                if (r == 0 && at_mark(p, '@'))
                        return bad(p, "it has a directive on an operation");
        }
        return r < 0 ? r : parse_selections(p, 0, true);
}

static int parse_fragment(struct parser *p, struct definition *d) {
        struct str word;
        int r;

        (void)take(p);
        d->fragment = true;
        r = expect_name(p, &d->name);
        if (r == 0 && str_is(d->name, "on"))
                return bad_syntax(p);
        r = r < 0 ? r : expect_name(p, &word);
        if (r == 0 && !str_is(word, "on"))
                return bad_syntax(p);
        r = r < 0 ? r : expect_name(p, &word);
        r = r < 0 ? r : parse_directives(p, false, true);
        return r < 0 ? r : parse_selections(p, 0, true);
}

static int parse_document(struct parser *p) {
        p->next = graphql_lex(&p->left);
        while (p->next.kind != TOKEN_END) {
                struct definition *d = &p->definitions[p->n_definitions];
                if (p->n_definitions == GRAPHQL_DEFINITIONS_MAX)
                        return bad(p, "it has too many operations and fragments");
                *d = (struct definition){ .first = p->selections.n };
                bool fragment = p->next.kind == TOKEN_NAME && str_is(p->next.text, "fragment");
                int r = fragment ? parse_fragment(p, d) : parse_operation(p, d);
                if (r < 0)
                        return r;
                d->n = p->selections.n - d->first;
                p->n_definitions++;
        }
        return p->n_definitions ? 0 : bad_syntax(p);
}

/* --- what runs --- */

static int check_names(struct parser *p) {
        size_t operations = 0, nameless = 0;

        for (size_t i = 0; i < p->n_definitions; i++) {
                const struct definition *d = &p->definitions[i];
                operations += !d->fragment;
                nameless += !d->fragment && d->name.n == 0;
                for (size_t k = 0; k < i; k++)
                        if (d->name.n > 0 && p->definitions[k].fragment == d->fragment &&
                            str_eq(p->definitions[k].name, d->name))
                                return bad(p, "it uses one name twice");
        }
        if (nameless > 0 && operations > 1)
                return bad(p, "it has several operations, and one of them no name");
        return operations > 0 ? 0 : bad(p, "it has no operation");
}

/* By name; without one, the only operation there is. */
static const struct definition *find_operation(const struct parser *p, struct str name) {
        const struct definition *found = NULL;

        for (size_t i = 0; i < p->n_definitions; i++) {
                const struct definition *d = &p->definitions[i];
                if (d->fragment || (name.n > 0 && !str_eq(d->name, name)))
                        continue;
                if (found)
                        return NULL;
                found = d;
        }
        return found;
}

static struct definition *find_fragment(struct parser *p, struct str name) {
        for (size_t i = 0; i < p->n_definitions; i++)
                if (p->definitions[i].fragment && str_eq(p->definitions[i].name, name))
                        return &p->definitions[i];
        return NULL;
}

/* Fields at the root, those of fragments included; each fragment once, however often it is spread. */
static int collect(struct parser *p, const struct definition *d, bool seen[static GRAPHQL_DEFINITIONS_MAX]) {
        for (size_t i = d->first; i < d->first + d->n; i++) {
                const struct selection *s = &p->selections.p[i];
                if (!s->spread) {
                        if (vec_push(&p->out->fields, s->name) < 0)
                                return -ENOMEM;
                        continue;
                }
                struct definition *fragment = find_fragment(p, s->name);
                if (!fragment)
                        return bad(p, "it spreads a fragment that it does not have");
                if (seen[fragment - p->definitions])
                        continue;
                seen[fragment - p->definitions] = true;
                int r = collect(p, fragment, seen);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int find_fields(struct parser *p, struct str operation) {
        bool seen[GRAPHQL_DEFINITIONS_MAX] = { 0 };
        int r = check_names(p);

        if (r < 0)
                return r;
        const struct definition *chosen = find_operation(p, operation);
        if (!chosen)
                return bad(p, operation.n > 0 ? "it has no operation of the name that the request chooses"
                                              : "it has several operations, and the request chooses none");
        if (chosen->subscription)
                return bad(p, "it is a subscription");
        p->out->mutation = chosen->mutation;
        r = collect(p, chosen, seen);
        if (r == 0 && p->out->fields.n == 0)
                return bad(p, "it asks for nothing");
        return r;
}

int graphql_read(struct str document, struct str operation, struct graphql *ret) {
        struct parser p = { .left = document, .out = ret };

        *ret = (struct graphql){ 0 };
        if (document.n > GRAPHQL_DOCUMENT_MAX)
                return bad(&p, "it is longer than 64 KiB");
        int r = parse_document(&p);
        r = r < 0 ? r : find_fields(&p, operation);
        vec_done(&p.selections);
        return r;
}

void graphql_done(struct graphql *g) {
        vec_done(&g->fields);
}
