/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The credentials of the policy: what they are, and proof that they work. No value is ever shown. */
#include "base/buf.h"
#include "base/err.h"
#include "conf/option.h"

/* One line, or one JSON object, for each credential. Nothing is read or started. */
int secrets_list(const struct option_values *options, bool json, struct buf *out, struct err *err);

struct secrets_proof {
        char target[256]; /* the host that was played, as the policy has it */
        char slot[128];
        bool swapped; /* the origin got the value where the client had sent the stand-in */
        bool hidden;  /* and when the origin repeated it, the client did not see it */
        char why[256];
};
/* One request from a client through a gateway of its own to an origin of its own that plays the credential's first
 * host, all on loopback: only the source is the real one. */
/* Other stand-ins from the next run on; name NULL: of all credentials. */
int secrets_rotate(const struct option_values *options, const char *name, struct err *err);
int secrets_test(const struct option_values *options, const char *name, struct secrets_proof *ret, struct err *err);
