/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/vec.h"
#include "sbpl.h"

#include <regex.h>

enum node_kind { NODE_LIST, NODE_WORD, NODE_STRING, NODE_REGEX };

struct node {
        enum node_kind kind;
        int line;
        char *text;
        size_t n_text;
        VEC(struct node *) items;
        regex_t *compiled;              /* of a NODE_REGEX */
        const struct filter_word *word; /* of a filter */
};

struct rule {
        bool allows;
        const char *operation;
        VEC(const struct node *) filters; /* any of them */
        int line;
};

struct definition {
        const char *name;
        struct node *value;
};

struct sbpl {
        VEC(struct node *) nodes; /* all that were made */
        VEC(struct node *) forms; /* top level */
        VEC(struct definition) definitions;
        VEC(struct rule) rules;
        const struct sbpl_parameter *parameters;
};

int sbpl_read(struct sbpl *s, struct str text, struct err *e);
/* A text, a parameter or a definition: what it stands for, NULL when it is none. */
const struct node *sbpl_value(const struct sbpl *s, const struct node *node);
const char *sbpl_text(const struct sbpl *s, const struct node *node);
bool sbpl_matches(const struct sbpl *s, const struct node *filter, const struct sbpl_question *q);
/* 0, or -EINVAL for a filter that the language does not have in this form. */
int sbpl_check_filter(const struct sbpl *s, struct node *filter, struct err *e);
