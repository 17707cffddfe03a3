/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seatbelt profiles against the policy's own verdict. tests/sbpl judges the text; policy/paths/paths.h says what it
 * must say: for the path cases of the policy, for the paths of the Linux plan's cases, and for random policies
 * (SEATBELT_ROUNDS=10000 in the environment for more of them).
 */
#include "../cmocka_all.h"
#include "../policy/cases.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/match/glob.h"
#include "seatbelt_kit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#define TMPDIR "/private/var/folders/zz/run/T"

static struct seatbelt_host plain_host(const char *home) {
        return (struct seatbelt_host){ .home = home, .tmpdir = TMPDIR, .case_sensitive = true, .tag = "test" };
}

/* --- the policy's own cases --- */

struct under_test {
        struct policy policy;
        struct path_rules *rules, *closed; /* the same with closed reads */
        struct made made[2];               /* volumes that tell case, and such that do not */
        size_t asked;
};

static void forget(struct under_test *t) {
        made_done(&t->made[0]);
        made_done(&t->made[1]);
        path_rules_free(t->rules);
        path_rules_free(t->closed);
        free(t->policy.workspace);
        free(t->policy.home);
        origin_texts_done(&t->policy.filesystem.read);
        origin_texts_done(&t->policy.filesystem.write);
        origin_texts_done(&t->policy.filesystem.deny_read);
        origin_texts_done(&t->policy.filesystem.deny_write);
        origin_texts_done(&t->policy.filesystem.hidden_homes);
        t->rules = t->closed = NULL;
        t->policy = (struct policy){ 0 };
}

static int compile_rules(struct under_test *t, struct err *e) {
        bool before = t->policy.filesystem.reads_denied;
        int r = path_rules_compile(&t->policy, &t->rules, e);

        t->policy.filesystem.reads_denied = true;
        if (r == 0)
                r = path_rules_compile(&t->policy, &t->closed, e);
        t->policy.filesystem.reads_denied = before;
        return r;
}

static bool make_both(struct under_test *t, struct err *e) {
        struct seatbelt_host host = plain_host(t->policy.home);

        if (compile_rules(t, e) < 0 || made_make(&t->made[0], &t->policy, t->rules, &host, e) < 0)
                return false;
        host.case_sensitive = false;
        return made_make(&t->made[1], &t->policy, t->rules, &host, e) == 0;
}

static bool start_policy(struct under_test *t, const struct case_line *c) {
        forget(t);
        t->policy.workspace = str_dup(c->field[2]);
        t->policy.home = str_dup(c->field[3]);
        t->policy.filesystem.reads_denied = str_is(c->field[4], "reads-denied");
        for (size_t i = 0; i < MODES; i++)
                if (str_is(c->field[1], policy_mode_name((enum policy_mode)i)))
                        t->policy.mode = (enum policy_mode)i;
        return true;
}

static origin_texts *list_of(struct under_test *t, struct str name) {
        if (str_is(name, "read"))
                return &t->policy.filesystem.read;
        if (str_is(name, "write"))
                return &t->policy.filesystem.write;
        if (str_is(name, "deny_read"))
                return &t->policy.filesystem.deny_read;
        return str_is(name, "deny_write") ? &t->policy.filesystem.deny_write : NULL;
}

/* With closed reads the sealed system stays readable: no program would start without it. */
static bool is_base(const struct under_test *t, const char *path) {
        static const char *const places[] = {
                "/usr/bin",          "/usr/lib", "/bin", "/sbin", "/usr/share", "/dev", "/private/etc/passwd",
                "/private/etc/hosts"
        };

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (t->policy.filesystem.reads_denied && path_is_within(path, places[i]))
                        return true;
        return strcmp(path, "/") == 0 || path_is_within(path, "/run");
}

