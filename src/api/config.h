/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of configs and options: settings as the option registry has them, and what only the library knows. */
#include "bailey/manager.h"
#include "conf/option.h"
#include "ipc/supervise_messages.h"

enum { CONFIG_OUTPUT_LIMIT = 10 * 1000 * 1000 };

struct approver {
        bailey_approval_fn fn;
        void *arg;
};

struct classifier {
        bailey_classifier_fn fn;
        void *arg;
};

struct bailey_config {
        struct option_values values;
        char *policy, *shell, *executable, *hosts_file;
        uint64_t output_limit;
        enum bailey_unavailable unavailable;
        struct approver approver;
        struct classifier classifier;
        bailey_request_fn on_request;
        void *request_arg;
};

struct bailey_options {
        struct option_values values;
        char *directory, *shell;
        uint64_t output_limit, timeout_ms;
        bool has_limit, has_approver, unclassified;
        struct approver approver;
        struct classifier classifier; /* fn NULL: the config's */
        int input;                    /* -1: nothing to read */
        bailey_cancel *cancel;
};

struct bailey_cancel {
        int fd; /* api_flag_new(), raised once it was triggered */
};

/* "key=value" for every value. */
int config_texts(const struct option_values *values, supervise_texts *ret);
bool config_sets(const struct option_values *values, const char *key);
