/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the filtered agent may do, as the supervisor writes it and the gateway reads it: lines of text,
 *
 *     key HEX -              a key of the agent that the sandbox may see; HEX: SHA-256 of the key
 *     host HEX HOST:PORT     a key of a host that keys may authenticate to
 *     sign free              SSHSIGs of git's may be signed; "ask": if a person agrees
 */
#include "base/secrets/digest.h"
#include "base/vec.h"

struct agent_key {
        unsigned char digest[DIGEST_BYTES];
        char name[264]; /* of a host */
        bool host;
};

struct agent_keys {
        VEC(struct agent_key) rows;
        bool sign;
};

/* -EBADMSG: it is no such text; -ENOMEM. */
int agent_keys_read(struct str text, struct agent_keys *ret);
void agent_keys_done(struct agent_keys *keys);
/* The row for a key as it is on the wire; NULL: there is none. */
const struct agent_key *agent_keys_find(const struct agent_keys *keys, struct str wire, bool host);
/* "SHA256:...", as ssh shows it. */
enum { AGENT_FINGERPRINT_MAX = 56 };
void agent_fingerprint(struct str wire, char ret[static AGENT_FINGERPRINT_MAX]);
