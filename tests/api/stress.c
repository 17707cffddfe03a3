/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not grow and not race: many threads on one manager while it is updated, many calls one after the other, an
 * output without end, the filter under updates.
 */
#include "fixture.h"

#include "../unit/sanitizer.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 100, CALLS_EACH = 2, SEQUENTIAL = UNDER_SANITIZER ? 150 : 1000, MIB = 1 << 20 };

static long resident_bytes(void) {
        long pages = 0, resident = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        assert_non_null(f);
        assert_int_equal(fscanf(f, "%ld %ld", &pages, &resident), 2);
        fclose(f);
        return resident * sysconf(_SC_PAGESIZE);
}

static int open_descriptors(void) {
        DIR *d = opendir("/proc/self/fd");
        int n = 0;
        assert_non_null(d);
        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

struct crowd {
        bailey_manager *manager;
        atomic_int wrong, asked;
        atomic_bool done;
        bailey_config *configs[2];
};

static enum bailey_approval approve_session(void *arg, const struct bailey_question *q) {
        struct crowd *c = arg;
        (void)q;
        atomic_fetch_add(&c->asked, 1);
        return BAILEY_APPROVE_SESSION;
}

static void *run_some(void *arg) {
        struct crowd *c = arg;
        for (int i = 0; i < CALLS_EACH; i++) {
                bailey_result *r = NULL;
                struct bailey_verdict v;
                struct bailey_error e;
                int code = bailey_manager_exec(c->manager, "echo $STAGE; touchy 2>/dev/null; exit 7", NULL, &r, &e);
                bool right = code == BAILEY_OK && bailey_result_exit_code(r) == 7 &&
                             (strcmp(bailey_result_stdout(r, NULL), "zero\n") == 0 ||
                              strcmp(bailey_result_stdout(r, NULL), "one\n") == 0);
                if (!right) {
                        fprintf(stderr, "exec: %d %s\n", code, code ? e.message : bailey_result_stdout(r, NULL));
                        atomic_fetch_add(&c->wrong, 1);
                }
                if (bailey_manager_check(c->manager, "sudo ls", &v, NULL) != BAILEY_OK ||
                    v.decision != BAILEY_ESCALATED)
                        atomic_fetch_add(&c->wrong, 1);
                bailey_result_free(r);
        }
        return NULL;
}

static void *update_always(void *arg) {
        struct crowd *c = arg;
        for (unsigned i = 0; !atomic_load(&c->done); i++) {
                if (bailey_manager_update(c->manager, c->configs[i % 2], NULL) != BAILEY_OK)
                        atomic_fetch_add(&c->wrong, 1);
                usleep(2000);
        }
        return NULL;
}

static void many_threads_and_updates(void **state) {
        struct fixture *f = *state;
        struct crowd c = { 0 };
        static const char *const stages[] = { "STAGE=zero", "STAGE=one" };
        static const char rules[] = "commands:\n  - { name: touchy, decision: escalate, argv: [touchy], reason: x }\n"
                                    "network: { allow: [a.test] }\n";
        pthread_t threads[THREADS], updater;
        for (size_t i = 0; i < 2; i++) {
                assert_ok(bailey_config_copy(f->config, &c.configs[i], &f->e));
                assert_ok(bailey_config_policy(c.configs[i], rules, &f->e));
                assert_ok(bailey_config_env(c.configs[i], stages[i], &f->e));
                assert_ok(bailey_config_on_approval(c.configs[i], approve_session, &c, &f->e));
        }
        assert_ok(bailey_manager_new(c.configs[0], &f->manager, &f->e));
        c.manager = f->manager;
        assert_int_equal(pthread_create(&updater, NULL, update_always, &c), 0);
        for (size_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, run_some, &c), 0);
        for (size_t i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        atomic_store(&c.done, true);
        pthread_join(updater, NULL);
        assert_int_equal(c.wrong, 0);
        assert_int_equal(c.asked, 1); /* for the session, however many wanted to know */
        for (size_t i = 0; i < 2; i++)
                bailey_config_free(c.configs[i]);
}

static void one_after_the_other(void **state) {
        struct fixture *f = *state;
        static const char *const argv[] = { "true", NULL };
        int fds = 0;
        long memory = 0;
        fixture_start(f);
        for (int i = 0; i < SEQUENTIAL; i++) {
                bailey_result *r = NULL;
                if (i == SEQUENTIAL / 10) { /* warm */
                        fds = open_descriptors();
                        memory = resident_bytes();
                }
                assert_ok(bailey_manager_exec_args(f->manager, argv, NULL, &r, &f->e));
                assert_int_equal(bailey_result_exit_code(r), 0);
                bailey_result_free(r);
        }
        assert_int_equal(open_descriptors(), fds);
        /* A sanitizer keeps what was freed for a while; it finds leaks in its own way. */
        assert_true(UNDER_SANITIZER || resident_bytes() - memory < 2 * MIB);
}

static void output_without_end(void **state) {
        struct fixture *f = *state;
        bailey_result *r = NULL;
        size_t n;
        fixture_start(f);
        long before = resident_bytes();
        assert_ok(bailey_manager_exec(f->manager, "head -c 1073741824 /dev/zero; echo end >&2", NULL, &r, &f->e));
        assert_true(resident_bytes() - before < 64 * MIB);
        assert_int_equal(bailey_result_truncated(r), 1);
        bailey_result_stdout(r, &n);
        assert_int_equal(n, 10000000);
        assert_string_equal(bailey_result_stderr(r, NULL), "end\n"); /* it came to its end */
        assert_int_equal(bailey_result_exit_code(r), 0);
        bailey_result_free(r);
}

struct judges {
        bailey_filter *filter;
        atomic_bool done;
        atomic_int wrong;
};

/* Both lists allow one of the two names: a mixture would allow both or none. */
static void *judge_always(void *arg) {
        struct judges *j = arg;
        while (!atomic_load(&j->done)) {
                struct bailey_filter_verdict v;
                int a = bailey_filter_test(j->filter, "always.test", 443, &v);
                if (a != 1 || strcmp(v.rule, "*.test") == 0)
                        atomic_fetch_add(&j->wrong, 1);
                if (bailey_filter_test(j->filter, "never.test", 443, NULL) != 0)
                        atomic_fetch_add(&j->wrong, 1);
        }
        return NULL;
}

static void filter_swaps_atomically(void **state) {
        struct fixture *f = *state;
        static const char *const allow[2][3] = { { "always.test", "one.test", NULL },
                                                 { "two.test", "always.test", NULL } };
        static const char *const deny[] = { "never.test", NULL };
        struct judges j = { 0 };
        pthread_t threads[4];
        struct bailey_filter_rules rules = { .allow = allow[0], .deny = deny };
        assert_ok(bailey_filter_new(&rules, NULL, NULL, &j.filter, &f->e));
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, judge_always, &j), 0);
        for (unsigned i = 0; i < 300; i++) {
                rules.allow = allow[i % 2];
                assert_ok(bailey_filter_update(j.filter, &rules, &f->e));
        }
        atomic_store(&j.done, true);
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(j.wrong, 0);
        bailey_filter_free(j.filter);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
                TEST(many_threads_and_updates),
                TEST(one_after_the_other),
                TEST(output_without_end),
                TEST(filter_swaps_atomically),
        };
        return cmocka_run_group_tests_name("libbailey under load", tests, NULL, NULL);
}
