/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one sandbox may use: client connections at once and a second, bytes sent out in all and to each host. Counters
 * are shared by all workers and atomic; only finding a host's counter takes a lock. 0 means unlimited everywhere.
 */
#include "ipc/gateway_messages.h"

#include <stdatomic.h>

struct quota;
struct host_bytes; /* the counter of one host; lives as long as the limits */

struct quota *quota_new(const struct gateway_start *start); /* NULL: no memory */
void quota_free(struct quota *quota);
/* Other limits, at once. What was counted stays counted; bytes are counted from when there is a limit for them. */
void quota_set(struct quota *quota, const struct gateway_limits *limits);

/* At accept: takes a place, or false. */
bool quota_enter(struct quota *quota, uint64_t now_ns);
void quota_leave(struct quota *quota);

/* False when nothing more may be sent out. */
bool quota_may_send(const struct quota *quota);
/* The host's counter; NULL with *ret_full false when hosts are not limited, with true when too many are counted. */
struct host_bytes *quota_host(struct quota *quota, const struct host *host, bool *ret_full);
bool quota_host_may_send(const struct quota *quota, const struct host_bytes *bytes);
/* Counts n bytes that were sent out; false when a limit is now passed. */
bool quota_sent(struct quota *quota, struct host_bytes *bytes, size_t n);
