/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All keys of a policy file as one tree: those of the rows, then those of the records. "network.limits.idle" is three
 * levels.
 */
#include "policy/judge/records.h"
#include "policy/options.h"

enum { POLICY_KEYS = POLICY_ROWS + POLICY_RECORDS, KEY_MAX = 96 };

/* The full key, or NULL for a row that is not in files. */
static inline const char *key_at(size_t i) {
        return i < POLICY_ROWS ? policy_rows[i].key : policy_records[i - POLICY_ROWS].key;
}
/* The part of a full key at the level below `prefix` ("", "network."); empty when the key is not below it. */
struct str key_component(const char *key, struct str prefix);
/* Are there keys below it? */
bool key_is_section(const char *key);
