/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `bailey run` on macOS. */
#include "base/err.h"
#include "conf/option.h"

struct macos_run_request {
        const struct option_values *options; /* of the policy */
        char *const *argv;
        const char *hosts_file; /* addresses of names, before any name server; NULL: none */
        bool quiet;             /* denials are not looked for, and refusals are not printed */
};

enum macos_run_end {
        MACOS_RUN_ENDED,
        MACOS_RUN_BAD_POLICY,
        MACOS_RUN_REFUSED,
        MACOS_RUN_NOT_FOUND,
        MACOS_RUN_TIMED_OUT,
        MACOS_RUN_FAILED
};

/* *ret_code: what the command exited with, or 128 and its signal. */
enum macos_run_end macos_run(const struct macos_run_request *request, int *ret_code, struct err *err);
