/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The result of a command, while it is collected and afterwards. */
#include "bailey/manager.h"
#include "base/buf.h"
#include "base/vec.h"

struct output {
        struct buf kept;
        bool truncated;
};

struct bailey_result {
        int exit_code, signal;
        struct output out, err;
        uint64_t duration_ns;
        bool sandboxed;
        char notice[4096];
        VEC(struct bailey_violation) violations;
};

/* Reads what is there, keeps what fits, drops the rest. True while more may come. */
bool output_read(struct output *output, int fd);
int result_new(uint64_t output_limit, bailey_result **ret);
/* Texts are copied. */
int result_add_violation(bailey_result *result, const struct bailey_violation *from);
/* More for the notice, which is cut where it does not fit. */
void result_add_notice(bailey_result *result, const char *text);
/* Terminates the outputs; afterwards the result is only read. */
int result_finish(bailey_result *result);
void result_freep(bailey_result **result);
