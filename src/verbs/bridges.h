/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* bailey bridge: tools of the host that a sandbox may call, and what would become of a call. */
#include "base/buf.h"
#include "conf/option.h"

/* Those that are built in, with their verbs. */
/* A tool that is built in; NULL behind the last. */
const char *bridges_name(size_t number);
int bridges_list(bool json, struct buf *out, struct err *err);
/* One tool as the policy has it, or as it is built in. -ENOENT: there is none. */
int bridges_show(const struct option_values *options, const char *name, struct buf *out, struct err *err);

enum bridge_outcome { BRIDGE_RUNS, BRIDGE_INSIDE, BRIDGE_REFUSED };
/* What would become of this call, without doing it. */
int bridges_check(const struct option_values *options, const char *name, char *const *words, size_t n, bool json,
                  enum bridge_outcome *ret, struct buf *out, struct err *err);
