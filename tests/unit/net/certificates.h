/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Certificates for tests, made on the spot: an authority, and leaves that are as good or as bad as asked for. */
#include "base/str.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

struct authority_maker { /* a certificate authority */
        EVP_PKEY *key;
        X509 *certificate;
};

struct leaf_wish {
        const char *names; /* subjectAltName, "DNS:a.test,IP:127.0.0.1" */
        long from, until;  /* seconds from now */
        bool self_signed;  /* not by the authority: only where the test holds the key */
};

void ca_make(struct authority_maker *ca, const char *name);
void ca_done(struct authority_maker *ca);
/* Writes the certificate, PEM, into a new file below /tmp; the name is the caller's to unlink and free. */
char *ca_write(const struct authority_maker *ca);
/* A leaf for the public key (SubjectPublicKeyInfo); DER, to be freed with OPENSSL_free(). */
struct str ca_sign(const struct authority_maker *ca, struct str public_key, const struct leaf_wish *wish);
