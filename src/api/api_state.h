/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A validated config: what calls work with. Immutable and counted, so that an update swaps one pointer while calls go
 * on with the one they began with.
 */
#include "api/config.h"
#include "shell/classify.h"

#include <stdatomic.h>

struct state {
        atomic_uint refs;
        struct supervise_request request; /* all but job, cwd, call and argv */
        char *reload;                     /* the same as a block, for jobs that run already */
        struct sh_rules *rules;
        char *shell, *program, *workspace;
        uint64_t output_limit;
        enum bailey_unavailable unavailable;
        struct approver approver;
        struct classifier classifier;
        bailey_request_fn on_request;
        void *request_arg;
        bool asks_commands; /* the config names a way to ask: escalated commands go there where there is no callback */
        struct bailey_error no_program; /* why `program` is NULL */
};

/* `base`: what is relative is relative to this directory. */
int state_new(const bailey_config *config, const char *base, struct state **ret, struct bailey_error *error);
struct state *state_ref(struct state *state);
void state_unref(struct state *state);
void state_unrefp(struct state **state);

/* What the values of a call come to under this state. The supervisor applies them by itself; this is for a command that
 * runs without one. */
struct call_settings {
        uint64_t timeout_ns;
        supervise_texts variables; /* "NAME=VALUE" */
};
void call_settings_done(struct call_settings *settings);
int state_call(const struct state *state, const bailey_options *options, struct call_settings *ret,
               struct bailey_error *error);
/* Whether the values of a call are valid. */
int state_check_call(const struct state *state, const bailey_options *options, struct bailey_error *error);
