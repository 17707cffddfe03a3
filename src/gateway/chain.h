/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The configured upstream proxy: HTTP CONNECT or SOCKS5, with credentials, and a bypass list in the policy's pattern
 * syntax. It is asked for the name, not for an address, since such proxies judge by name too; the gate has judged the
 * name, and every address it has here, before.
 */
#include "gateway/worker.h"
#include "net/dial.h"

struct chain;
struct chain_bypass; /* compiled patterns */

/* NULL text or "": nothing bypasses. */
int chain_bypass_new(const char *patterns, struct chain_bypass **ret, struct err *err);
void chain_bypass_free(struct chain_bypass *bypass);

bool chain_is_used(const struct gateway *gateway, const struct authority *target);
/* As dial_start(): the stream that done gets leads to the target; addr is the proxy's. */
int chain_start(struct worker *worker, const struct authority *target, dial_fn *done, void *owner, struct chain **ret);
void chain_cancel(struct chain *chain);
