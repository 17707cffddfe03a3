/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Checks that every message must pass, from any sender. */
#include "policy/match/host.h"

/* Canonical: the one canonicaliser, given the text, makes exactly this host of it. */
bool ipc_host_valid(const struct host *host);
/* Of a valid host what is used; the rest is zero. */
void ipc_host_copy(struct host *to, const struct host *from);
/* Printable ASCII. */
bool ipc_text_valid(struct str s);
