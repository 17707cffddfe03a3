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

/* The bytes of one message, with a descriptor or without. Returns their number, 0 at the end of the channel, -EAGAIN
 * when there is none, -EBADMSG when it is larger than any message or brings more than one descriptor. */
ssize_t ipc_receive_bytes(int sock, void *room, size_t max, int *ret_fd);
