/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a shell will read as a program: sh -c, eval, what xargs is fed with. */
#include "shell/call.h"
#include "shell/variables.h"

void judge_program_here(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n) {
        bool unknown;
        struct str text = sh_args_join(judge, args, n, &unknown);

        if (unknown)
                judge_not_understood(judge, "a part of the program text is known only when it runs");

        bool fed = n > 0 && args[n - 1].fed && (call->pipe_facts & FACT_DOWNLOADS);
        if (unknown && (fed || (call->inner_facts & FACT_DOWNLOADS)))
                judge_find(judge, FINDING_PIPE_DOWNLOAD);

        judge_text(judge, text);
}

/* A shell that is started for it sees what was exported, and takes what it sets with it. */
void judge_program(struct judge *judge, const struct sh_call *call, const struct sh_arg *args, size_t n) {
        const struct sh_variable *before = judge->where.variables;

        variables_enter_program(judge);
        judge_program_here(judge, call, args, n);
        judge->where.variables = judge->failed.variables = before;
}
