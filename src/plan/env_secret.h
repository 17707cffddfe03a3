/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Does a variable look like a credential? First by its name, then by its value: `SMTP_PASS` says so itself,
 * `REDIS_URL=redis://:pw@host` does not. Pure. A false alarm costs a person one `--env-pass NAME`, a miss costs a key;
 * names and values that are known to be harmless are in tables beside the others.
 */
#include "base/str.h"

/* Static text for people ("credential by name", "a URL with a password", ...), or NULL. */
const char *env_secret_name(struct str name, struct str value);
const char *env_secret_value(struct str value);
