/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate that nobody but its own key has signed, for a client that learns its digest by another way. */
#include "base/cleanup.h"
#include "base/secrets/digest.h"
#include "net/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

static void certificate_freep(X509 **certificate) {
        X509_free(*certificate);
}

static bool self_add_extension(X509 *certificate, int nid, const char *value) {
        X509V3_CTX context;

        X509V3_set_ctx_nodb(&context);
        X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        bool done = extension && X509_add_ext(certificate, extension, -1) == 1;
        X509_EXTENSION_free(extension);
        return done;
}

static bool self_set_name(X509 *certificate) {
        X509_NAME *name = X509_get_subject_name(certificate);

        return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"Bailey, a paired device",
                                          -1, -1, 0) == 1 &&
               X509_set_issuer_name(certificate, name) == 1;
}

/* 64 bits by chance: browsers refuse two certificates of one issuer with the same number. */
static bool self_set_serial(X509 *certificate) {
        uint64_t number;

        return RAND_bytes_ex(tls_library(), (unsigned char *)&number, sizeof number, 0) == 1 &&
               ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), number >> 1 | 1) == 1;
}

/* A name is of 64 letters at most: what is longer is not for a device on the same network. */
static bool self_add_host(X509 *certificate, const struct host *host) {
        cleanup(free_ptr) char *text = NULL;
        struct str name = host_str(host);

        if (name.n > 2 && name.p[0] == '[')
                name = str_n(name.p + 1, name.n - 2);
        text = str_format("%s:%.*s", host->kind == HOST_ADDR ? "IP" : "DNS", STR_FMT(name));
        return text && self_add_extension(certificate, NID_subject_alt_name, text);
}

static X509 *self_make(const struct tls_context *context, const struct host *host, int64_t seconds) {
        cleanup(certificate_freep) X509 *made = X509_new_ex(tls_library(), NULL);
        bool done = made && X509_set_version(made, 2) == 1 && self_set_serial(made) && self_set_name(made) &&
                    X509_gmtime_adj(X509_getm_notBefore(made), -300) &&
                    X509_gmtime_adj(X509_getm_notAfter(made), (long)seconds) &&
                    X509_set_pubkey(made, context->leaf_key) == 1 && self_add_host(made, host) &&
                    self_add_extension(made, NID_basic_constraints, "critical,CA:FALSE") &&
                    self_add_extension(made, NID_key_usage, "critical,digitalSignature") &&
                    self_add_extension(made, NID_ext_key_usage, "serverAuth") &&
                    X509_sign(made, context->leaf_key, EVP_sha256()) > 0;

        return done ? take_ptr(&made) : NULL;
}

int tls_leaf_self(const struct tls_context *context, const struct host *host, int64_t seconds, struct tls_leaf **ret,
                  unsigned char ret_digest[static TLS_DIGEST_BYTES], struct err *err) {
        cleanup(certificate_freep) X509 *made = self_make(context, host, seconds);
        unsigned char *der = NULL;
        int n = made ? i2d_X509(made, &der) : 0;
        int r;

        ERR_clear_error();
        if (n <= 0)
                return err_set(err, ENOMEM, "the certificate cannot be made");
        digest_sha256(str_n(der, (size_t)n), ret_digest);
        r = tls_leaf_new(context, str_n(der, (size_t)n), ret, err);
        OPENSSL_free(der);
        return r;
}
