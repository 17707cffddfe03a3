/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is accepted is a tree within the limits with a place for every node; whatever is refused has a printable
 * reason. */
#include "base/cleanup.h"
#include "conf/yaml.h"
#include "fuzz.h"

static size_t check_tree(const struct node *n, unsigned depth) {
        size_t children = 0, nodes = 1;
        FUZZ_CHECK(depth <= NODE_DEPTH_MAX + 1);
        FUZZ_CHECK(n->line > 0 && n->column > 0);
        FUZZ_CHECK(!str_has_nul(n->text) && !str_has_nul(n->key));
        FUZZ_CHECK(n->kind == NODE_LIST || n->kind == NODE_MAP || !n->first);
        for (const struct node *child = n->first; child; child = child->next) {
                FUZZ_CHECK(n->kind != NODE_MAP || (child->key_line > 0 && node_get(n, child->key) == child));
                nodes += check_tree(child, depth + 1);
                children++;
        }
        FUZZ_CHECK(children == n->n);
        return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        if (yaml_read(str_n(data, size), STR("input"), &d, &e) < 0) {
                FUZZ_CHECK(!d && e.code != 0);
                FUZZ_CHECK(strncmp(e.text, "input:", 6) == 0);
                for (const char *c = e.text; *c; c++)
                        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
                return 0;
        }
        if (document_root(d))
                FUZZ_CHECK(check_tree(document_root(d), 1) <= NODE_COUNT_MAX);
        return 0;
}
