/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `bailey run` on macOS, and `bailey supervise`, which runs for libbailey. */
#include "control/judged.h"
#include "control/link.h"

struct macos_run_request {
        const struct option_values *options; /* of the policy */
        const struct policy_request *policy; /* not NULL: in the place of the options */
        char *const *argv;
        const char *hosts_file;      /* addresses of names, before any name server; NULL: none */
        const char *ca_bundle;       /* roots that the gateway trusts; NULL: the system's */
        bool quiet;                  /* denials are not looked for, and refusals are not printed */
        bool starts_here;            /* in the current directory, not in the workspace */
        const struct judged *judged; /* what was said about the command before; NULL: nothing */
        const struct link *link;     /* the program that wants it; NULL: a person does */
        bool *ret_signalled;         /* a signal ended the command; NULL: of no interest */
};

enum macos_run_end {
        MACOS_RUN_ENDED,
        MACOS_RUN_BAD_POLICY,
        MACOS_RUN_REFUSED,
        MACOS_RUN_NOT_FOUND,
        MACOS_RUN_TIMED_OUT,
        MACOS_RUN_LEFT, /* the program behind the link is gone */
        MACOS_RUN_FAILED
};

/* *ret_code: what the command exited with, or 128 and its signal. */
enum macos_run_end macos_run(const struct macos_run_request *request, int *ret_code, struct err *err);
