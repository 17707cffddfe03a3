/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/mappings.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "policy/check.h"
#include "policy/match/pattern.h"
#include "policy/show.h"

#include <errno.h>
#include <stdio.h>

#include "../cmocka_all.h"

/* Every row of the table is usable as it stands: what it says is what a policy could say. */
static void each_provider_is_whole(void **state) {
        (void)state;
        cleanup(free_ptr) char *before = str_format("%s", "");
        assert_int_equal(n_policy_providers, 20);
        for (size_t i = 0; i < n_policy_providers; i++) {
                const struct provider *p = &policy_providers[i];
                struct err e = { 0 };
                print_message("%s\n", p->name);
                assert_string_equal(policy_provider_names[i], p->name);
                assert_ptr_equal(provider_find(str_of(p->name)), p);
                assert_int_equal(check_name(str_of(p->name), &e), 0);
                assert_true(strcmp(before, p->name) < 0); /* sorted, so none twice */
                free(before);
                before = str_format("%s", p->name);
                assert_true(p->title[0] != '\0');
                assert_non_null(p->env[0]);
                assert_non_null(p->hosts[0]);
                assert_non_null(p->slots[0]);
                for (const char *const *v = p->env; *v; v++)
                        assert_int_equal(check_variable_name(str_of(*v), &e), 0);
                for (const char *const *h = p->hosts; *h; h++) {
                        struct pattern pattern;
                        assert_int_equal(pattern_parse(str_of(*h), &pattern, &e), 0);
                        assert_false(pattern.has_port);
                }
                for (const char *const *s = p->slots; *s; s++)
                        assert_int_equal(check_slot(str_of(*s), &e), 0);
                for (const char *const *s = p->set; *s; s++)
                        assert_int_equal(check_variable(str_of(*s), &e), 0);
                if (p->base_url)
                        assert_int_equal(check_variable_name(str_of(p->base_url), &e), 0);
                /* git sends it as a password, so that place must be there. */
                bool basic = false;
                for (const char *const *s = p->slots; *s; s++)
                        basic |= strcmp(*s, "basic") == 0;
                assert_int_equal(p->git_user != NULL, basic);
        }
        assert_null(policy_provider_names[n_policy_providers]);
        assert_null(provider_find(STR("nobody")));
}

static struct policy *policy_of(const struct credential *list, size_t n) {
        struct policy *p = calloc(1, sizeof *p);
        assert_non_null(p);
        p->mode = MODE_WORKSPACE_WRITE_WHITELIST;
        p->home = str_format("/home/u");
        p->workspace = str_format("/ws");
        for (size_t i = 0; i < n; i++) {
                struct credential c = { 0 };
#define COPY(field) c.field = list[i].field ? str_format("%s", list[i].field) : NULL
                COPY(provider);
                COPY(name);
                COPY(env);
                COPY(source);
                COPY(slot);
                c.origin = str_format("policy.yaml:%zu:5", i + 1);
                for (size_t k = 0; k < list[i].hosts.n; k++)
                        assert_int_equal(origin_texts_add(&c.hosts, str_of(list[i].hosts.p[k].text), "o"), 0);
                assert_int_equal(vec_push(&p->credentials, c), 0);
        }
        return p;
}

static struct origin_text own_host[] = { { (char *)"api.internal.example.com:8443", (char *)"o" } };

static void providers_are_filled_in(void **state) {
        (void)state;
        struct credential list[] = {
                { .provider = (char *)"github", .source = (char *)"env:MY_TOKEN" },
                { .name = (char *)"own",
                  .env = (char *)"OWN_TOKEN",
                  .source = (char *)"file:~/token",
                  .slot = (char *)"header:x-api-key",
                  .hosts = { .p = own_host, .n = 1 } },
                { .provider = (char *)"bedrock", .source = (char *)"env:PROD_AWS_SECRET_ACCESS_KEY" },
        };
        cleanup(policy_freep) struct policy *p = policy_of(list, 3);
        cleanup(mappings_done) mappings m = { 0 };
        struct err e = { 0 };
        assert_int_equal(mappings_of(p, &m, &e), 0);
        assert_int_equal(m.n, 3);
        assert_string_equal(m.p[0].name, "github");
        assert_int_equal(m.p[0].env.n, 2);
        assert_string_equal(m.p[0].env.p[1], "GH_TOKEN");
        assert_string_equal(m.p[0].hosts.p[0], "api.github.com:443");
        assert_string_equal(m.p[0].slots.p[1], "basic");
        cleanup(free_ptr) char *own = mapping_source_variable(&m.p[0], 0), *none = mapping_source_variable(&m.p[0], 1);
        assert_string_equal(own, "MY_TOKEN");
        assert_null(none);
        assert_string_equal(m.p[1].source, "file:/home/u/token");
        assert_string_equal(m.p[1].hosts.p[0], "api.internal.example.com:8443");
        assert_null(m.p[1].provider);
        assert_true(m.p[2].sigv4);
        assert_int_equal(m.p[2].hosts.n, 28);
        cleanup(free_ptr) char *id = mapping_source_variable(&m.p[2], 0), *token = mapping_source_variable(&m.p[2], 2);
        assert_string_equal(id, "PROD_AWS_ACCESS_KEY_ID");
        assert_string_equal(token, "PROD_AWS_SESSION_TOKEN");

        cleanup(buf_done) struct buf shown = BUF(65536), json = BUF(65536);
        assert_int_equal(policy_show_text(&shown, p, 0), 0);
        assert_non_null(strstr(buf_text(&shown), "github: a stand-in in GITHUB_TOKEN, GH_TOKEN"));
        assert_int_equal(policy_show_json(&json, p, 0), 0);
        assert_non_null(strstr(buf_text(&json), "\"api.internal.example.com:8443\""));
}

