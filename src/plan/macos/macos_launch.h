/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A launch on macOS as data: the profile, and everything around it. Pure, as plan/build.h is for Linux; printed by
 * `bailey plan --for macos`, applied by sandbox/darwin.
 */
#include "plan/env.h"
#include "plan/macos/seatbelt.h"

enum macos_limit_kind { MACOS_LIMIT_PROCESSES, MACOS_LIMIT_FILES, MACOS_LIMIT_CPU, MACOS_LIMIT_CORE, MACOS_LIMITS };

struct macos_limit {
        enum macos_limit_kind kind;
        uint64_t value;
};
const char *macos_limit_name(enum macos_limit_kind kind);

struct macos_request {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct seatbelt_host *host;
        char *const *environment, *const *argv; /* NULL-terminated */
        const char *cwd, *id;
        const char *secret; /* of this run: the gateway answers nobody without it; NULL: no gateway */
        /* Of it the certificates, the stand-ins and the names that are held back; NULL: none. */
        const struct env_input *vault;
};

struct macos_launch {
        struct seatbelt *profile;
        char **environment, **argv; /* NULL-terminated, owned */
        char *cwd;
        VEC(struct macos_limit) limits; /* of each process */
};

int macos_launch_build(const struct macos_request *request, struct macos_launch **ret, struct err *err);
void macos_launch_free(struct macos_launch *launch);
void macos_launch_freep(struct macos_launch **launch);

/* The profile, ready for `sandbox-exec -f`, with all else in comments before it. The secret is not shown. */
int macos_launch_text(const struct macos_launch *launch, struct buf *out);
int macos_launch_json(const struct macos_launch *launch, struct buf *out);

/* The address for a proxy variable: "bailey:SECRET@127.0.0.1". Heap text. */
char *macos_proxy_address(const char *secret);
