/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/ca.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "base/secrets/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { YEARS = 10, SERIAL_BYTES = 16, PEM_MAX = 16384 };
#define KEEP_MAGIC "BLYCA001"

struct ca {
        EVP_PKEY *key;
        EVP_PKEY_CTX *signer; /* made once: each signature costs its arithmetic and nothing else */
        uint8_t *certificate, *name;
        size_t certificate_n, name_n;
        uint8_t key_id[CA_KEY_ID];
        bool rsa;
        uint64_t end;
};

static const uint8_t ecdsa_sha256[] = { 0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02 };
static const uint8_t rsa_sha256[] = { 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
                                      0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00 };

static void pkey_freep(EVP_PKEY **p) {
        EVP_PKEY_free(*p);
}
static void x509_freep(X509 **certificate) {
        X509_free(*certificate);
}
static void bio_freep(BIO **p) {
        BIO_free(*p);
}

void ca_free(struct ca *ca) {
        if (!ca)
                return;
        EVP_PKEY_CTX_free(ca->signer);
        EVP_PKEY_free(ca->key);
        OPENSSL_free(ca->certificate);
        OPENSSL_free(ca->name);
        free(ca);
}

void ca_freep(struct ca **ca) {
        ca_free(*ca);
}

struct str ca_certificate(const struct ca *ca) {
        return str_n(ca->certificate, ca->certificate_n);
}

struct str ca_name(const struct ca *ca) {
        return str_n(ca->name, ca->name_n);
}

struct str ca_algorithm(const struct ca *ca) {
        return ca->rsa ? str_n(rsa_sha256, sizeof rsa_sha256) : str_n(ecdsa_sha256, sizeof ecdsa_sha256);
}

const uint8_t *ca_key_id(const struct ca *ca) {
        return ca->key_id;
}

uint64_t ca_end(const struct ca *ca) {
        return ca->end;
}

static int ca_failed(struct err *err, const char *what) {
        return err_set(err, EIO, "%s", what);
}

/* A CA around a key and its certificate; takes the key over when it succeeds. */
static int ca_assemble(EVP_PKEY **key, X509 *certificate, struct ca **ret, struct err *err) {
        cleanup(ca_freep) struct ca *ca = calloc(1, sizeof *ca);
        if (!ca)
                return err_set(err, ENOMEM, "no memory for the CA");

        int n = i2d_X509(certificate, &ca->certificate),
            name = i2d_X509_NAME(X509_get_subject_name(certificate), &ca->name);
        const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(certificate);
        struct tm end;

        if (n <= 0 || name <= 0 || !id || ASN1_STRING_length(id) != CA_KEY_ID ||
            ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1)
                return ca_failed(err, "the CA's certificate is not one of Bailey's");

        ca->certificate_n = (size_t)n;
        ca->name_n = (size_t)name;
        memcpy(ca->key_id, ASN1_STRING_get0_data(id), CA_KEY_ID);
        ca->end = (uint64_t)timegm(&end);
        ca->rsa = EVP_PKEY_is_a(*key, "RSA");
        ca->signer = EVP_PKEY_CTX_new(*key, NULL);
        if (!ca->signer || EVP_PKEY_sign_init(ca->signer) <= 0 ||
            EVP_PKEY_CTX_set_signature_md(ca->signer, EVP_sha256()) <= 0 ||
            (ca->rsa && EVP_PKEY_CTX_set_rsa_padding(ca->signer, RSA_PKCS1_PADDING) <= 0))
                return ca_failed(err, "the CA's key cannot sign");

        ca->key = take_ptr(key);
        *ret = take_ptr(&ca);

        return 0;
}

int ca_sign(struct ca *ca, struct str bytes, uint8_t *ret, size_t *ret_n, struct err *err) {
        uint8_t digest[DIGEST_BYTES];
        size_t n = CA_SIGNATURE_MAX;
        digest_sha256(bytes, digest);
        if (EVP_PKEY_sign(ca->signer, ret, &n, digest, sizeof digest) <= 0)
                return ca_failed(err, "the CA's key did not sign");
        *ret_n = n;
        return 0;
}

/* making one */

static int add_extension(X509 *certificate, int nid, const char *value) {
        X509V3_CTX context;
        X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        int done = extension && X509_add_ext(certificate, extension, -1) == 1;
        X509_EXTENSION_free(extension);
        return done;
}

static int set_name(X509 *certificate, const char *label) {
        char common[64], id[9];
        random_id(id, sizeof id); /* two authorities never share a name: clients would mistake one for the other */
        snprintf(common, sizeof common, "Bailey CA %.20s %s", label, id);
        X509_NAME *name = X509_get_subject_name(certificate);
        return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const uint8_t *)"Bailey", -1, -1, 0) == 1 &&
               X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)common, -1, -1, 0) == 1 &&
               X509_set_issuer_name(certificate, name) == 1;
}

