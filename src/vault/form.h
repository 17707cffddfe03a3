/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stand-ins of a fixed form, for secrets that are renewed: they stay the same when the value changes its length, and
 * they can be made before there is a value.
 */
#include "vault/stand_in.h"

/* "opaque:PREFIX": the prefix and FORM_OPAQUE letters and digits. "jwt": a token that decodes, with claims that clients
 * look at and nobody needs to hide (of the real one, if it has them), a distant expiry, and a random signature. `real`
 * may be empty. Heap text. */
enum { FORM_OPAQUE = 72, FORM_SIGNATURE = 86 };
int form_make(struct stand_in_source *source, struct str form, struct str real, char **ret, struct err *err);