static void collisions_are_refused(void **state) {
        (void)state;
        struct credential same_name[] = { { .provider = (char *)"openai", .source = (char *)"env:A" },
                                          { .provider = (char *)"openai", .source = (char *)"env:B" } };
        struct credential same_env[] = {
                { .provider = (char *)"openai", .source = (char *)"env:A" },
                { .provider = (char *)"groq", .env = (char *)"OPENAI_API_KEY", .source = (char *)"env:B" }
        };
        struct credential aws[] = { { .provider = (char *)"bedrock", .source = (char *)"env:TOKEN" } };
        const struct {
                struct credential *list;
                size_t n;
                const char *says;
        } cases[] = { { same_name, 2, "called 'openai' too" },
                      { same_env, 2, "both be in the variable OPENAI_API_KEY" },
                      { aws, 1, "env:AWS_SECRET_ACCESS_KEY" } };
        for (size_t i = 0; i < 3; i++) {
                cleanup(policy_freep) struct policy *p = policy_of(cases[i].list, cases[i].n);
                mappings m = { 0 };
                struct err e = { 0 };
                assert_int_equal(mappings_of(p, &m, &e), -EINVAL);
                assert_non_null(strstr(e.text, cases[i].says));
                assert_non_null(strstr(e.text, "policy.yaml:"));
                void *snapshot = NULL;
                size_t n;
                assert_int_equal(policy_compile_network(p, NULL, 0, &snapshot, &n, &e), -EINVAL);
        }
}

static struct verdict ask(const struct policy *p, const char *target) {
        cleanup(free_ptr) void *bytes = NULL;
        size_t n = 0;
        struct err e = { 0 };
        struct authority a;
        assert_int_equal(policy_compile_network(p, NULL, 0, &bytes, &n, &e), 0);
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        assert_int_equal(snapshot_open(bytes, n, &s, &e), 0);
        assert_int_equal(authority_parse(str_of(target), 0, &a, &e), 0);
        struct verdict v = verdict_target(s, &a.host, a.port);
        struct snapshot_rule rule;
        if (v.decision == DECISION_ALLOW && v.reason == REASON_ALLOWED && !v.needs_request) {
                assert_true(snapshot_rule(s, v.rule, &rule));
                assert_true(str_starts(rule.origin, STR("credential github in policy.yaml:1:5")));
        }
        return v;
}

/* The hosts are open by the credential alone; what the policy says more closely, or denies, stays. */
static void hosts_are_allowed(void **state) {
        (void)state;
        struct credential list[] = { { .provider = (char *)"github", .source = (char *)"env:T" } };
        cleanup(policy_freep) struct policy *p = policy_of(list, 1);
        assert_int_equal(ask(p, "api.github.com:443").decision, DECISION_ALLOW);
        assert_int_equal(ask(p, "api.github.com:80").decision, DECISION_DENY);
        assert_int_equal(ask(p, "gist.github.com:443").decision, DECISION_DENY);
        assert_int_equal(origin_texts_add(&p->network.deny, STR("github.com"), "o"), 0);
        assert_int_equal(ask(p, "github.com:443").decision, DECISION_DENY);
        struct request_rule rule = { .host = str_format("api.github.com"), .origin = str_format("o") };
        assert_int_equal(origin_texts_add(&rule.methods, STR("GET"), "o"), 0);
        assert_int_equal(vec_push(&p->network.rules, rule), 0);
        assert_true(ask(p, "api.github.com:443").needs_request);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_provider_is_whole),
                cmocka_unit_test(providers_are_filled_in),
                cmocka_unit_test(collisions_are_refused),
                cmocka_unit_test(hosts_are_allowed),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
