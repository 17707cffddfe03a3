/* SPDX-License-Identifier: Apache-2.0 */
/* Path policies and what they say, from tests/cases/paths.txt; the format is explained there. */
#include "base/paths/path.h"
#include "policy/paths/asks.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "cases.h"
#include "policy/match/glob.h"
#include "policy/paths/paths_builtin.h"

#include <errno.h>

struct paths_under_test {
        struct policy policy;
        struct path_rules *rules;
};

static void texts_done(origin_texts *texts) {
        for (size_t i = 0; i < texts->n; i++) {
                free(texts->p[i].text);
                free(texts->p[i].origin);
        }
        vec_done(texts);
}

static void forget(struct paths_under_test *t) {
        path_rules_free(t->rules);
        free(t->policy.workspace);
        free(t->policy.home);
        texts_done(&t->policy.filesystem.read);
        texts_done(&t->policy.filesystem.write);
        texts_done(&t->policy.filesystem.deny_read);
        texts_done(&t->policy.filesystem.deny_write);
        texts_done(&t->policy.filesystem.ask);
        *t = (struct paths_under_test){ 0 };
}

static bool start_policy(struct paths_under_test *t, const struct case_line *c) {
        static const char *const modes[] = { "read-only", "workspace-write", "workspace-write-whitelist",
                                             "full-network" };
        forget(t);
        t->policy.workspace = str_dup(c->field[2]);
        t->policy.home = str_dup(c->field[3]);
        t->policy.filesystem.reads_denied = str_is(c->field[4], "reads-denied");
        for (size_t i = 0; i < MODES; i++)
                if (str_is(c->field[1], modes[i])) {
                        t->policy.mode = (enum policy_mode)i;
                        return true;
                }
        return case_failed(c, "no such mode");
}

static origin_texts *list_of(struct paths_under_test *t, struct str name) {
        if (str_is(name, "read"))
                return &t->policy.filesystem.read;
        if (str_is(name, "write"))
                return &t->policy.filesystem.write;
        if (str_is(name, "ask"))
                return &t->policy.filesystem.ask;
        if (str_is(name, "deny_read"))
                return &t->policy.filesystem.deny_read;
        return str_is(name, "deny_write") ? &t->policy.filesystem.deny_write : NULL;
}

static bool path_case(const struct case_line *c, void *context) {
        struct paths_under_test *t = context;
        struct err e = { 0 };
        if (str_is(c->field[0], "policy"))
                return start_policy(t, c);
        origin_texts *list = list_of(t, c->field[0]);
        if (list) {
                assert_null(t->rules);
                struct origin_text text = { str_dup(c->field[1]), str_dup(c->field[0]) };
                return vec_push(list, text) == 0;
        }
        if (str_is(c->field[0], "refused")) {
                int r = path_rules_compile(&t->policy, &t->rules, &e);
                if (r != -EINVAL || t->rules)
                        return case_failed(c, "returned %d", r);
                return memmem(e.text, strlen(e.text), c->field[1].p, c->field[1].n) ||
                       case_failed(c, "says: %s", e.text);
        }
        if (!t->rules && path_rules_compile(&t->policy, &t->rules, &e) < 0)
                return case_failed(c, "%s", e.text);
        cleanup(free_ptr) char *path = str_dup(c->field[0]);
        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_access(t->rules, path, &rule);
        const char *pattern = rule ? rule->pattern : "-";

        if (asks_about_reading(&t->policy, t->rules, path, &e) > 0)
                return (str_is(c->field[1], "ask") && str_is(c->field[2], asks_covering(&t->policy, path)->text)) ||
                       case_failed(c, "asked about");

        return (str_is(c->field[1], path_access_name(access)) && str_is(c->field[2], pattern)) ||
               case_failed(c, "%s by %s", path_access_name(access), pattern);
}

static void paths(void **state) {
        (void)state;
        struct paths_under_test t = { 0 };
        cases_run("paths.txt", path_case, &t);
        forget(&t);
}

static void least_specific_first(void **state) {
        (void)state;
        struct policy p = { .mode = MODE_WORKSPACE_WRITE, .workspace = (char *)"/w", .home = (char *)"/home/u" };
        cleanup(path_rules_freep) struct path_rules *r = NULL;
        assert_int_equal(path_rules_compile(&p, &r, NULL), 0);
        assert_true(path_rules_reads_open(r));
        size_t n = path_rules_count(r), depth = 0, protected = 0;
        for (size_t i = 0; i < n; i++) {
                const struct path_rule *rule = path_rules_at(r, i);
                size_t slashes = 0;
                for (const char *c = rule->pattern; *c; c++)
                        slashes += *c == '/';
                assert_true(slashes >= depth);
                depth = slashes;
                assert_true(strncmp(rule->origin, "built in: ", 10) == 0);
                protected += rule->protected;
                assert_false(rule->protected && rule->grants);
                /* The tables' names are joined as they are: they must be normal already. */
                cleanup(free_ptr) char *normal = NULL;
                assert_int_equal(path_normalise(str_of(rule->pattern), NULL, &normal), 0);
                assert_string_equal(normal, rule->pattern);
        }
        /* All of the workspace, none of the home directory, which is not writable anyway. */
        assert_int_equal(protected, builtin_protected_n);
}

