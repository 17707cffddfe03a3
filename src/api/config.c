/* SPDX-License-Identifier: Apache-2.0 */
#include "api/config.h"

#include "api/api_report.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/node.h"
#include "conf/suggest.h"
#include "conf/yaml.h"
#include "policy/apply.h"
#include "policy/options.h"
#include "policy/presets.h"

#include <errno.h>
#include <stdlib.h>

static const char *key_of(const struct option *option) {
        return option->key ? option->key : option->flag;
}

/* Where settings come from is the program's business: these two name files of people. */
static bool is_closed(const struct option *option) {
        return option == &policy_rows[ROW_POLICY] || option == &policy_rows[ROW_WORKSPACE_POLICY];
}

static int config_set(struct option_values *values, const char *key, const char *value, struct bailey_error *error) {
        struct err why = { 0 };

        if (!values || !key || !value)
                return report_null(error);

        struct suggestion suggestion = suggest_for(str_of(key));

        for (size_t i = 0; i < POLICY_ROWS; i++) {
                const struct option *o = &policy_rows[i];
                if (is_closed(o))
                        continue;

                if (strcmp(key, key_of(o)) == 0) {
                        int r = policy_check_value((enum policy_row)i, str_of(value), &why);

                        if (r >= 0)
                                r = option_set(values, o, str_of(value), key, &why);
                        if (r < 0)
                                return report_err(error, BAILEY_E_CONFIG, &why);

                        return BAILEY_OK;
                }

                suggest_offer(&suggestion, key_of(o));
        }

        return report(error, BAILEY_E_CONFIG, "there is no setting %s%s", show(str_of(key)).text,
                      suggest_text(&suggestion, "").text);
}

static int config_replace(char **text, const char *with, struct bailey_error *error) {
        char *copy = str_dup(str_of(with));
        if (!copy)
                return report_memory(error);
        free(*text);
        *text = copy;
        return BAILEY_OK;
}

int config_texts(const struct option_values *values, supervise_texts *ret) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < values->values.n; i++) {
                const struct option_value *value = &values->values.p[i];
                cleanup(free_ptr) char *text = str_format("%s=%s", key_of(value->option), value->text);
                if (text)
                        r = supervise_texts_add(ret, str_of(text));
                else
                        r = -ENOMEM;
        }
        return r;
}

bool config_sets(const struct option_values *values, const char *key) {
        for (size_t i = 0; i < values->values.n; i++)
                if (strcmp(key_of(values->values.p[i].option), key) == 0)
                        return true;
        return false;
}

