/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says about repositories and refs. */
#include "policy/git/git.h"
#include "policy/git/git_verdict.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"

struct world {
        struct snapshot_builder *builder;
        void *bytes;
        struct snapshot *snapshot;
};

static void add(struct world *w, const char *text, const char *ref, const struct snapshot_git *flags) {
        struct git_name name;
        struct str refs = str_of(ref);

        assert_int_equal(git_name_parse(str_of(text), &name, NULL), 0);
        struct snapshot_git git = *flags;
        git.text = str_of(text);
        git.host = name.host;
        git.port = name.port ? name.port : 443;
        git.path = str_n(name.path, name.path_n);
        git.refs = &refs;
        git.n_refs = ref ? 1 : 0;
        assert_int_equal(snapshot_add_git(w->builder, &git, STR("test"), NULL), 0);
}

static int setup(void **state) {
        static struct world w;
        size_t n;

        w = (struct world){ .builder = snapshot_builder_new(NETWORK_FILTERED, false) };
        /* as policy/git/git_rules.c orders them */
        add(&w, "forge.test/acme/app", "refs/heads/agent/**", &(struct snapshot_git){ .fetch = true, .create = true });
        add(&w, "forge.test/acme/prod", NULL, &(struct snapshot_git){ .fetch = true });
        add(&w, "forge.test/acme/drop", "refs/heads/*", &(struct snapshot_git){ .delete = true });
        add(&w, "forge.test:8443/acme/app", "refs/**", &(struct snapshot_git){ .fetch = true, .ask = true });
        add(&w, "forge.test/acme/*", "refs/heads/**", &(struct snapshot_git){ .fetch = true, .create = true });
        assert_int_equal(snapshot_add(w.builder, LIST_DENY, STR("denied.test"), STR("test"), NULL), 0);
        assert_int_equal(snapshot_build(w.builder, &w.bytes, &n, NULL), 0);
        assert_int_equal(snapshot_open(w.bytes, n, &w.snapshot, NULL), 0);
        *state = &w;
        return 0;
}

static int teardown(void **state) {
        struct world *w = *state;

        snapshot_close(w->snapshot);
        free(w->bytes);
        snapshot_builder_free(w->builder);
        return 0;
}

static struct authority target(const char *text) {
        struct authority a;

        assert_int_equal(authority_parse(str_of(text), 443, &a, NULL), 0);
        return a;
}

static enum reason judge(struct world *w, const char *host, const char *path, enum git_right right) {
        struct authority a = target(host);
        struct git_verdict v = verdict_git(w->snapshot, &a, str_of(path), right);

        return v.verdict.decision == DECISION_ALLOW ? REASON_ALLOWED : (enum reason)v.verdict.reason;
}

static void services_are_judged(void **state) {
        struct world *w = *state;

        assert_int_equal(judge(w, "forge.test", "acme/app", GIT_RIGHT_FETCH), REASON_ALLOWED);
        assert_int_equal(judge(w, "forge.test", "acme/app", GIT_RIGHT_PUSH), REASON_ALLOWED);
        assert_int_equal(judge(w, "forge.test", "acme/prod", GIT_RIGHT_PUSH), REASON_GIT_SERVICE);
        assert_int_equal(judge(w, "forge.test", "acme/PROD", GIT_RIGHT_PUSH), REASON_GIT_REPOSITORY);
        assert_int_equal(judge(w, "forge.test", "Acme/other", GIT_RIGHT_FETCH), REASON_GIT_REPOSITORY);
        assert_int_equal(judge(w, "forge.test", "acme/other", GIT_RIGHT_PUSH), REASON_ALLOWED);
        assert_int_equal(judge(w, "forge.test", "acme/drop", GIT_RIGHT_FETCH), REASON_GIT_SERVICE);
        assert_int_equal(judge(w, "forge.test", "acme/a/b", GIT_RIGHT_FETCH), REASON_GIT_REPOSITORY);
        assert_int_equal(judge(w, "forge.test:8443", "acme/other", GIT_RIGHT_FETCH), REASON_GIT_REPOSITORY);
        assert_int_equal(judge(w, "forge.test:80", "acme/app", GIT_RIGHT_FETCH), REASON_NOT_ALLOWED);
        assert_int_equal(judge(w, "other.test", "acme/app", GIT_RIGHT_FETCH), REASON_NOT_ALLOWED);
        struct authority a = target("forge.test:8443");
        assert_true(verdict_git(w->snapshot, &a, STR("acme/app"), GIT_RIGHT_PUSH).ask);
        assert_false(verdict_git(w->snapshot, &a, STR("acme/app"), GIT_RIGHT_FETCH).ask);
        assert_true(verdict_git_concerns(w->snapshot, &a.host));
}

static enum reason push(struct world *w, const char *path, const struct git_update *updates, size_t n,
                        const struct git_push *flags, size_t *ret_at) {
        struct authority a = target("forge.test");
        struct git_push p = *flags;

        p.updates = updates;
        p.n = n;
        struct git_verdict v = verdict_git_push(w->snapshot, &a, str_of(path), &p);
        *ret_at = v.at;
        return v.verdict.decision == DECISION_ALLOW ? REASON_ALLOWED : (enum reason)v.verdict.reason;
}

