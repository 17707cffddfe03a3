/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What clients in the sandbox trust: the roots of the host and Bailey's own CA, as one PEM file and as a key store for
 * Java.
 */
#include "base/buf.h"
#include "base/err.h"

enum { TRUST_BYTES_MAX = 8 << 20 };

struct trust_store {
        struct buf pem;     /* as it is in the file */
        struct buf entries; /* the same certificates, as Java's key store has them */
        unsigned n;         /* of them */
};
#define TRUST_STORE_NONE                                                                                               \
        { .pem = BUF(TRUST_BYTES_MAX), .entries = BUF(TRUST_BYTES_MAX) }

void trust_store_done(struct trust_store *store);
/* The host's roots ($SSL_CERT_FILE, or where distributions have them), then those in `configured` ("" or NULL: none). A
 * file that was named and cannot be read is an error. */
int trust_store_read(struct trust_store *store, const char *configured, struct err *err);
/* One more certificate, in DER. */
int trust_store_add(struct trust_store *store, struct str certificate, struct err *err);
/* All of them as a Java key store (JKS, password "changeit"). What is no certificate in the PEM text is passed over. */
int trust_store_java(const struct trust_store *store, struct buf *ret, struct err *err);
