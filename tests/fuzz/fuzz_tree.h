/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* For readers that give trees with places: conf/jsonc.h, conf/toml.h, conf/starlark.h. */
#include "base/cleanup.h"
#include "conf/node.h"
#include "fuzz.h"

static inline size_t fuzz_tree_check(const struct node *n, unsigned depth) {
        size_t children = 0, nodes = 1;

        FUZZ_CHECK(depth <= 2 * NODE_DEPTH_MAX);
        FUZZ_CHECK(n->line > 0 && n->column > 0);
        FUZZ_CHECK(!str_has_nul(n->text) && !str_has_nul(n->key));
        FUZZ_CHECK(n->kind == NODE_LIST || n->kind == NODE_MAP || !n->first);
        for (const struct node *child = n->first; child; child = child->next) {
                FUZZ_CHECK(n->kind != NODE_MAP || (child->key_line > 0 && node_get(n, child->key) == child));
                nodes += fuzz_tree_check(child, depth + 1);
                children++;
        }
        FUZZ_CHECK(children == n->n);
        return nodes;
}

typedef int fuzz_reader(struct str text, struct str name, struct document **ret, struct err *err);

static inline int fuzz_tree(fuzz_reader *read, const uint8_t *data, size_t size) {
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };

        if (read(str_n(data, size), STR("input"), &d, &e) < 0) {
                FUZZ_CHECK(!d && e.code != 0);
                FUZZ_CHECK(strncmp(e.text, "input:", 6) == 0);
                for (const char *c = e.text; *c; c++)
                        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
                return 0;
        }
        FUZZ_CHECK(document_root(d) && fuzz_tree_check(document_root(d), 1) <= NODE_COUNT_MAX);
        return 0;
}
