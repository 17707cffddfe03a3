/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What clients in the sandbox trust: the roots of the host and Bailey's own CA, as one PEM file and as a key store for
 * Java.
 */
#include "base/buf.h"
#include "base/err.h"

enum { TRUST_BYTES_MAX = 8 << 20 };

/* The host's roots ($SSL_CERT_FILE, or where distributions have them), then those in `configured` ("" or NULL: none). A
 * file that was named and cannot be read is an error. */
int trust_store_roots(const char *configured, struct buf *ret, struct err *err);
/* The PEM bundle: the roots as they are, then the certificate (DER). */
int trust_store_pem(struct str roots, struct str certificate, struct buf *ret, struct err *err);
/* The same as a Java key store (JKS, password "changeit"). What is no certificate in the PEM text is passed over. */
int trust_store_java(struct str pem, struct buf *ret, struct err *err);
