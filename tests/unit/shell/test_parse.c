/* SPDX-License-Identifier: Apache-2.0 */
/* The shell parser: case files of programs it must accept and refuse, and what the tree says about some. */
#include "shell/ast.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>

static const char *accept_file, *refuse_file;

static int parse(struct str source) {
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        return sh_parse(source, &tree, NULL);
}

/* Every case between two lines of %%; returns how many there were. */
static size_t run_cases(const char *path, int expected) {
        cleanup(buf_done) struct buf file = BUF(0);
        struct err e = { 0 };
        size_t n = 0, wrong = 0;
        if (path_read_file(path, 1 << 20, &file, &e) < 0)
                fail_msg("%s", err_text(&e));
        const char *at = strstr(buf_text(&file), "\n%%\n"), *next;
        for (; at && (next = strstr(at + 3, "\n%%\n")); at = next, n++) {
                struct str program = str_n(at + 4, (size_t)(next + 1 - (at + 4)));
                int r = parse(program);
                if (r != expected) {
                        wrong++;
                        print_error("%s: returned %d:\n%.*s\n", path, r, STR_FMT(program));
                }
        }
        assert_int_equal(wrong, 0);
        return n;
}

static void accepts_what_is_a_program(void **state) {
        (void)state;
        assert_in_range(run_cases(accept_file, 0), 35, 10000);
}

static void refuses_what_is_none(void **state) {
        (void)state;
        assert_in_range(run_cases(refuse_file, -EINVAL), 30, 10000);
}

static const struct sh_command *first_command(const struct sh_tree *tree) {
        return sh_tree_list(tree)->pipelines->commands;
}

static void quotes_are_removed_and_remembered(void **state) {
        (void)state;
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        assert_int_equal(sh_parse(STR("r\\m -'r'f \"/\"$'\\x2f' $x"), &tree, NULL), 0);
        const struct sh_word *w = first_command(tree)->words;
        assert_true(w->quoted);
        assert_true(str_is(w->parts->text, "r") && str_is(w->parts->next->text, "m") && w->parts->next->quoted);
        w = w->next->next;
        assert_true(str_is(w->parts->text, "//") && !w->parts->next);
        w = w->next;
        assert_int_equal(w->parts->kind, SH_PARAMETER);
        assert_true(str_is(w->parts->text, "x"));
}

static void here_documents_are_data(void **state) {
        (void)state;
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        assert_int_equal(sh_parse(STR("cat <<'E' <<F\nrm -rf / $(x)\nE\n$(y)\nF\nnext"), &tree, NULL), 0);
        const struct sh_redirect *r = first_command(tree)->redirects;
        assert_int_equal(r->kind, SH_HERE_DOCUMENT);
        assert_true(r->target->parts->kind == SH_LITERAL && !r->target->parts->next);
        assert_true(str_is(r->target->parts->text, "rm -rf / $(x)\n"));
        assert_int_equal(r->next->target->parts->kind, SH_COMMAND);
        assert_true(str_is(sh_tree_list(tree)->pipelines->next->commands->words->raw, "next"));
}

static void backquotes_hold_a_program(void **state) {
        (void)state;
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        assert_int_equal(sh_parse(STR("echo `rm \\`x\\`` `if`"), &tree, NULL), 0);
        const struct sh_word *w = first_command(tree)->words->next;
        const struct sh_command *inner = w->parts->list->pipelines->commands;
        assert_true(str_is(inner->words->raw, "rm"));
        assert_int_equal(inner->words->next->parts->kind, SH_COMMAND);
        assert_int_equal(w->next->parts->kind, SH_OPAQUE);
}

static void limits_hold(void **state) {
        (void)state;
        cleanup(buf_done) struct buf deep = BUF(1 << 21);
        for (int i = 0; i < 5000; i++)
                assert_int_equal(buf_add(&deep, "$("), 0);
        assert_int_equal(parse(buf_str(&deep)), -E2BIG);
        buf_clear(&deep);
        for (int i = 0; i < 5000; i++)
                assert_int_equal(buf_add(&deep, "$(("), 0);
        assert_true(parse(buf_str(&deep)) < 0);
        buf_clear(&deep);
        while (buf_add(&deep, "a b\n") == 0 && deep.n <= 1 << 20)
                ;
        assert_int_equal(parse(buf_str(&deep)), -E2BIG);
        assert_int_equal(parse(str_n("a\0b", 3)), -EINVAL);
        assert_int_equal(parse(STR("")), 0);
        assert_int_equal(parse(STR("\n\n# only a comment")), 0);
}

int main(int argc, char **argv) {
        if (argc != 3)
                return 2;
        accept_file = argv[1];
        refuse_file = argv[2];
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(accepts_what_is_a_program),         cmocka_unit_test(refuses_what_is_none),
                cmocka_unit_test(quotes_are_removed_and_remembered), cmocka_unit_test(here_documents_are_data),
                cmocka_unit_test(backquotes_hold_a_program),         cmocka_unit_test(limits_hold),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
