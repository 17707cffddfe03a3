/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/pattern.h"

#include "../cmocka_all.h"
#include "cases.h"
#include "policy/match/glob.h"

#include <errno.h>
#include <stdio.h>

static void canonical(const struct pattern *p, char *ret, size_t n) {
        char net[CIDR_TEXT_MAX];
        if (p->kind == PATTERN_NET)
                cidr_text(&p->net, net);
        snprintf(ret, n, "%s%s:%u-%u", p->kind == PATTERN_WILDCARD ? "*." : "",
                 p->kind == PATTERN_NET ? net : p->host.name, p->port_first, p->port_last);
}

/* TEXT CANONICAL | TEXT error WORDS */
static bool pattern_case(const struct case_line *c, void *context) {
        (void)context;
        struct pattern p = { .kind = 77 };
        struct err e = { 0 };
        char text[400];
        int r = pattern_parse_user(c->field[0], &p, &e);
        if (str_is(c->field[1], "error")) {
                if (r != -EINVAL || p.kind != 77)
                        return case_failed(c, "returned %d", r);
                if (c->field[0].n && !strstr(e.text, "pattern '"))
                        return case_failed(c, "does not show the pattern: %s", e.text);
                return memmem(e.text, strlen(e.text), c->field[2].p, c->field[2].n) ||
                       case_failed(c, "says: %s", e.text);
        }
        if (r < 0)
                return case_failed(c, "refused: %s", e.text);
        canonical(&p, text, sizeof text);
        return str_is(c->field[1], text) || case_failed(c, "is %s", text);
}

static void patterns(void **state) {
        (void)state;
        cases_run("patterns.txt", pattern_case, NULL);
}

/* PATTERN yes|no AUTHORITY */
static bool match_case(const struct case_line *c, void *context) {
        (void)context;
        struct pattern p;
        struct authority a;
        assert_int_equal(pattern_parse(c->field[0], &p, NULL), 0);
        assert_int_equal(authority_parse(c->field[2], 443, &a, NULL), 0);
        return pattern_matches(&p, &a.host, a.port) == str_is(c->field[1], "yes") || case_failed(c, "wrong");
}

static void matches(void **state) {
        (void)state;
        cases_run("pattern_matches.txt", match_case, NULL);
}

/* GLOB yes|no PATH */
static bool glob_case(const struct case_line *c, void *context) {
        (void)context;
        return glob_match(c->field[0], c->field[2]) == str_is(c->field[1], "yes") || case_failed(c, "wrong");
}

static void globs(void **state) {
        (void)state;
        cases_run("globs.txt", glob_case, NULL);
}

/* Patterns that take others exponential time. A failure here is a test that does not end. */
static void globs_end(void **state) {
        (void)state;
        enum { N = 400 };
        char pattern[4 * N], path[4 * N];
        for (size_t i = 0; i < N; i++)
                memcpy(pattern + 2 * i, "a*", 2);
        memset(path, 'a', sizeof path);
        path[sizeof path - 1] = 'b';
        pattern[2 * N - 1] = 'c';
        assert_false(glob_match(str_n(pattern, 2 * N), str_n(path, sizeof path)));
        for (size_t i = 0; i < sizeof path; i += 2)
                path[i] = '/';
        for (size_t i = 0; i + 5 <= sizeof pattern; i += 5)
                memcpy(pattern + i, "/**/a", 5);
        pattern[sizeof pattern - 1] = 'x';
        assert_false(glob_match(str_n(pattern, sizeof pattern), str_n(path, sizeof path)));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(patterns),
                cmocka_unit_test(matches),
                cmocka_unit_test(globs),
                cmocka_unit_test(globs_end),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