/*
 * What paths.h says, by the longest way: every rule, every beginning of the path.
 */
static long holds_at(const struct path_rule *rule, const char *path) {
        long depth = 0;

        if (strcmp(rule->pattern, "/") == 0)
                return 0;

        for (size_t i = 1; path[1]; i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;

                struct str part = str_n(path, i);
                depth++;
                if (rule->is_glob ? glob_match(str_of(rule->pattern), part) : str_is(part, rule->pattern))
                        return depth;
                if (path[i] == '\0')
                        break;
        }

        return -1;
}

static bool comes_before(const struct path_rule *a, long a_depth, const struct path_rule *b, long b_depth) {
        if (a_depth != b_depth)
                return a_depth > b_depth;
        if (a->is_glob != b->is_glob)
                return b->is_glob;
        if (a->built_in != b->built_in)
                return b->built_in;
        return !a->grants && b->grants;
}

static enum path_access defined_access(const struct path_rule *list, size_t n, const char *path) {
        const struct path_rule *best[2] = { NULL, NULL }; /* about reading, about writing */
        long depth[2] = { -1, -1 };

        for (size_t i = 0; i < n; i++) {
                long at = holds_at(&list[i], path);
                bool about[2] = { list[i].decides_read || list[i].grants, !list[i].decides_read || !list[i].grants };

                for (int k = 0; k < 2; k++) {
                        if (at < 0 || !about[k] || (best[k] && !comes_before(&list[i], at, best[k], depth[k])))
                                continue;
                        best[k] = &list[i];
                        depth[k] = at;
                }
        }

        if (best[0] && !best[0]->grants)
                return PATH_DENIED;
        return best[1] && best[1]->grants ? PATH_WRITE : PATH_READ;
}

static unsigned next_number(unsigned *state, unsigned below) {
        *state = *state * 1103515245 + 12345;
        return (*state >> 16) % below;
}

static char *random_path(unsigned *state, bool glob) {
        static const char *const names[] = { "a", "b", "ab", "a.b" }, *const globs[] = { "*", "**", "a*", "?" };
        unsigned parts = next_number(state, 5), magic = next_number(state, 5);
        struct buf path = BUF(256);

        for (unsigned i = 0; i < parts; i++)
                assert_int_equal(
                    buf_printf(&path, "/%s",
                               glob && i == magic ? globs[next_number(state, 4)] : names[next_number(state, 4)]),
                    0);
        if (parts == 0)
                assert_int_equal(buf_add(&path, "/"), 0);

        char *made = str_dup(buf_str(&path));
        assert_non_null(made);
        buf_done(&path);
        return made;
}

static void random_rules_by_definition(void **state) {
        enum { ROUNDS = 300, RULES = 24, PATHS = 40 };
        unsigned seed = 1;

        (void)state;

        for (int round = 0; round < ROUNDS; round++) {
                struct path_rule list[RULES] = { 0 };
                struct path_rules *rules = NULL;
                struct err err = { 0 };

                for (size_t i = 0; i < RULES; i++) {
                        list[i].pattern = random_path(&seed, true);
                        list[i].origin = "a test";
                        list[i].is_glob = strpbrk(list[i].pattern, "*?") != NULL;
                        list[i].grants = !list[i].is_glob && next_number(&seed, 2);
                        list[i].decides_read = next_number(&seed, 2);
                        list[i].built_in = next_number(&seed, 2);
                }

                assert_int_equal(path_rules_restore(list, RULES, true, &rules, &err), 0);

                for (int i = 0; i < PATHS; i++) {
                        cleanup(free_ptr) char *path = random_path(&seed, false);

                        if (path_rules_access(rules, path, NULL) != defined_access(list, RULES, path))
                                fail_msg("round %d: %s", round, path);
                }

                path_rules_free(rules);
                for (size_t i = 0; i < RULES; i++)
                        free((char *)list[i].pattern);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(paths), cmocka_unit_test(least_specific_first),
                                            cmocka_unit_test(random_rules_by_definition) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
