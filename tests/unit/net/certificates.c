/* SPDX-License-Identifier: Apache-2.0 */
#include "certificates.h"

#include "../cmocka_all.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

static void add_extension(X509 *x, X509 *issuer, int nid, const char *value) {
        X509V3_CTX context;
        X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        assert_non_null(e);
        assert_int_equal(X509_add_ext(x, e, -1), 1);
        X509_EXTENSION_free(e);
}

static X509 *blank(const char *name, long from, long until) {
        static long serial = 1;
        X509 *x = X509_new();
        assert_non_null(x);
        X509_set_version(x, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
        X509_gmtime_adj(X509_getm_notBefore(x), from);
        X509_gmtime_adj(X509_getm_notAfter(x), until);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
                                   0);
        return x;
}

void ca_make(struct authority_maker *ca, const char *name) {
        ca->key = EVP_EC_gen("P-256");
        ca->certificate = blank(name, -60, 86400);
        X509_set_issuer_name(ca->certificate, X509_get_subject_name(ca->certificate));
        X509_set_pubkey(ca->certificate, ca->key);
        add_extension(ca->certificate, ca->certificate, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(ca->certificate, ca->certificate, NID_key_usage, "critical,keyCertSign");
        add_extension(ca->certificate, ca->certificate, NID_subject_key_identifier, "hash");
        assert_true(X509_sign(ca->certificate, ca->key, EVP_sha256()) > 0);
}

void ca_done(struct authority_maker *ca) {
        EVP_PKEY_free(ca->key);
        X509_free(ca->certificate);
}

char *ca_write(const struct authority_maker *ca) {
        char *path = strdup("/tmp/bailey-test-ca.XXXXXX");
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        FILE *f = fdopen(fd, "w");
        assert_int_equal(PEM_write_X509(f, ca->certificate), 1);
        fclose(f);
        return path;
}

struct str ca_sign(const struct authority_maker *ca, struct str public_key, const struct leaf_wish *wish) {
        const unsigned char *p = (const unsigned char *)public_key.p;
        EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)public_key.n);
        assert_non_null(key);
        X509 *x = blank("leaf", wish->from ? wish->from : -60, wish->until ? wish->until : 3600);
        X509_set_issuer_name(x, wish->self_signed ? X509_get_subject_name(x) : X509_get_subject_name(ca->certificate));
        X509_set_pubkey(x, key);
        add_extension(x, ca->certificate, NID_subject_alt_name, wish->names);
        add_extension(x, ca->certificate, NID_ext_key_usage, "serverAuth");
        /* With self_signed it claims to be its own issuer; whose key signed it does not matter any more. */
        assert_true(X509_sign(x, ca->key, EVP_sha256()) > 0);
        unsigned char *der = NULL;
        int n = i2d_X509(x, &der);
        assert_true(n > 0);
        X509_free(x);
        EVP_PKEY_free(key);
        return str_n(der, (size_t)n);
}
