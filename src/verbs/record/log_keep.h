/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* bailey log prune: old audit logs go, on record. */
#include "base/buf.h"
#include "base/err.h"

struct log_keep_request {
        bool has_max_age, has_max_size; /* else the user's own log.max_age and log.max_size */
        uint64_t max_age_ns, max_bytes;
        bool dry, json;
};
int log_keep(const struct log_keep_request *request, struct buf *out, struct err *err);
