/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Connects to one of several addresses, all of which the caller has judged: families interleaved, the next attempt
 * begun when the one before failed or after a stagger, the first to connect wins and the others are closed.
 */
#include "net/stream.h"
#include "policy/match/addr.h"

#define DIAL_ADDRS_MAX 32
#define DIAL_STAGGER_NS (250 * 1000000ULL)

struct dial;

/* On success error is 0, the stream is the caller's and *addr is where it leads; else the most telling negative errno
 * (-ECONNREFUSED before -EHOSTUNREACH before -ETIMEDOUT, -EMFILE when out of descriptors). The dial is gone after this.
 */
typedef void dial_fn(void *owner, int error, struct stream *s, const struct addr *addr);

/* done is never called from inside. 0 or -ENOMEM, -EINVAL (no or too many addresses). */
int dial_start(struct loop *loop, const struct addr *addrs, size_t n, uint16_t port, uint64_t timeout_ns, dial_fn *done,
               void *owner, struct dial **ret);
/* Closes all attempts; done is not called. Accepts NULL. */
void dial_cancel(struct dial *dial);
