/* SPDX-License-Identifier: Apache-2.0 */
/* What was read and is written again reads as the same tree. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "conf/json.h"
#include "fuzz.h"

#include <errno.h>

static void write_node(struct emit *j, const struct node *n) {
        if (n->kind == NODE_NULL)
                emit_null(j);
        else if (n->kind == NODE_SCALAR)
                emit_string(j, n->text); /* numbers and booleans become text, once */
        else {
                emit_open(j, n->kind == NODE_MAP ? '{' : '[');
                for (const struct node *child = n->first; child; child = child->next) {
                        if (n->kind == NODE_MAP)
                                emit_key_str(j, child->key);
                        write_node(j, child);
                }
                emit_close(j);
        }
}

static void check_same(const struct node *a, const struct node *b) {
        FUZZ_CHECK(a->kind == b->kind && a->n == b->n);
        FUZZ_CHECK(str_eq(a->text, b->text) && str_eq(a->key, b->key));
        const struct node *y = b->first;
        for (const struct node *x = a->first; x; x = x->next, y = y->next) {
                FUZZ_CHECK(y != NULL);
                check_same(x, y);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(document_freep) struct document *d = NULL, *again = NULL;
        cleanup(buf_done) struct buf out = BUF(64 << 20);
        struct err e = { 0 };
        if (json_read(str_n(data, size), STR("input"), &d, &e) < 0) {
                FUZZ_CHECK(!d && e.code != 0 && e.text[0]);
                for (const char *c = e.text; *c; c++)
                        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
                return 0;
        }
        struct emit j = emit_to(&out);
        write_node(&j, document_root(d));
        FUZZ_CHECK(emit_status(&j) == 0);
        FUZZ_CHECK(json_read(buf_str(&out), STR("again"), &again, &e) == 0 || e.code == EFBIG);
        if (again)
                check_same(document_root(d), document_root(again));
        return 0;
}
