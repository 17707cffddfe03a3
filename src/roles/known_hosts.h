/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Keys of hosts that the user knows, from files in the form of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT": plain names,
 * patterns and hashed names. Keys of authorities are left out (the agent sees keys, not certificates), and so are those
 * that any line revokes.
 */
#include "base/secrets/digest.h"
#include "base/vec.h"
#include "policy/match/host.h"

struct known_key {
        unsigned char digest[DIGEST_BYTES]; /* SHA-256 of the key as it is on the wire */
};
typedef VEC(struct known_key) known_keys;

/* Adds the keys that the text has for this host. -ENOMEM. */
int known_hosts_find(struct str text, const struct authority *target, known_keys *keys, known_keys *revoked);
/* Those that are revoked, taken away. */
void known_hosts_revoke(known_keys *keys, const known_keys *revoked);
/* "TYPE BASE64 ...": the key's digest. False: it is none. */
bool known_key_parse(struct str line, struct known_key *ret);
