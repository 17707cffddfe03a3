/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls_hostkey.h"

#include "base/cleanup.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

enum { ED25519_KEY = 32, RSA_BITS_MIN = 2048 };

CLEANUP_PTR(EVP_PKEY, EVP_PKEY_free)
CLEANUP_PTR(EVP_PKEY_CTX, EVP_PKEY_CTX_free)
CLEANUP_PTR(EVP_MD_CTX, EVP_MD_CTX_free)
CLEANUP_PTR(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free)
CLEANUP_PTR(OSSL_PARAM, OSSL_PARAM_free)
CLEANUP_PTR(BIGNUM, BN_free)
CLEANUP_PTR(ECDSA_SIG, ECDSA_SIG_free)

static bool take_string(struct str *bytes, struct str *ret) {
        const unsigned char *b = (const unsigned char *)bytes->p;
        size_t n;

        if (bytes->n < 4)
                return false;
        n = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
        if (n > bytes->n - 4)
                return false;
        *ret = str_n(bytes->p + 4, n);
        *bytes = str_skip(*bytes, 4 + n);
        return true;
}

/* A positive mpint. */
static BIGNUM *take_number(struct str *bytes) {
        struct str text;

        if (!take_string(bytes, &text) || text.n == 0 || text.n > 2048 || (text.p[0] & 0x80))
                return NULL;
        return BN_bin2bn((const unsigned char *)text.p, (int)text.n, NULL);
}

static bool hostkey_verify(EVP_PKEY *key, const EVP_MD *md, struct str data, struct str signature) {
        cleanup(EVP_MD_CTX_freep) EVP_MD_CTX *context = EVP_MD_CTX_new();

        return context && EVP_DigestVerifyInit(context, NULL, md, NULL, key) == 1 &&
               EVP_DigestVerify(context, (const unsigned char *)signature.p, signature.n, (const unsigned char *)data.p,
                                data.n) == 1;
}

static EVP_PKEY *key_from(const char *type, OSSL_PARAM_BLD *build) {
        cleanup(OSSL_PARAM_freep) OSSL_PARAM *parameters = OSSL_PARAM_BLD_to_param(build);
        cleanup(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
        EVP_PKEY *key = NULL;

        if (!parameters || !context || EVP_PKEY_fromdata_init(context) != 1 ||
            EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1)
                return NULL;
        return key;
}

static bool ed25519_verifies(struct str key, struct str data, struct str signature) {
        struct str point;
        cleanup(EVP_PKEY_freep) EVP_PKEY *public_key = NULL;

        if (!take_string(&key, &point) || key.n > 0 || point.n != ED25519_KEY)
                return false;
        public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)point.p, point.n);
        return public_key && hostkey_verify(public_key, NULL, data, signature);
}

static bool rsa_verifies(struct str key, struct str algorithm, struct str data, struct str signature) {
        cleanup(BN_freep) BIGNUM *e = take_number(&key), *n = e ? take_number(&key) : NULL;
        cleanup(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
        cleanup(EVP_PKEY_freep) EVP_PKEY *public_key = NULL;
        const EVP_MD *md = str_is(algorithm, "rsa-sha2-512") ? EVP_sha512() : EVP_sha256();

        if (!str_is(algorithm, "rsa-sha2-512") && !str_is(algorithm, "rsa-sha2-256"))
                return false;
        if (!n || key.n > 0 || BN_num_bits(n) < RSA_BITS_MIN || !build ||
            OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) != 1 ||
            OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) != 1)
                return false;
        public_key = key_from("RSA", build);
        return public_key && hostkey_verify(public_key, md, data, signature);
}

static bool ecdsa_verifies(struct str type, struct str key, struct str data, struct str signature) {
        static const struct {
                const char *type, *curve, *group;
                const EVP_MD *(*md)(void);
        } kinds[] = { { "ecdsa-sha2-nistp256", "nistp256", "P-256", EVP_sha256 },
                      { "ecdsa-sha2-nistp384", "nistp384", "P-384", EVP_sha384 },
                      { "ecdsa-sha2-nistp521", "nistp521", "P-521", EVP_sha512 } };
        cleanup(BN_freep) BIGNUM *r = take_number(&signature), *s = r ? take_number(&signature) : NULL;
        cleanup(ECDSA_SIG_freep) ECDSA_SIG *pair = ECDSA_SIG_new();
        cleanup(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
        cleanup(EVP_PKEY_freep) EVP_PKEY *public_key = NULL;
        struct str curve, point;
        unsigned char *der = NULL;
        bool good = false;

        if (!s || signature.n > 0 || !pair || !build || !take_string(&key, &curve) || !take_string(&key, &point) ||
            key.n > 0 || ECDSA_SIG_set0(pair, r, s) != 1)
                return false;
        r = s = NULL; /* the pair's now */
        int n = i2d_ECDSA_SIG(pair, &der);
        for (size_t i = 0; n > 0 && i < sizeof kinds / sizeof *kinds; i++) {
                if (!str_is(type, kinds[i].type) || !str_is(curve, kinds[i].curve) ||
                    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, kinds[i].group, 0) != 1 ||
                    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.p, point.n) != 1)
                        continue;
                public_key = key_from("EC", build);
                good = public_key && hostkey_verify(public_key, kinds[i].md(), data, str_n(der, (size_t)n));
                break;
        }
        OPENSSL_free(der);
        return good;
}

bool hostkey_verifies(struct str key, struct str data, struct str signature) {
        struct str type, algorithm, bytes;

        if (!take_string(&key, &type) || !take_string(&signature, &algorithm) || !take_string(&signature, &bytes) ||
            signature.n > 0)
                return false;
        if (str_is(type, "ssh-ed25519"))
                return str_is(algorithm, "ssh-ed25519") && ed25519_verifies(key, data, bytes);
        if (str_is(type, "ssh-rsa"))
                return rsa_verifies(key, algorithm, data, bytes);
        return str_eq(type, algorithm) && ecdsa_verifies(type, key, data, bytes);
}