static int set_serial(X509 *certificate) {
        uint8_t bytes[SERIAL_BYTES];
        random_bytes(bytes, sizeof bytes);
        bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and of full length */
        BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
        int done = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
        BN_free(number);
        return done;
}

static int ca_certify(EVP_PKEY *key, const char *label, X509 **ret, struct err *err) {
        cleanup(x509_freep) X509 *x = X509_new();
        time_t now = time(NULL);
        bool done = x && X509_set_version(x, 2) == 1 && set_serial(x) && set_name(x, label) &&
                    X509_time_adj_ex(X509_getm_notBefore(x), -1, 0, &now) &&
                    X509_time_adj_ex(X509_getm_notAfter(x), YEARS * 365, 0, &now) && X509_set_pubkey(x, key) == 1 &&
                    add_extension(x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    add_extension(x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0;
        if (!done)
                return ca_failed(err, "cannot make the CA's certificate");

        *ret = take_ptr(&x);
        return 0;
}

static int ca_make(enum vault_ca kind, const char *label, EVP_PKEY **ret_key, X509 **ret_x, struct err *err) {
        cleanup(pkey_freep) EVP_PKEY *key = kind == VAULT_CA_RSA4096 ? EVP_RSA_gen(4096) : EVP_EC_gen("P-256");
        if (!key)
                return ca_failed(err, "cannot make the CA's key");
        int r = ca_certify(key, label, ret_x, err);
        if (r == 0)
                *ret_key = take_ptr(&key);
        return r;
}

int ca_new(enum vault_ca kind, const char *label, struct ca **ret, struct err *err) {
        cleanup(pkey_freep) EVP_PKEY *key = NULL;
        cleanup(x509_freep) X509 *x = NULL;
        int r = ca_make(kind, label, &key, &x, err);
        if (r < 0)
                return r;

        return ca_assemble(&key, x, ret, err);
}

/* in memory that outlives the vault */

struct keep {
        char magic[8]; /* written last: a vault that dies before leaves nothing behind */
        uint32_t key_n, certificate_n;
        uint8_t bytes[VAULT_KEEP_BYTES - 16];
};

static int keep_load(const struct keep *keep, struct ca **ret, struct err *err) {
        if (keep->key_n > sizeof keep->bytes || keep->certificate_n > sizeof keep->bytes - keep->key_n)
                return err_set(err, EBADMSG, "the kept CA is damaged");

        const uint8_t *key_at = keep->bytes, *certificate_at = keep->bytes + keep->key_n;
        cleanup(pkey_freep) EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &key_at, keep->key_n);
        cleanup(x509_freep) X509 *x = d2i_X509(NULL, &certificate_at, keep->certificate_n);
        if (!key || !x || X509_check_private_key(x, key) != 1)
                return err_set(err, EBADMSG, "the kept CA is damaged");

        return ca_assemble(&key, x, ret, err);
}

static int keep_store(struct keep *keep, const struct ca *ca, struct err *err) {
        int n = i2d_PrivateKey(ca->key, NULL);
        if (n <= 0 || (size_t)n + ca->certificate_n > sizeof keep->bytes)
                return ca_failed(err, "the CA cannot be kept");

        uint8_t *at = keep->bytes;
        keep->key_n = (uint32_t)i2d_PrivateKey(ca->key, &at);
        keep->certificate_n = (uint32_t)ca->certificate_n;
        memcpy(keep->bytes + keep->key_n, ca->certificate, ca->certificate_n);
        memcpy(keep->magic, KEEP_MAGIC, sizeof keep->magic);

        return 0;
}

int ca_keep(int fd, enum vault_ca kind, const char *label, struct ca **ret, struct err *err) {
        static_assert(sizeof(struct keep) == VAULT_KEEP_BYTES, "all of it");
        struct keep *keep = mmap(NULL, sizeof *keep, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (keep == MAP_FAILED)
                return err_errno(err, "cannot map the memory in which the CA is kept");

        int r;

        if (memcmp(keep->magic, KEEP_MAGIC, sizeof keep->magic) == 0)
                r = keep_load(keep, ret, err);
        else {
                cleanup(ca_freep) struct ca *ca = NULL;

                r = ca_new(kind, label, &ca, err);
                if (r >= 0)
                        r = keep_store(keep, ca, err);
                if (r == 0)
                        *ret = take_ptr(&ca);
        }

        munmap(keep, sizeof *keep);
        return r;
}

/* in a directory */

/* A file of ours that nobody else could have put there. 0 with *ret_there false when it does not exist. */
static int read_own(const char *path, mode_t forbidden, struct buf *into, bool *ret_there, struct err *err) {
        struct stat st;
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

        *ret_there = fd >= 0;
        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return err_errno(err, errno == ELOOP ? "%s is a link, which is not followed" : "cannot open %s", path);
        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot look at %s", path);
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return err_set(err, EPERM, "%s is not used: it is not a file of yours", path);

        if (st.st_mode & forbidden)
                return err_set(err, EPERM,
                               "%s is not used: its mode is %03o and others may touch it; remove it, or chmod %s", path,
                               (unsigned)st.st_mode & 07777, forbidden & 044 ? "600" : "644");

        int r = fd_read_all(fd, into);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", path, strerror(-r));

        return 0;
}

static int load_pem(const char *directory, struct str key_text, struct str certificate_text, struct ca **ret,
                    struct err *err) {
        cleanup(bio_freep) BIO *key_bio = BIO_new_mem_buf(key_text.p, (int)key_text.n);
        cleanup(bio_freep) BIO *certificate_bio = BIO_new_mem_buf(certificate_text.p, (int)certificate_text.n);
        if (!key_bio || !certificate_bio)
                return err_set(err, ENOMEM, "no memory for the CA");

        char no_password[] = "";
        cleanup(pkey_freep) EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, no_password);
        cleanup(x509_freep) X509 *x = PEM_read_bio_X509(certificate_bio, NULL, NULL, NULL);
        if (!key || !x || X509_check_private_key(x, key) != 1)
                return err_set(err, EBADMSG,
                               "ca.key and ca.crt in %s do not belong together or are damaged; remove both to get a "
                               "new CA",
                               directory);

        if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
                return err_set(err, ESTALE, "the CA in %s has expired; remove ca.key and ca.crt to get a new one",
                               directory);

        return ca_assemble(&key, x, ret, err);
}

static int write_pem(const char *key_path, const char *certificate_path, EVP_PKEY *key, X509 *certificate,
                     struct err *err) {
        cleanup(bio_freep) BIO *key_bio = BIO_new(BIO_s_secmem()), *certificate_bio = BIO_new(BIO_s_mem());
        char *key_text = NULL, *certificate_text = NULL;

        if (!key_bio || !certificate_bio || PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) != 1 ||
            PEM_write_bio_X509(certificate_bio, certificate) != 1)
                return ca_failed(err, "cannot write the CA as text");

        long key_n = BIO_get_mem_data(key_bio, &key_text), n = BIO_get_mem_data(certificate_bio, &certificate_text);
        int r = path_replace_file(key_path, str_n(key_text, (size_t)key_n), 0600, err);
        if (r < 0)
                return r;

        return path_replace_file(certificate_path, str_n(certificate_text, (size_t)n), 0644, err);
}

