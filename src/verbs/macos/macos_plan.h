/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `bailey plan --for macos`: what a Mac would be told, shown on any system. */
#include "base/buf.h"
#include "base/err.h"
#include "conf/option.h"

struct macos_plan_request {
        const struct option_values *options; /* of the policy */
        char *const *argv;
        bool json;
};

/* What is otherwise on a Mac than on Linux, for `bailey doctor --for macos` and docs/macos.md. */
struct macos_difference {
        const char *about, *on_linux, *on_macos;
};
extern const struct macos_difference macos_differences[];
extern const size_t n_macos_differences;
#define MACOS_STATE "generated and checked on Linux, never yet run on a Mac"

enum macos_plan_end { MACOS_PLAN_SHOWN, MACOS_PLAN_BAD_POLICY, MACOS_PLAN_REFUSED, MACOS_PLAN_FAILED };

enum macos_plan_end macos_plan_show(const struct macos_plan_request *macos_plan_request, struct buf *out,
                                    struct err *err);