static int copy_values(const struct option_values *from, struct option_values *to) {
        for (size_t i = 0; i < from->values.n; i++) {
                const struct option_value *value = &from->values.p[i];
                if (option_set(to, value->option, str_of(value->text), value->origin, NULL) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/*
 * Configs.
 */
int bailey_config_new(const char *preset, bailey_config **ret, struct bailey_error *error) {
        struct err why = { 0 };

        if (!ret)
                return report_null(error);

        const char *name = preset ? preset : "default";
        if (!preset_find(str_of(name), &why))
                return report_err(error, BAILEY_E_ARGUMENT, &why);

        bailey_config *c = calloc(1, sizeof *c);
        if (!c)
                return report_memory(error);

        c->output_limit = CONFIG_OUTPUT_LIMIT;
        c->unavailable = strcmp(name, "development") == 0 ? BAILEY_WARN : BAILEY_STRICT;
        int r = config_set(&c->values, "preset", name, error);
        if (r == BAILEY_OK)
                r = config_replace(&c->shell, "/bin/sh", error);

        if (r != BAILEY_OK) {
                bailey_config_free(c);
                return r;
        }

        *ret = c;
        return BAILEY_OK;
}

int bailey_config_copy(const bailey_config *from, bailey_config **ret, struct bailey_error *error) {
        if (!from || !ret)
                return report_null(error);

        bailey_config *c = calloc(1, sizeof *c);
        if (!c)
                return report_memory(error);

        *c = *from;
        c->values = (struct option_values){ 0 };
        c->policy = from->policy ? str_dup(str_of(from->policy)) : NULL;
        c->shell = str_dup(str_of(from->shell));
        c->executable = from->executable ? str_dup(str_of(from->executable)) : NULL;
        c->hosts_file = from->hosts_file ? str_dup(str_of(from->hosts_file)) : NULL;

        bool whole = c->shell && !c->policy == !from->policy && !c->executable == !from->executable &&
                     !c->hosts_file == !from->hosts_file;
        if (!whole || copy_values(&from->values, &c->values) < 0) {
                bailey_config_free(c);
                return report_memory(error);
        }

        *ret = c;
        return BAILEY_OK;
}

void bailey_config_free(bailey_config *config) {
        if (!config)
                return;

        option_values_done(&config->values);
        free(config->policy);
        free(config->shell);
        free(config->executable);
        free(config->hosts_file);
        free(config);
}

int bailey_config_set(bailey_config *config, const char *key, const char *value, struct bailey_error *error) {
        return config_set(config ? &config->values : NULL, key, value, error);
}

int bailey_config_policy(bailey_config *config, const char *text, struct bailey_error *error) {
        cleanup(document_freep) struct document *document = NULL;
        struct err why = { 0 };
        if (!config || !text)
                return report_null(error);
        if (yaml_read(str_of(text), STR("policy"), &document, &why) < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);
        return config_replace(&config->policy, text, error);
}

int bailey_config_policy_file(bailey_config *config, const char *path, struct bailey_error *error) {
        cleanup(buf_done) struct buf content = BUF(DOCUMENT_BYTES_MAX);
        struct err why = { 0 };

        if (!config || !path)
                return report_null(error);
        if (path_read_file(path, DOCUMENT_BYTES_MAX, &content, &why) < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);
        if (str_has_nul(buf_str(&content)))
                return report(error, BAILEY_E_CONFIG, "%s holds a NUL byte", path);

        const char *text = buf_text(&content);
        if (!text)
                return report_memory(error);

        return bailey_config_policy(config, text, error);
}

int bailey_config_workspace(bailey_config *config, const char *directory, struct bailey_error *error) {
        return bailey_config_set(config, "workspace", directory, error);
}
int bailey_config_allow(bailey_config *config, const char *pattern, struct bailey_error *error) {
        return bailey_config_set(config, "network.allow", pattern, error);
}
int bailey_config_deny(bailey_config *config, const char *pattern, struct bailey_error *error) {
        return bailey_config_set(config, "network.deny", pattern, error);
}
int bailey_config_write(bailey_config *config, const char *path, struct bailey_error *error) {
        return bailey_config_set(config, "filesystem.write", path, error);
}
int bailey_config_deny_read(bailey_config *config, const char *path, struct bailey_error *error) {
        return bailey_config_set(config, "filesystem.deny_read", path, error);
}
int bailey_config_deny_write(bailey_config *config, const char *path, struct bailey_error *error) {
        return bailey_config_set(config, "filesystem.deny_write", path, error);
}
int bailey_config_env(bailey_config *config, const char *assignment, struct bailey_error *error) {
        return bailey_config_set(config, "process.env.set", assignment, error);
}

int bailey_config_unavailable(bailey_config *config, enum bailey_unavailable what, struct bailey_error *error) {
        if (!config)
                return report_null(error);
        if (what != BAILEY_STRICT && what != BAILEY_WARN)
                return report(error, BAILEY_E_ARGUMENT, "neither BAILEY_STRICT nor BAILEY_WARN");
        config->unavailable = what;
        return BAILEY_OK;
}

int bailey_config_shell(bailey_config *config, const char *path, struct bailey_error *error) {
        if (config && path)
                return config_replace(&config->shell, path, error);

        return report_null(error);
}

int bailey_config_output_limit(bailey_config *config, uint64_t bytes, struct bailey_error *error) {
        if (!config)
                return report_null(error);
        config->output_limit = bytes;
        return BAILEY_OK;
}

int bailey_config_executable(bailey_config *config, const char *path, struct bailey_error *error) {
        if (config && path)
                return config_replace(&config->executable, path, error);

        return report_null(error);
}

int bailey_config_hosts_file(bailey_config *config, const char *path, struct bailey_error *error) {
        if (config && path)
                return config_replace(&config->hosts_file, path, error);

        return report_null(error);
}

int bailey_config_on_approval(bailey_config *config, bailey_approval_fn fn, void *arg, struct bailey_error *error) {
        if (!config)
                return report_null(error);
        config->approver = (struct approver){ fn, arg };
        return BAILEY_OK;
}

int bailey_config_classifier(bailey_config *config, bailey_classifier_fn fn, void *arg, struct bailey_error *error) {
        if (!config)
                return report_null(error);
        config->classifier = (struct classifier){ fn, arg };
        return BAILEY_OK;
}

int bailey_config_on_request(bailey_config *config, bailey_request_fn fn, void *arg, struct bailey_error *error) {
        if (!config)
                return report_null(error);
        config->on_request = fn;
        config->request_arg = arg;
        return BAILEY_OK;
}

/*
 * Options of a call.
 */
int bailey_options_new(bailey_options **ret, struct bailey_error *error) {
        if (!ret)
                return report_null(error);

        bailey_options *o = calloc(1, sizeof *o);
        if (!o)
                return report_memory(error);

        o->input = -1;
        *ret = o;

        return BAILEY_OK;
}

void bailey_options_free(bailey_options *options) {
        if (!options)
                return;
        option_values_done(&options->values);
        free(options->directory);
        free(options->shell);
        free(options);
}

int bailey_options_set(bailey_options *options, const char *key, const char *value, struct bailey_error *error) {
        return config_set(options ? &options->values : NULL, key, value, error);
}

int bailey_options_directory(bailey_options *options, const char *path, struct bailey_error *error) {
        if (options && path)
                return config_replace(&options->directory, path, error);

        return report_null(error);
}

int bailey_options_timeout(bailey_options *options, uint64_t milliseconds, struct bailey_error *error) {
        cleanup(free_ptr) char *text = str_format("%llums", (unsigned long long)milliseconds);

        if (!text)
                return report_memory(error);
        int r = bailey_options_set(options, "process.timeout", text, error);
        if (r == BAILEY_OK)
                options->timeout_ms = milliseconds;
        return r;
}

int bailey_options_shell(bailey_options *options, const char *path, struct bailey_error *error) {
        if (options && path)
                return config_replace(&options->shell, path, error);

        return report_null(error);
}

int bailey_options_output_limit(bailey_options *options, uint64_t bytes, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->output_limit = bytes;
        options->has_limit = true;
        return BAILEY_OK;
}

int bailey_options_on_approval(bailey_options *options, bailey_approval_fn fn, void *arg, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->approver = (struct approver){ fn, arg };
        options->has_approver = true;
        return BAILEY_OK;
}

int bailey_options_classifier(bailey_options *options, bailey_classifier_fn fn, void *arg, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->classifier = (struct classifier){ fn, arg };
        return BAILEY_OK;
}

int bailey_options_input(bailey_options *options, int fd, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->input = fd;
        return BAILEY_OK;
}

int bailey_options_classify(bailey_options *options, int on, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->unclassified = !on;
        return BAILEY_OK;
}

int bailey_options_cancel(bailey_options *options, bailey_cancel *cancel, struct bailey_error *error) {
        if (!options)
                return report_null(error);
        options->cancel = cancel;
        return BAILEY_OK;
}
