/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey exec`: a command is classified, a person is asked where the classifier wants that, and then it runs in a
 * sandbox, with its output passed through or captured.
 */
#include "bailey/manager.h"
#include "run/run.h"
#include "verbs/command_check.h"

struct exec_request {
        const struct option_values *options; /* of the policy */
        struct check_question question;
        const char *shell;      /* for one text */
        const char *hosts_file; /* NULL: none */
        bool approved;          /* the caller has asked already */
        bool quiet;             /* no summary at the end */
        bool capture;           /* output goes into the result, up to the limit */
        uint64_t output_limit;
};

enum exec_stage { EXEC_NOT_CHECKED, EXEC_FORBIDDEN, EXEC_NOT_APPROVED, EXEC_RAN };

struct exec_outcome {
        enum exec_stage stage;        /* EXEC_NOT_CHECKED */
        struct check_verdict verdict; /* of the others */
        enum run_end end;             /* EXEC_RAN */
        int status;                   /* as of run_command() */
        bailey_result *result;        /* EXEC_RAN with capture and RUN_ENDED, else NULL */
};
void exec_outcome_done(struct exec_outcome *outcome);

/* Fills *e for every outcome but a command that ran to its end. */
void exec_command(const struct exec_request *request, struct exec_outcome *ret, struct err *err);
