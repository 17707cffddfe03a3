/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_state.h"

#include "api/api_program.h"
#include "api/api_report.h"
#include "api/commands.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/load.h"
#include "policy/paths/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct state *state_ref(struct state *state) {
        atomic_fetch_add_explicit(&state->refs, 1, memory_order_relaxed);
        return state;
}

void state_unref(struct state *state) {
        if (!state || atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1)
                return;

        supervise_request_done(&state->request);
        sh_rules_free(state->rules);
        free(state->reload);
        free(state->shell);
        free(state->workspace);
        free(state->program);
        free(state);
}

void state_unrefp(struct state **state) {
        state_unref(*state);
}

/* Everything that would be found wrong later is found now: rules, patterns, paths, examples. */
static int check_policy(const struct policy_request *request, struct policy **ret_policy, struct sh_rules **ret_rules,
                        struct bailey_error *error) {
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(path_rules_freep) struct path_rules *paths = NULL;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        struct err why = { 0 };
        int r = policy_load(request, &p, &why);

        if (r >= 0)
                r = path_rules_compile(p, &paths, &why);
        if (r >= 0)
                r = policy_compile_network(p, NULL, 0, &snapshot, &n, &why);
        r = r < 0 || !ret_rules ? r : commands_load(p, ret_rules, &why);
        if (r < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        *ret_policy = take_ptr(&p);
        return BAILEY_OK;
}

/* Asked by the callback, unless the config itself or its policy says otherwise; without one nobody is there to be
 * asked. */
static int settle_asking(struct state *state, const bailey_config *config, const struct policy *policy) {
        const char *origin = policy->origins[ROW_ASK];

        state->on_request = config->on_request;
        state->request_arg = config->request_arg;
        if (config->on_request && !(state->request.asks = str_dup(STR(SUPERVISE_ASKS_HOSTS))))
                return -ENOMEM;

        state->asks_commands =
            config_sets(&config->values, "network.ask") || (origin && str_starts(str_of(origin), STR("policy:")));
        if (state->asks_commands)
                return 0;

        return supervise_texts_add(&state->request.config,
                                   config->on_request ? STR("network.ask=control") : STR("network.ask=never"));
}

static int copy_request(struct state *state, const bailey_config *config, const char *base) {
        state->request.policy = config->policy ? str_dup(str_of(config->policy)) : NULL;
        state->request.base = str_dup(str_of(base));
        state->shell = str_dup(str_of(config->shell));
        if (!state->request.base || !state->shell || (config->policy && !state->request.policy))
                return -ENOMEM;
        if (config->hosts_file && path_normalise(str_of(config->hosts_file), base, &state->request.hosts_file) < 0)
                return -ENOMEM;

        return config_texts(&config->values, &state->request.config);
}

static int check_shell(const char *shell, struct bailey_error *error) {
        if (shell[0] != '/')
                return report(error, BAILEY_E_CONFIG, "the shell must be given by its absolute path");
        if (access(shell, X_OK) == 0)
                return BAILEY_OK;

        return report(error, BAILEY_E_DEPENDENCY, "the shell %s cannot be used: %s", shell, strerror(errno));
}

int state_new(const bailey_config *config, const char *base, struct state **ret, struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = calloc(1, sizeof *s);
        cleanup(policy_freep) struct policy *policy = NULL;
        struct err why = { 0 };

        if (!s)
                return report_memory(error);

        s->refs = 1;
        s->output_limit = config->output_limit;
        s->unavailable = config->unavailable;
        s->approver = config->approver;
        s->classifier = config->classifier;
        if (copy_request(s, config, base) < 0)
                return report_memory(error);

        const struct policy_request request = { .command_line = &config->values,
                                                .only_text = config->policy ? config->policy : "",
                                                .base = base };
        int r = check_policy(&request, &policy, &s->rules, error);
        if (!policy)
                return r;
        if (settle_asking(s, config, policy) < 0)
                return report_memory(error);

        r = check_shell(s->shell, error);
        if (r != BAILEY_OK)
                return r;

        s->workspace = policy->workspace ? str_dup(str_of(policy->workspace)) : NULL;
        static char placeholder[] = "true";
        supervise_texts command = { .p = (char *[]){ placeholder }, .n = 1 };
        s->request.argv = command; /* a block for a run has a command; a reload leaves it alone */
        r = supervise_encode(&s->request, &s->reload, &why);
        s->request.argv = (supervise_texts){ 0 };

        if (r < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        (void)program_find(config->executable, base, &s->program, &s->no_program);
        *ret = take_ptr(&s);

        return BAILEY_OK;
}

int bailey_config_validate(const bailey_config *config, struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;
        cleanup(free_ptr) char *base = realpath(".", NULL);
        if (!config)
                return report_null(error);
        if (!base)
                return report(error, BAILEY_E_SYSTEM, "the current directory cannot be used: %s", strerror(errno));
        return state_new(config, base, &s, error);
}

/*
 * One call.
 */
void call_settings_done(struct call_settings *settings) {
        for (size_t i = 0; i < settings->variables.n; i++)
                free(settings->variables.p[i]);
        vec_done(&settings->variables);
}

static int read_back(const supervise_texts *texts, struct option_values *ret, struct err *why) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < texts->n; i++) {
                struct str text = str_of(texts->p[i]);
                size_t n = (size_t)str_find(text, '=');
                const struct option *o = option_find(policy_tables, POLICY_TABLES, str_first(text, n));

                if (o)
                        r = option_set(ret, o, str_skip(text, n + 1), "config", why);
                else
                        r = -EINVAL;
        }

        return r;
}

int state_call(const struct state *state, const bailey_options *options, struct call_settings *ret,
               struct bailey_error *error) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(option_values_done) struct option_values config = { 0 };
        struct err why = { 0 };
        if (read_back(&state->request.config, &config, &why) < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        const struct policy_request request = { .command_line = &config,
                                                .call = options ? &options->values : NULL,
                                                .only_text = text_or(state->request.policy, ""),
                                                .base = state->request.base };
        int r = check_policy(&request, &policy, NULL, error);
        if (!policy)
                return r;

        ret->timeout_ns = policy->process.timeout_ns;

        for (size_t i = 0; i < policy->process.env_set.n; i++)
                if (supervise_texts_add(&ret->variables, str_of(policy->process.env_set.p[i].text)) < 0)
                        return report_memory(error);

        return BAILEY_OK;
}

int state_check_call(const struct state *state, const bailey_options *options, struct bailey_error *error) {
        cleanup(call_settings_done) struct call_settings settings = { 0 };
        if (options && options->values.values.n)
                return state_call(state, options, &settings, error);

        return BAILEY_OK;
}
