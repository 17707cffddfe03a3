/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Digests, from nettle, the only library that every program links: OpenSSL costs a process two milliseconds before
 * main, and the launch path needs only this. (On macOS from the system's own library, without HMAC and SHA-1, which
 * nothing there needs.)
 */
#include "base/str.h"

#define DIGEST_BYTES 32
#define DIGEST_HEX_MAX 65

void digest_sha256(struct str data, unsigned char ret[static DIGEST_BYTES]);
/* Two pieces, as if joined. */
void digest_sha256_pair(struct str first, struct str second, unsigned char ret[static DIGEST_BYTES]);
/* Keyed (RFC 2104). */
void digest_hmac(struct str key, struct str data, unsigned char ret[static DIGEST_BYTES]);

/* In pieces: the library's own state, which stays behind this module. */
struct digest {
        uint64_t state[16];
};
void digest_begin(struct digest *digest);
void digest_add(struct digest *digest, struct str data);
void digest_end(struct digest *digest, unsigned char ret[static DIGEST_BYTES]); /* and begins anew */

/* SHA-1 of the pieces one after the other: for file formats that are made with it, never for anything that must be
 * safe.
 */
#define DIGEST_SHA1_BYTES 20
void digest_sha1(const struct str *pieces, size_t n, unsigned char ret[static DIGEST_SHA1_BYTES]);
void digest_hex(const unsigned char digest[static DIGEST_BYTES], char ret[static DIGEST_HEX_MAX]);