static void pushes_are_judged(void **state) {
        struct world *w = *state;
        const struct git_push plain = { 0 };
        size_t at;
        struct git_update u[2] = { { .ref = STR("refs/heads/agent/a/b") }, { .ref = STR("refs/heads/agent/c") } };

        assert_int_equal(push(w, "acme/app", u, 2, &plain, &at), REASON_ALLOWED);
        u[1].ref = STR("refs/heads/main");
        assert_int_equal(push(w, "acme/app", u, 2, &plain, &at), REASON_GIT_REF);
        assert_int_equal(at, 1);
        u[1].ref = STR("refs/heads/agent");
        assert_int_equal(push(w, "acme/app", u, 2, &plain, &at), REASON_GIT_REF);
        u[0].deletes = true;
        assert_int_equal(push(w, "acme/app", u, 1, &plain, &at), REASON_GIT_REF);
        u[0] = (struct git_update){ .ref = STR("refs/heads/x"), .deletes = true };
        assert_int_equal(push(w, "acme/drop", u, 1, &plain, &at), REASON_ALLOWED);
        u[0] = (struct git_update){ .ref = STR("refs/heads/x"), .creates = true };
        assert_int_equal(push(w, "acme/drop", u, 1, &plain, &at), REASON_GIT_REF);
        u[0] = (struct git_update){ .ref = STR("refs/heads/agent/x"), .creates = true };
        assert_int_equal(push(w, "acme/app", u, 1, &(struct git_push){ .options = true }, &at), REASON_GIT_SERVICE);
        assert_int_equal(push(w, "acme/app", u, 1, &(struct git_push){ .certificate = true }, &at), REASON_GIT_SERVICE);
        assert_int_equal(push(w, "acme/app", u, 1, &plain, &at), REASON_ALLOWED);
        assert_int_equal(push(w, "acme/app", NULL, 0, &plain, &at), REASON_ALLOWED);
        assert_int_equal(push(w, "acme/prod", NULL, 0, &plain, &at), REASON_GIT_SERVICE);
}

static void the_host_is_open_for_git_alone(void **state) {
        struct world *w = *state;
        struct authority a = target("forge.test");
        struct verdict v = verdict_target(w->snapshot, &a.host, 443);

        assert_int_equal(v.decision, DECISION_ALLOW);
        assert_true(v.needs_request && v.git);
        v = verdict_request(w->snapshot, &a.host, 443, STR("GET"), STR("/acme/app"));
        assert_int_equal(v.decision, DECISION_DENY);
        assert_int_equal(v.reason, REASON_GIT_ONLY);
}

static void names_are_parsed(void **state) {
        static const char *const good[] = { "github.com/acme/app.git",
                                            "git.corp.example:2222/team/x",
                                            "10.1.2.3/x",
                                            "github.com/acme/**",
                                            "github.com/*/app",
                                            "[fd00::1]:8443/a/b" };
        static const char *const bad[] = {
                "github.com",     "github.com/", "/acme/app",    "https://x.test/a", "git@github.com:acme/app",
                "x.test/a/../b",  "x.test/a//b", "x.test/a%2fb", "x.test/a/b/",      "x.test:0/a",
                "x.test:99999/a", "*.test/a",    "x.test/a**/b", "x.test/./a",       "x.test/a b"
        };
        struct git_name name;

        (void)state;
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                assert_int_equal(git_name_parse(str_of(good[i]), &name, NULL), 0);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                if (git_name_parse(str_of(bad[i]), &name, NULL) == 0)
                        fail_msg("%s", bad[i]);
        assert_int_equal(git_name_parse(STR("github.com/acme/app.git"), &name, NULL), 0);
        assert_string_equal(name.path, "acme/app");

        static const char *const refs[] = { "main",
                                            "HEAD",
                                            "refs/",
                                            "refs/heads/",
                                            "refs/heads/a..b",
                                            "refs/heads/a.lock",
                                            "refs/heads/a?",
                                            "refs/heads/[ab]",
                                            "refs/heads/a**",
                                            "refs/heads/a b",
                                            "" };
        for (size_t i = 0; i < sizeof refs / sizeof *refs; i++)
                if (git_ref_check_pattern(str_of(refs[i]), NULL) == 0)
                        fail_msg("%s", refs[i]);
        assert_int_equal(git_ref_check_pattern(STR("refs/heads/agent/**"), NULL), 0);
        assert_int_equal(git_ref_check_pattern(STR("refs/heads/agent-*"), NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(services_are_judged, setup, teardown),
                cmocka_unit_test_setup_teardown(pushes_are_judged, setup, teardown),
                cmocka_unit_test_setup_teardown(the_host_is_open_for_git_alone, setup, teardown),
                cmocka_unit_test(names_are_parsed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
