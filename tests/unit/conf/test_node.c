/* SPDX-License-Identifier: Apache-2.0 */
#include "base/emit.h"
#include "conf/json.h"
#include "conf/yaml.h"

#include "base/cleanup.h"

#include "../cmocka_all.h"

#include <errno.h>

static void reads_yaml(void **state) {
        (void)state;
        static const char text[] =
            "# a comment\nmode: read-only\nnetwork:\n  allow: [\"@github\", b.example.com]\n  deny:\n  - x\n"
            "empty:\nlist: []\nquoted: \"null\"\n";
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        assert_int_equal(yaml_read(str_of(text), STR("p.yaml"), &d, &e), 0);
        const struct node *root = document_root(d);
        assert_int_equal(root->kind, NODE_MAP);
        assert_int_equal(root->n, 5);
        const struct node *mode = node_get(root, STR("mode"));
        assert_true(str_is(mode->text, "read-only"));
        assert_int_equal(mode->line, 2);
        assert_int_equal(mode->column, 7);
        assert_int_equal(mode->key_column, 1);
        const struct node *allow = node_get(node_get(root, STR("network")), STR("allow"));
        assert_int_equal(allow->kind, NODE_LIST);
        assert_int_equal(allow->n, 2);
        cleanup(free_ptr) char *origin = node_origin(d, allow->first->next);
        assert_string_equal(origin, "p.yaml:4:22");
        assert_int_equal(node_get(root, STR("empty"))->kind, NODE_NULL);
        assert_int_equal(node_get(root, STR("list"))->kind, NODE_LIST);
        assert_int_equal(node_get(root, STR("quoted"))->kind, NODE_SCALAR);
        assert_null(node_get(root, STR("none")));
}

static void reads_nothing(void **state) {
        (void)state;
        static const char *const texts[] = { "", "# only a comment\n", "---\n...\n" };
        for (size_t i = 0; i < 3; i++) {
                cleanup(document_freep) struct document *d = NULL;
                assert_int_equal(yaml_read(str_of(texts[i]), STR("p"), &d, NULL), 0);
                assert_true(!document_root(d) || document_root(d)->kind == NODE_NULL);
        }
}

