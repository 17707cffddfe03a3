/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The certificate authority that the sandbox trusts: made for one sandbox and kept in memory, or kept in a directory
 * for the background gateway. Its key is in OpenSSL's locked heap and leaves it only into the place where it is kept.
 */
#include "base/err.h"
#include "base/str.h"
#include "ipc/vault_messages.h"

enum { CA_SIGNATURE_MAX = 512, CA_KEY_ID = 20 };

struct ca; /* opaque */

/* A new one. `label` is part of its name, for people who look at a certificate. */
int ca_new(enum vault_ca kind, const char *label, struct ca **ret, struct err *err);
/* The one in the shared memory (VAULT_KEEP_BYTES) if there is one, else a new one, stored there. */
int ca_keep(int fd, enum vault_ca kind, const char *label, struct ca **ret, struct err *err);
/* The one in the directory (ca.key 0600, ca.crt 0644), else a new one, stored there. Links, files of others, keys that
 * others may read, halves and what has expired are refused with the way out. */
int ca_open(const char *directory, enum vault_ca kind, const char *label, struct ca **ret, struct err *err);
void ca_free(struct ca *ca);
void ca_freep(struct ca **ca);

struct str ca_certificate(const struct ca *ca); /* DER */
struct str ca_name(const struct ca *ca);        /* DER of its subject, which is the issuer of what it signs */
struct str ca_algorithm(const struct ca *ca);   /* DER of the AlgorithmIdentifier of its signatures */
const uint8_t *ca_key_id(const struct ca *ca);  /* CA_KEY_ID bytes */
uint64_t ca_end(const struct ca *ca);           /* seconds since 1970 */
/* SHA-256 of the bytes, signed. *ret_n bytes of at most CA_SIGNATURE_MAX. */
int ca_sign(struct ca *ca, struct str bytes, uint8_t *ret, size_t *ret_n, struct err *err);
