/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * SipHash-1-3, keyed: an attacker who chooses the keys cannot choose collisions without the seed. hash_seed() is random
 * per process.
 */
#include <stddef.h>
#include <stdint.h>

struct hash_key {
        uint64_t a, b;
};

const struct hash_key *hash_seed(void);
uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t n);
