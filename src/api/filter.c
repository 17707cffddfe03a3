/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/filter.h"

#include "api/api_program.h"
#include "api/api_report.h"
#include "base/cleanup.h"
#include "plan/env.h"
#include "policy/judge/snapshot.h"
#include "policy/match/pattern.h"

#include <pthread.h>
#include <stdlib.h>

/*
 * The rules are a compiled snapshot. A test reads it under the shared lock; an update compiles first and swaps under
 * the exclusive one. The callback is called with no lock held: it may take its time, or change the rules.
 */
struct bailey_filter {
        pthread_rwlock_t lock;
        void *bytes;
        struct snapshot *snapshot;
        bailey_request_fn fn;
        void *arg;
};

static int add_list(struct snapshot_builder *builder, enum rule_list list, const char *const *patterns,
                    struct err *why) {
        for (size_t i = 0; patterns && patterns[i]; i++) {
                int r = snapshot_add(builder, list, str_of(patterns[i]), STR("filter"), why);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int filter_compile(const struct bailey_filter_rules *rules, void **ret_bytes, struct snapshot **ret,
                          struct bailey_error *error) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *builder = snapshot_builder_new(NETWORK_FILTERED, true);
        cleanup(free_ptr) void *bytes = NULL;
        struct err why = { 0 };
        size_t n = 0;

        if (!builder)
                return report_memory(error);

        int r = 0;

        if (rules)
                r = add_list(builder, LIST_DENY, rules->deny, &why);

        if (r == 0 && rules)
                r = add_list(builder, LIST_ALLOW, rules->allow, &why);

        if (r >= 0)
                r = snapshot_build(builder, &bytes, &n, &why);
        if (r >= 0)
                r = snapshot_open(bytes, n, ret, &why);
        if (r < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        *ret_bytes = take_ptr(&bytes);
        return BAILEY_OK;
}

int bailey_filter_new(const struct bailey_filter_rules *rules, bailey_request_fn fn, void *arg, bailey_filter **ret,
                      struct bailey_error *error) {
        if (!ret)
                return report_null(error);

        bailey_filter *f = calloc(1, sizeof *f);
        if (!f)
                return report_memory(error);

        int r = filter_compile(rules, &f->bytes, &f->snapshot, error);
        if (r != BAILEY_OK) {
                free(f);
                return r;
        }

        pthread_rwlock_init(&f->lock, NULL);
        f->fn = fn;
        f->arg = arg;
        *ret = f;

        return BAILEY_OK;
}

void bailey_filter_free(bailey_filter *filter) {
        if (!filter)
                return;
        snapshot_close(filter->snapshot);
        free(filter->bytes);
        pthread_rwlock_destroy(&filter->lock);
        free(filter);
}

int bailey_filter_update(bailey_filter *filter, const struct bailey_filter_rules *rules, struct bailey_error *error) {
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;

        if (!filter)
                return report_null(error);

        int r = filter_compile(rules, &bytes, &snapshot, error);
        if (r != BAILEY_OK)
                return r;

        pthread_rwlock_wrlock(&filter->lock);
        void *old_bytes = filter->bytes;
        struct snapshot *old = filter->snapshot;
        filter->bytes = bytes;
        filter->snapshot = snapshot;
        pthread_rwlock_unlock(&filter->lock);
        bytes = old_bytes;
        snapshot = old;

        return BAILEY_OK;
}

static int filter_tell(struct bailey_filter_verdict *ret, bool allowed, const char *reason, const char *detail) {
        if (!ret)
                return allowed;
        ret->allowed = allowed;
        snprintf(ret->reason, sizeof ret->reason, "%s", reason);
        snprintf(ret->detail, sizeof ret->detail, "%s", detail);
        return allowed;
}

/* An IPv6 address may stand without brackets here: there is no port behind it. */
static int parse_host(const char *text, struct host *ret, struct err *why) {
        struct addr addr;
        if (addr_parse(str_of(text), &addr)) {
                host_from_addr(&addr, ret);
                return 0;
        }
        return host_parse(str_of(text), ret, why);
}

int bailey_filter_test(bailey_filter *filter, const char *host, uint16_t port, struct bailey_filter_verdict *ret) {
        struct host h;
        struct err why = { 0 };

        if (ret)
                *ret = (struct bailey_filter_verdict){ 0 };
        if (!filter || !host)
                return filter_tell(ret, false, "no-filter", "Without a filter everything is refused.");
        if (port == 0 || parse_host(host, &h, &why) < 0)
                return filter_tell(ret, false, reason_code(REASON_BAD_NAME),
                                   port ? err_text(&why) : "There is no port 0.");

        pthread_rwlock_rdlock(&filter->lock);
        struct verdict verdict = verdict_target(filter->snapshot, &h, port);
        struct snapshot_rule rule;

        if (ret && snapshot_rule(filter->snapshot, verdict.rule, &rule))
                snprintf(ret->rule, sizeof ret->rule, "%.*s", STR_FMT(rule.text));

        pthread_rwlock_unlock(&filter->lock);
        if (verdict.decision != DECISION_ASK)
                return filter_tell(ret, verdict.decision == DECISION_ALLOW, reason_code(verdict.reason),
                                   reason_text(verdict.reason));
        if (!filter->fn)
                return filter_tell(ret, false, reason_code(REASON_NOT_ALLOWED), reason_text(REASON_NOT_ALLOWED));

        bool yes = filter->fn(filter->arg, h.name, port) == 1;
        return filter_tell(ret, yes, "asked", yes ? "The callback allowed it." : "The callback refused it.");
}

int bailey_pattern_validate(const char *pattern, struct bailey_error *error) {
        struct pattern parsed;
        struct err why = { 0 };
        if (!pattern)
                return report_null(error);
        if (pattern_parse_user(str_of(pattern), &parsed, &why) < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        return BAILEY_OK;
}

/*
 * The environment of a program that uses a gateway.
 */
int bailey_proxy_environment(const struct bailey_proxy *proxy, char ***ret, struct bailey_error *error) {
        static char *const nothing[] = { NULL };
        cleanup(env_done) struct env env = { 0 };
        struct err why = { 0 };

        if (!proxy || !ret)
                return report_null(error);

        struct bailey_error ignored = { 0 };
        cleanup(free_ptr) char *program = NULL;
        (void)program_find(NULL, "/", &program, &ignored); /* else it is looked for in PATH */

        const struct env_input in = { .host = nothing,
                                      .bailey = program,
                                      .http_port = proxy->http_port,
                                      .socks_port = proxy->socks_port,
                                      .proxy_address = proxy->address,
                                      .tmpdir = proxy->tmpdir };
        int r = env_build(&in, &env, &why);
        for (size_t i = 0; r == 0 && i < env.entries.n; i++)
                if (strcmp(env.entries.p[i].name, "BAILEY_SANDBOX") == 0)
                        env.entries.p[i].action = ENV_STRIPPED; /* there is none */

        if (r >= 0)
                r = env_block(&env, ret, &why);
        if (r < 0)
                return report_err(error, BAILEY_E_ARGUMENT, &why);

        return BAILEY_OK;
}

void bailey_proxy_environment_free(char **environment) {
        env_block_free(environment);
}
