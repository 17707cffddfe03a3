/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Running one command to its end. */
#include "api/manager.h"
#include "api/result.h"

struct exec_call {
        const char *const *argv;
        const bailey_options *options; /* NULL: none */
        enum supervise_job job;
        const supervise_texts *judged; /* NULL: it was not judged */
};

/* Approved already. */
int exec_run(bailey_manager *manager, const struct state *state, const struct exec_call *call, bailey_result **ret,
             struct bailey_error *error);
/* The job as a block of text; heap. */
int exec_block(const struct state *state, const struct exec_call *call, char **ret, struct bailey_error *error);
/* The directory where it starts, absolute; heap. */
int exec_directory(const struct state *state, const bailey_options *options, char **ret, struct bailey_error *error);
/* What the end of a job means; OK for one that ran to its end. */
int exec_end(const struct supervise_message *end, struct bailey_error *error);
/* Answers a question about a host through the callback that the state names. */
void exec_answer(const struct state *state, int link, const struct supervise_message *question);
