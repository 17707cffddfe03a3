/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tests/cases/environments.txt. */
#include "plan/env.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdio.h>

#include "../cmocka_all.h"

enum { MOST = 64 };
static const char *case_file;

struct one_case {
        char *name;
        struct env_input in;
        char *host[MOST];
        const char *pass[MOST], *set[MOST], *stand_ins[MOST], *strip[MOST];
        char *expected[MOST];
        size_t n_host, n_pass, n_set, n_expected, n_stand_ins, n_strip;
        char *owned[4 * MOST];
        size_t n_owned;
};

static char *own(struct one_case *c, struct str s) {
        assert_true(c->n_owned < sizeof c->owned / sizeof *c->owned);
        char *text = str_dup(s);
        assert_non_null(text);
        return c->owned[c->n_owned++] = text;
}

static void set_input(struct one_case *c, struct str text) {
        struct str key;
        assert_true(str_split(&text, '=', &key));
        uint64_t number = 0;
        char *value = own(c, text);
        (void)str_to_u64(text, 65535, &number);
        if (str_is(key, "http"))
                c->in.http_port = (uint16_t)number;
        else if (str_is(key, "socks"))
                c->in.socks_port = (uint16_t)number;
        else if (str_is(key, "transparent"))
                c->in.transparent = number;
        else if (str_is(key, "inside"))
                c->in.inside = number;
        else if (str_is(key, "container"))
                c->in.container = number;
        else if (str_is(key, "address"))
                c->in.proxy_address = value;
        else if (str_is(key, "bailey"))
                c->in.bailey = value;
        else if (str_is(key, "tmpdir"))
                c->in.tmpdir = value;
        else if (str_is(key, "home"))
                c->in.home = value;
        else if (str_is(key, "ca"))
                c->in.ca_bundle = value;
        else if (str_is(key, "java"))
                c->in.java_trust_store = value;
        else
                fail_msg("unknown input %.*s", STR_FMT(key));
}

static void run_case(struct one_case *c) {
        struct env env = { 0 };
        struct err e = { 0 };
        c->in.host = c->host;
        c->in.pass = c->pass;
        c->in.set = c->set;
        c->in.stand_ins = c->stand_ins;
        c->in.strip = c->strip;
        c->in.sandbox_id = "id";
        if (env_build(&c->in, &env, &e) < 0)
                fail_msg("%s: %s", c->name, err_text(&e));
        for (size_t i = 0; i < env.entries.n || i < c->n_expected; i++) {
                char got[1024] = "(nothing)";
                if (i < env.entries.n) {
                        const struct env_entry *x = &env.entries.p[i];
                        if (x->action == ENV_STRIPPED)
                                snprintf(got, sizeof got, "stripped %s (%s)", x->name, x->why);
                        else
                                snprintf(got, sizeof got, "%s %s=%s", env_action_name(x->action), x->name, x->value);
                        assert_int_equal(x->value == NULL, x->action == ENV_STRIPPED);
                }
                const char *wanted = i < c->n_expected ? c->expected[i] : "(nothing)";
                if (strcmp(got, wanted) != 0)
                        fail_msg("%s:\n  expected %s\n  got      %s", c->name, wanted, got);
        }
        cleanup(env_block_freep) char **block = NULL;
        assert_int_equal(env_block(&env, &block, &e), 0);
        size_t n = 0, given = 0;
        while (block[n])
                n++;
        for (size_t i = 0; i < env.entries.n; i++)
                given += env.entries.p[i].action != ENV_STRIPPED;
        assert_int_equal(n, given);
        env_done(&env);
        for (size_t i = 0; i < c->n_owned; i++)
                free(c->owned[i]);
        *c = (struct one_case){ 0 };
}

static void add_line(struct one_case *c, struct str line) {
        struct str rest = line, word;
        assert_true(str_split(&rest, ' ', &word));
        assert_true(c->n_host < MOST - 1 && c->n_pass < MOST - 1 && c->n_set < MOST - 1 && c->n_expected < MOST - 1);
        if (str_is(word, "input"))
                set_input(c, rest);
        else if (str_is(word, "host"))
                c->host[c->n_host++] = own(c, rest);
        else if (str_is(word, "pass"))
                c->pass[c->n_pass++] = own(c, rest);
        else if (str_is(word, "stand-in"))
                c->stand_ins[c->n_stand_ins++] = own(c, rest);
        else if (str_is(word, "strip"))
                c->strip[c->n_strip++] = own(c, rest);
        else if (str_is(word, "policy"))
                c->set[c->n_set++] = own(c, rest);
        else
                c->expected[c->n_expected++] = own(c, line);
}

static void cases(void **state) {
        (void)state;
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        assert_int_equal(path_read_file(case_file, 1 << 20, &text, NULL), 0);
        struct str rest = buf_str(&text), line;
        static struct one_case c;
        unsigned n = 0;
        while (str_split(&rest, '\n', &line)) {
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                if (str_starts(line, STR("case "))) {
                        if (c.name)
                                run_case(&c);
                        c.name = own(&c, str_skip(line, 5));
                        n++;
                        continue;
                }
                add_line(&c, line);
        }
        run_case(&c);
        assert_true(n >= 8);
}

static void bad_settings_are_errors(void **state) {
        (void)state;
        static const char *const bad[] = { "NOEQUALS", "=x", "A B=x", "1A=x", "A-B=x", "\x1b[2J=x" };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                const char *set[] = { bad[i], NULL };
                const struct env_input in = { .set = set };
                struct env env = { 0 };
                struct err e = { 0 };
                assert_int_equal(env_build(&in, &env, &e), -EINVAL);
                assert_null(strchr(e.text, '\x1b'));
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(cases), cmocka_unit_test(bad_settings_are_errors) };
        if (argc != 2)
                return 2;
        case_file = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