static int make_in(const char *key_path, const char *certificate_path, enum vault_ca kind, const char *label,
                   struct ca **ret, struct err *err) {
        cleanup(pkey_freep) EVP_PKEY *key = NULL;
        cleanup(x509_freep) X509 *x = NULL;
        int r = ca_make(kind, label, &key, &x, err);
        if (r < 0)
                return r;

        r = write_pem(key_path, certificate_path, key, x, err);
        if (r < 0)
                return r;

        return ca_assemble(&key, x, ret, err);
}

static void wiped_buf_done(struct buf *buf) {
        if (buf->p)
                secret_wipe(buf->p, buf->cap);
        buf_done(buf);
}

int ca_open(const char *directory, enum vault_ca kind, const char *label, struct ca **ret, struct err *err) {
        int r = path_make_private_dir(directory, err);
        if (r < 0)
                return r;

        cleanup(free_ptr) char *key_path = path_join(directory, "ca.key"), *path = path_join(directory, "ca.crt"),
                               *lock_path = path_join(directory, "ca.lock");
        if (!key_path || !path || !lock_path)
                return err_set(err, ENOMEM, "no memory for the CA");

        cleanup(close_fd) int lock = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) < 0) /* two that start at once agree on one CA */
                return err_errno(err, "cannot lock %s", lock_path);

        cleanup(wiped_buf_done) struct buf key = BUF(PEM_MAX);
        cleanup(buf_done) struct buf certificate = BUF(PEM_MAX);
        bool key_there = false, there = false;

        /* Room first: growing would leave copies of the key behind. */
        if (buf_reserve(&key, PEM_MAX) < 0)
                r = err_set(err, ENOMEM, "no memory for the CA");
        else
                r = 0;
        if (r < 0)
                return r;

        r = read_own(key_path, 077, &key, &key_there, err);
        if (r < 0)
                return r;

        r = read_own(path, 022, &certificate, &there, err);
        if (r < 0)
                return r;
        if (key_there && there)
                return load_pem(directory, buf_str(&key), buf_str(&certificate), ret, err);
        if (there)
                return err_set(err, ENOENT, "%s is there without its key; remove it to get a new CA", path);

        return make_in(key_path, path, kind, label, ret, err); /* a key without a certificate was never used */
}
