/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/cases/config: good/NAME.yaml gives good/NAME.policy when it is loaded alone and shown; bad/NAME.yaml gives the
 * one line in bad/NAME.error. A new case is a new pair of files; with UPDATE=1 in the environment the second one is
 * written.
 */
#include "policy/load.h"
#include "policy/show.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/paths/paths.h"

#include "../cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 20 };
typedef void case_function(const char *file, struct buf *result);

/* Loads and compiles the file, as `bailey policy check` does. */
static int load(const char *file, struct policy **ret, struct err *e) {
        struct policy_request request = { .only_file = file };
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(path_rules_freep) struct path_rules *paths = NULL;
        size_t n;
        int r = policy_load(&request, &p, e);
        r = r < 0 ? r : policy_compile_network(p, NULL, 0, &bytes, &n, e);
        r = r < 0 ? r : path_rules_compile(p, &paths, e);
        if (r == 0)
                *ret = take_ptr(&p);
        return r;
}

/* The place of the checkout differs: it is written as @HERE@. */
static void add_portable(struct buf *out, struct str text) {
        cleanup(free_ptr) char *here = realpath(".", NULL);
        size_t n = strlen(here);
        while (text.n > 0) {
                if (text.n >= n && memcmp(text.p, here, n) == 0) {
                        assert_int_equal(buf_add(out, "@HERE@"), 0);
                        text = str_skip(text, n);
                } else {
                        assert_int_equal(buf_add_char(out, text.p[0]), 0);
                        text = str_skip(text, 1);
                }
        }
}

/* Every space before a comment counts as one: columns depend on the place as well. */
static void add_squeezed(struct buf *out, struct str text) {
        for (size_t i = 0; i < text.n; i++) {
                size_t spaces = 0;
                while (i + spaces < text.n && text.p[i + spaces] == ' ')
                        spaces++;
                if (spaces > 1 && i + spaces < text.n && text.p[i + spaces] == '#')
                        i += spaces - 1;
                assert_int_equal(buf_add_char(out, text.p[i]), 0);
        }
}

static void result_of_good(const char *file, struct buf *result) {
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(buf_done) struct buf shown = BUF(TEXT_MAX), portable = BUF(TEXT_MAX), json = BUF(TEXT_MAX);
        struct err e = { 0 };
        if (load(file, &p, &e) < 0)
                fail_msg("%s: %s", file, e.text);
        assert_int_equal(policy_show_text(&shown, p, 0), 0);
        assert_int_equal(policy_show_json(&json, p, POLICY_SHOW_EXPAND), 0);
        add_portable(&portable, buf_str(&shown));
        add_squeezed(result, buf_str(&portable));
}

static void result_of_bad(const char *file, struct buf *result) {
        struct policy *p = NULL;
        struct err e = { 0 };
        int r = load(file, &p, &e);
        policy_free(p);
        if (r >= 0)
                fail_msg("%s was accepted", file);
        add_portable(result, str_of(e.text));
        assert_int_equal(buf_add_char(result, '\n'), 0);
}

static void check_case(const char *file, const char *ending, case_function *f) {
        cleanup(buf_done) struct buf result = BUF(TEXT_MAX), expected = BUF(TEXT_MAX);
        cleanup(free_ptr) char *path = str_format("%.*s%s", (int)(strlen(file) - strlen(".yaml")), file, ending);
        f(file, &result);
        if (getenv("UPDATE")) {
                assert_int_equal(path_replace_file(path, buf_str(&result), 0644, NULL), 0);
                return;
        }
        struct err e = { 0 };
        if (path_read_file(path, TEXT_MAX, &expected, &e) < 0)
                fail_msg("%s", e.text);
        if (!str_eq(buf_str(&result), buf_str(&expected)))
                fail_msg("%s\nexpected: %.*sgot:      %.*s", file, STR_FMT(buf_str(&expected)),
                         STR_FMT(buf_str(&result)));
}

static void check_all(const char *folder, const char *ending, case_function *f, size_t at_least) {
        cleanup(free_ptr) char *directory = str_format("%s/config/%s", getenv("CASES"), folder);
        size_t n = 0;
        assert_int_equal(chdir(directory), 0);
        DIR *d = opendir(".");
        assert_non_null(d);
        for (struct dirent *entry; (entry = readdir(d));) {
                if (!str_ends(str_of(entry->d_name), STR(".yaml")))
                        continue;
                check_case(entry->d_name, ending, f);
                n++;
        }
        closedir(d);
        assert_true(n >= at_least);
}

static void good_files(void **state) {
        (void)state;
        check_all("good", ".policy", result_of_good, 10);
}

static void bad_files(void **state) {
        (void)state;
        check_all("bad", ".error", result_of_bad, 50);
}

/* What is shown is a policy again, and shows the same values. */
static void shown_is_readable(void **state) {
        (void)state;
        cleanup(free_ptr) char *directory = str_format("%s/config/good", getenv("CASES"));
        char name[] = "/tmp/bailey-shown-XXXXXX";
        assert_int_equal(chdir(directory), 0);
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        close(fd);
        static const char *const files[] = { "structured.yaml", "limits.yaml", "paths.yaml", "lists-of-hosts.yaml",
                                             "minimal.yaml" };
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                cleanup(policy_freep) struct policy *p = NULL, *again = NULL;
                cleanup(buf_done) struct buf shown = BUF(TEXT_MAX), once_more = BUF(TEXT_MAX);
                struct err e = { 0 };
                assert_int_equal(load(files[i], &p, &e), 0);
                assert_int_equal(policy_show_text(&shown, p, POLICY_SHOW_DEFAULTS), 0);
                assert_int_equal(path_replace_file(name, buf_str(&shown), 0600, NULL), 0);
                if (load(name, &again, &e) < 0)
                        fail_msg("%s: %s", files[i], e.text);
                assert_int_equal(policy_show_text(&once_more, again, POLICY_SHOW_DEFAULTS), 0);
                struct str a = buf_str(&shown), b = buf_str(&once_more), line_a, line_b;
                while (str_split(&a, '\n', &line_a) && str_split(&b, '\n', &line_b)) {
                        ptrdiff_t end_a = str_rfind(line_a, '#'), end_b = str_rfind(line_b, '#');
                        line_a = end_a > 0 ? str_trim(str_first(line_a, (size_t)end_a)) : str_trim(line_a);
                        line_b = end_b > 0 ? str_trim(str_first(line_b, (size_t)end_b)) : str_trim(line_b);
                        if (!str_eq(line_a, line_b))
                                fail_msg("%s: %.*s / %.*s", files[i], STR_FMT(line_a), STR_FMT(line_b));
                }
        }
        unlink(name);
}

int main(void) {
        setenv("HOME", "/home/someone", 1);
        unsetenv("OPENAI_API_KEY"); /* with it a profile adds its credential */
        if (!getenv("CASES"))
                return 1;
        const struct CMUnitTest tests[] = { cmocka_unit_test(good_files), cmocka_unit_test(bad_files),
                                            cmocka_unit_test(shown_is_readable) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
