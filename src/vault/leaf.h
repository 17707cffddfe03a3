/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Leaf certificates: minted on demand for one host and the gateway's key, and kept, the least used making room.
 * Bounded: LEAVES_MAX entries whatever is asked for.
 */
#include "vault/ca.h"

enum { LEAVES_MAX = 1024, LEAF_MAX = 2048, LEAF_DAYS = 30, LEAF_REUSED_HOURS = 24 };

struct leaves; /* opaque */

int leaves_new(struct ca *ca, struct leaves **ret, struct err *err); /* borrows the CA */
void leaves_free(struct leaves *leaves);
void leaves_freep(struct leaves **leaves);
/* The certificate for this host and public key (DER of a P-256 SubjectPublicKeyInfo); -EINVAL for another kind of key.
 * The bytes live until the next call. */
int leaves_get(struct leaves *leaves, const struct host *host, struct str key, struct str *ret, struct err *err);
size_t leaves_count(const struct leaves *leaves);
uint64_t leaves_minted(const struct leaves *leaves); /* so far, for tests */