static bool path_case(const struct case_line *c, void *context) {
        struct under_test *t = context;
        struct err e = { 0 };
        cleanup(free_ptr) char *path = str_dup(c->field[0]);

        if (str_is(c->field[0], "policy"))
                return start_policy(t, c);
        origin_texts *list = list_of(t, c->field[0]);
        if (list)
                return origin_texts_add(list, c->field[1], "case") == 0;
        if (str_is(c->field[0], "refused"))
                return true;
        if (!t->rules && !make_both(t, &e))
                return case_failed(c, "%s", err_text(&e));

        cleanup(free_ptr) char *canonical = NULL;
        bool linked = path_is_within(path, "/tmp") || path_is_within(path, "/var") || path_is_within(path, "/etc");
        canonical = linked ? str_format("/private%s", path) : str_dup(str_of(path));
        enum path_access expected = path_rules_host_access(t->rules, path, NULL);
        if (linked && path_is_within(path, "/tmp"))
                expected = expected_access(t->rules, t->closed, canonical);
        if (is_base(t, canonical))
                return true;
        t->asked++;
        for (size_t i = 0; i < 2; i++) {
                enum path_access found = made_access(&t->made[i], canonical);
                if (found != expected)
                        return case_failed(c, "%s on macOS, not %s", path_access_name(found),
                                           path_access_name(expected));
        }
        return true;
}

static void test_policy_cases(void **state) {
        (void)state;
        struct under_test t = { 0 };

        cases_run("paths.txt", path_case, &t);
        assert_true(t.asked > 80);
        forget(&t);
}

/* --- the paths of the Linux plan's cases --- */

/* "dir write grants - PATH", behind "path ". */
static void take_plan_path(char *line, struct path_rule *ret) {
        char *next = line, *words[5];

        for (size_t i = 0; i < 5; i++)
                words[i] = strsep(&next, " ");
        assert_non_null(words[4]);
        bool grants = strcmp(words[2], "grants") == 0;
        *ret = (struct path_rule){ .pattern = words[4],
                                   .origin = "case",
                                   .grants = grants,
                                   .decides_read =
                                       grants ? strcmp(words[1], "read") == 0 : strcmp(words[1], "denied") == 0,
                                   .protected = strcmp(words[3], "protected") == 0 };
}

static size_t check_plan_case(const char *path) {
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        VEC(struct path_rule) list = { 0 };
        struct err e = { 0 };
        bool reads_open = true;

        assert_int_equal(path_read_file(path, 1 << 20, &text, &e), 0);
        char *next = (char *)buf_text(&text);
        for (char *line; (line = strsep(&next, "\n"));) {
                struct path_rule rule;

                reads_open = reads_open && strcmp(line, "reads deny") != 0;
                if (strncmp(line, "path ", 5) != 0)
                        continue;
                take_plan_path(line + 5, &rule);
                assert_int_equal(vec_push(&list, rule), 0);
        }

        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        cleanup(path_rules_freep) struct path_rules *closed = NULL;
        assert_int_equal(path_rules_restore(list.p, list.n, reads_open, &rules, &e), 0);
        assert_int_equal(path_rules_restore(list.p, list.n, false, &closed, &e), 0);
        const struct policy policy = { .mode = MODE_WORKSPACE_WRITE };
        const struct seatbelt_host host = plain_host("/home/u");
        cleanup(made_done) struct made made = { 0 };
        if (made_make(&made, &policy, rules, &host, &e) < 0)
                fail_msg("%s", err_text(&e));
        for (size_t i = 0; i < list.n; i++) {
                cleanup(free_ptr) char *below = str_format("%s/below/it", list.p[i].pattern);
                const char *paths[] = { list.p[i].pattern, below };

                for (size_t j = 0; j < 2; j++) {
                        bool linked = path_is_within(paths[j], "/tmp") || path_is_within(paths[j], "/etc");
                        cleanup(free_ptr) char *canonical = str_format("%s%s", linked ? "/private" : "", paths[j]);
                        bool shared = path_is_within(paths[j], "/tmp");
                        enum path_access expected = path_rules_host_access(shared ? closed : rules, paths[j], NULL);

                        if (made_access(&made, canonical) != expected)
                                fail_msg("%s: %s is not %s", path, canonical, path_access_name(expected));
                }
        }
        vec_done(&list);
        return list.n;
}