static void refuses_yaml(void **state) {
        (void)state;
        static const struct {
                const char *text, *says;
        } cases[] = {
                { "a: 1\nb: 2\na: 3\n", "f:3:1: key 'a' is there twice: it is on line 1 already" },
                { "a: &x 1\n", "f:1:4: anchors ('&') are not read" },
                { "a: *x\n", "f:1:4: aliases ('*') are not read; if a pattern is meant, put it in quotes" },
                { "allow: [*.example.com]\n", "a pattern that starts with '*' needs quotes" },
                { "a: 1\nallow: [\xc3\xa9, @github]\n",
                  "f:2:12: not valid YAML: found character that cannot start any token while "
                  "scanning for the next token on line 2; the name of a group needs quotes: \"@github\"" },
                { "a: !!str 1\n", "f:1:4: tags ('!') are not read" },
                { "<<: 1\n", "f:1:1: merge keys ('<<') are not read" },
                { "a: 1\n---\nb: 2\n", "f:2:1: a second document" },
                { "%TAG ! tag:example.com,2000:\n---\na: 1\n", "f:1:1: tag directives ('%TAG') are not read" },
                { "? [a, b]\n: 1\n", "f:1:3: a key must be a single word, not a list" },
                { "a: [1, 2\n",
                  "f:2:1: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence" },
                { "a:\n\tb: 1\n", "; indent with spaces, not with tabs" },
                { "a: \"\\0\"\n", "f:1:4: a NUL character" },
                { "ok: 1\nx: \xff\n", "f:2:4: byte 0xff is not UTF-8 text; is this a policy file?" },
                { "\x7f"
                  "ELF",
                  "f:1:1: control character 0x7f; is this a policy file?" },
                { "a: \xc3\xa9\x01", "f:1:5: control character 0x01" },
                { "{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{", "f:1:" },
                { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "f:1:33: nested deeper than 32 levels" },
                { "a: b: c", "f:1:5: not valid YAML: mapping values are not allowed in this context" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                cleanup(document_freep) struct document *d = NULL;
                struct err e = { 0 };
                assert_int_equal(yaml_read(str_of(cases[i].text), STR("f"), &d, &e), -EINVAL);
                assert_null(d);
                if (!strstr(e.text, cases[i].says))
                        fail_msg("case %zu: %s", i, e.text);
        }
}

static void refuses_sizes(void **state) {
        (void)state;
        cleanup(buf_done) struct buf big = BUF(16 << 20);
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        while (big.n < 10 << 20)
                assert_int_equal(buf_add(&big, "- some.host.example.com\n"), 0);
        assert_int_equal(yaml_read(buf_str(&big), STR("big.yaml"), &d, &e), -EFBIG);
        assert_non_null(strstr(e.text, "big.yaml:1:1: the file has 10485768 bytes, more than 4194304"));
        assert_int_equal(json_read(buf_str(&big), STR("big.json"), &d, &e), -EFBIG);
        buf_clear(&big);
        while (big.n < 2 << 20)
                assert_int_equal(buf_add(&big, "- a\n"), 0);
        assert_int_equal(yaml_read(buf_str(&big), STR("many.yaml"), &d, &e), -EINVAL);
        assert_non_null(strstr(e.text, "more than 262144 values"));
        /* A single line of brackets, four megabytes of it, is over at the depth limit. */
        buf_clear(&big);
        while (big.n < 4 << 20)
                assert_int_equal(buf_add_char(&big, '['), 0);
        assert_int_equal(yaml_read(buf_str(&big), STR("deep"), &d, &e), -EINVAL);
        assert_int_equal(json_read(buf_str(&big), STR("deep"), &d, &e), -EINVAL);
}

static void finds_duplicates_in_large_maps(void **state) {
        (void)state;
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        for (int i = 0; i < 1000; i++)
                assert_int_equal(buf_printf(&text, "key%d: 1\n", i), 0);
        assert_int_equal(yaml_read(buf_str(&text), STR("f"), &d, &e), 0);
        assert_int_equal(buf_add(&text, "key500: 1\n"), 0);
        cleanup(document_freep) struct document *again = NULL;
        assert_int_equal(yaml_read(buf_str(&text), STR("f"), &again, &e), -EINVAL);
        assert_string_equal(e.text, "f:1001:1: key 'key500' is there twice: it is on line 501 already");
}

static void escapes_names(void **state) {
        (void)state;
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        assert_int_equal(yaml_read(STR("\"\x1b"), STR("\x1b[2Jx.yaml"), &d, &e), -EINVAL);
        assert_null(strchr(e.text, '\x1b'));
        assert_int_equal(yaml_read(STR("\"a\\eb\": 1\n\"a\\eb\": 1\n"), STR("f"), &d, &e), -EINVAL);
        assert_string_equal(e.text, "f:2:1: key 'a\\x1bb' is there twice: it is on line 1 already");
}

static void reads_json(void **state) {
        (void)state;
        cleanup(document_freep) struct document *d = NULL;
        struct err e = { 0 };
        assert_int_equal(json_read(STR("{\"a\": [1, true, null, \"x\", 1.5], \"b\": {}}"), STR("f"), &d, &e), 0);
        const struct node *a = node_get(document_root(d), STR("a")), *n = a->first;
        assert_int_equal(a->n, 5);
        assert_true(str_is(n->text, "1") && !n->quoted);
        assert_true(str_is(n->next->text, "true"));
        assert_int_equal(n->next->next->kind, NODE_NULL);
        assert_true(str_is(n->next->next->next->text, "x") && n->next->next->next->quoted);
        assert_true(str_is(a->last->text, "1.5"));
        assert_int_equal(node_get(document_root(d), STR("b"))->kind, NODE_MAP);
}

static void refuses_json(void **state) {
        (void)state;
        static const struct {
                const char *text, *says;
        } cases[] = {
                { "{\"a\":1,\n\"a\":2}", "f:2:3: not valid JSON: duplicate object key near '\"a\"'" },
                { "{", "f:1:1: not valid JSON" },
                { "", "f:1:1: not valid JSON" },
                { "{} x", "f:1:4: not valid JSON: end of file expected" },
                { "[\"\xff\"]", "f:1:2: not valid JSON: unable to decode byte 0xff" },
                { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "nested deeper than 32" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                cleanup(document_freep) struct document *d = NULL;
                struct err e = { 0 };
                assert_int_equal(json_read(str_of(cases[i].text), STR("f"), &d, &e), -EINVAL);
                if (!strstr(e.text, cases[i].says))
                        fail_msg("case %zu: %s", i, e.text);
        }
}

static void writes_json(void **state) {
        (void)state;
        cleanup(buf_done) struct buf out = BUF(4096);
        struct emit j = emit_to(&out);
        emit_open(&j, '{');
        emit_put_text(&j, "a", "x\"y\n");
        emit_key(&j, "b");
        emit_open(&j, '[');
        emit_number(&j, 1);
        emit_bool(&j, true);
        emit_text(&j, NULL);
        emit_open(&j, '{');
        emit_close(&j);
        emit_close(&j);
        emit_put_number(&j, "c", UINT64_MAX);
        emit_put_bool(&j, "d", false);
        assert_int_equal(emit_status(&j), -EINVAL); /* one bracket is open */
        emit_close(&j);
        assert_int_equal(emit_status(&j), 0);
        assert_string_equal(buf_text(&out),
                            "{\"a\":\"x\\\"y\\n\",\"b\":[1,true,null,{}],\"c\":18446744073709551615,\"d\":false}");
        emit_close(&j);
        assert_int_equal(emit_status(&j), -EINVAL);

        cleanup(buf_done) struct buf small = BUF(4);
        struct emit full = emit_to(&small);
        emit_string(&full, STR("does not fit"));
        emit_null(&full);
        assert_int_equal(emit_status(&full), -EMSGSIZE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads_yaml),    cmocka_unit_test(reads_nothing),
                cmocka_unit_test(refuses_yaml),  cmocka_unit_test(refuses_sizes),
                cmocka_unit_test(escapes_names), cmocka_unit_test(finds_duplicates_in_large_maps),
                cmocka_unit_test(reads_json),    cmocka_unit_test(refuses_json),
                cmocka_unit_test(writes_json),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
