/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which workspace files a person has looked at and trusted: path and SHA-256 of what was read, one per line, in the
 * state directory (0700, never within reach of a sandbox). A file that changed is a file that nobody has looked at.
 */
#include "base/err.h"
#include "base/secrets/digest.h"
#include "base/vec.h"

struct trust_entry {
        char digest[DIGEST_HEX_MAX];
        char *path;
};
struct trust_list {
        VEC(struct trust_entry) entries;
};
void trust_list_done(struct trust_list *list);

/* Nothing was ever trusted: an empty list. A damaged record is an error, not an empty list. */
int trust_load(struct trust_list *ret, struct err *err);
bool trust_has(const struct trust_list *list, const char *path, const char *digest_hex);
/* Replaces what was recorded for the path. */
int trust_add(const char *path, const char *digest_hex, struct err *err);
/* -ENOENT when it was not there. */
int trust_remove(const char *path, struct err *err);