static void test_plan_cases(void **state) {
        (void)state;
        char folder[512];
        snprintf(folder, sizeof folder, "%s/plan", getenv("CASES"));
        DIR *d = opendir(folder);
        size_t n = 0;

        assert_non_null(d);
        for (struct dirent *entry; (entry = readdir(d));) {
                char path[1024];

                if (!str_ends(str_of(entry->d_name), STR(".case")))
                        continue;
                snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
                (void)check_plan_case(path);
                n++;
        }
        closedir(d);
        assert_true(n >= 6);
}

/* --- random policies --- */

static uint64_t dice;

static unsigned roll(unsigned n) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        return (unsigned)(dice >> 33) % n;
}

static const char *const names[] = { "a", "b", "c", "ab", ".env", "x.c", "d-e", "q\"\\z", "\xc3\xa9", "k]y" };
static const char *const magic[] = {
        "*", "?", "a*", "*.c", "[ab]", "[!a]", "**", "?b", "[a-c]*", ".e*", "[]k]*", "**"
};
static const char *const roots[] = { "/w", "/home/u", "/opt", "/w/sub", "/private/tmp/x", "/home/u/code" };

static char *random_path(bool glob) {
        cleanup(buf_done) struct buf out = BUF(4096);
        unsigned n = roll(4);

        assert_int_equal(buf_add(&out, roots[roll(6)]), 0);
        for (unsigned i = 0; i < n || (glob && i == 0); i++) {
                const char *part = glob && roll(2) ? magic[roll(12)] : names[roll(10)];
                assert_int_equal(buf_printf(&out, "/%s", part), 0);
        }
        return str_dup(buf_str(&out));
}

static void random_list(origin_texts *list, unsigned most, bool globs) {
        for (unsigned i = roll(most + 1); i > 0; i--) {
                cleanup(free_ptr) char *path = random_path(globs && roll(2));
                assert_int_equal(origin_texts_add(list, str_of(path), "random"), 0);
        }
}

static void print_rules(const struct path_rules *rules) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);

                if (!rule->built_in)
                        print_error("%s %s %s\n", rule->grants ? "grants" : "refuses",
                                    rule->decides_read ? "reading" : "writing", rule->pattern);
        }
}

static void one_round(struct under_test *t, bool case_sensitive, unsigned round) {
        struct seatbelt_host host = plain_host("/home/u");
        struct err e = { 0 };

        t->policy = (struct policy){ .mode = (enum policy_mode)roll(MODES),
                                     .workspace = str_dup(STR("/w")),
                                     .home = str_dup(STR("/home/u")) };
        t->policy.filesystem.reads_denied = roll(3) == 0;
        random_list(&t->policy.filesystem.read, 4, false);
        random_list(&t->policy.filesystem.write, 4, false);
        random_list(&t->policy.filesystem.deny_read, 4, true);
        random_list(&t->policy.filesystem.deny_write, 4, true);
        host.case_sensitive = case_sensitive;
        if (compile_rules(t, &e) < 0 || made_make(&t->made[0], &t->policy, t->rules, &host, &e) < 0)
                fail_msg("%s", err_text(&e));
        for (unsigned i = 0; i < 40; i++) {
                cleanup(free_ptr) char *path = random_path(false);
                enum path_access expected = expected_access(t->rules, t->closed, path),
                                 found = made_access_quickly(&t->made[0], path, i);

                t->asked++;
                if (found != expected) {
                        print_rules(t->rules);
                        fail_msg("%s is %s, and the policy says %s, in round %u", path, path_access_name(found),
                                 path_access_name(expected), round);
                }
        }
}

static void test_random(void **state) {
        (void)state;
        const char *wanted = getenv("SEATBELT_ROUNDS"), *seed = getenv("SEATBELT_SEED");
        unsigned rounds = wanted ? (unsigned)strtoul(wanted, NULL, 10) : 60;
        struct under_test t = { 0 };

        dice = 0x9e3779b97f4a7c15U ^ (seed ? strtoull(seed, NULL, 10) : 1);
        for (unsigned i = 0; i < rounds; i++) {
                one_round(&t, i % 8 != 0, i);
                if (i % 16 == 0)
                        made_check_text(&t.made[0]);
                forget(&t);
        }
        print_message("%u policies, %zu questions\n", rounds, t.asked);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_policy_cases), cmocka_unit_test(test_plan_cases),
                                            cmocka_unit_test(test_random) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
