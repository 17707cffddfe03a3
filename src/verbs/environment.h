/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The environment of a sandbox, printed: for `bailey env`. */
#include "base/buf.h"
#include "base/err.h"
#include "conf/option.h"

struct environment_request {
        const struct option_values *options; /* of the policy: what it passes and sets */
        char *const *host;                   /* NULL-terminated */
        const char *http, *socks;            /* "ADDR:PORT" of a gateway; NULL: none */
        const char *sandbox_id;
        bool container;
        bool json;
};

/* Lines for a shell's eval: what is set is exported, what is taken away is unset. Or one JSON array. */
int environment_show(const struct environment_request *environment_request, struct buf *out, struct err *err);
