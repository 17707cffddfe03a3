/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all TLS of a process shares. All files are read, and OpenSSL is set up, before the process gives up its rights;
 * OpenSSL's own configuration file is not read at all, since it can load code. The system's roots are kept as the text
 * that they are until the first origin is connected to (tls_roots.c).
 *
 * One leaf key serves all hosts: to the client it says "Bailey", and it never leaves this process's memory.
 */
#include "net/tls_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <time.h>

enum { ROOTS_BYTES_MAX = 16 << 20 };

#define CLIENT_CIPHERS                                                                                                 \
        "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:ECDHE+AES:RSA+AESGCM:RSA+AES:!aNULL:!PSK:!SRP:@SECLEVEL=2"
#define SERVER_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL:!PSK:!SRP:@SECLEVEL=2"
#define CIPHERSUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

static void bio_freep(BIO **b) {
        BIO_free(*b);
}

/* Adds every certificate of the PEM text; how many, or -ENOMEM. One that cannot be parsed is passed over: bundles of
 * distributions hold some that are odd. */
static int add_roots(X509_STORE *store, struct str pem) {
        if (pem.n == 0)
                return 0;

        cleanup(bio_freep) BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
        if (!bio)
                return -ENOMEM;

        for (int n = 0;;) {
                X509 *x = X509_new_ex(tls_library(), NULL);
                if (!x)
                        return -ENOMEM;

                bool good = PEM_read_bio_X509(bio, &x, NULL, NULL);
                bool end = !good && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
                if (good && X509_STORE_add_cert(store, x) == 1)
                        n++;

                X509_free(x);
                ERR_clear_error();
                if (end)
                        return n;
        }
}

static void set_common(SSL_CTX *c) {
        SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
        SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(c, 1); /* a record with one read, not two */
}

/* to origins */

static SSL_CTX *make_client(struct tls_context *context) {
        SSL_CTX *client = SSL_CTX_new_ex(tls_library(), NULL, TLS_client_method());
        if (!client)
                return NULL;

        set_common(client);
        SSL_CTX_set_verify(client, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(client, tls_client_session);
        X509_STORE_up_ref(context->configured);
        SSL_CTX_set_cert_store(client, context->configured);

        /* A root that was configured is trusted as it is, also when it is an intermediate one or a server's own. */
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(client), X509_V_FLAG_PARTIAL_CHAIN);

        if (SSL_CTX_set_cipher_list(client, CLIENT_CIPHERS) != 1 ||
            SSL_CTX_set_ciphersuites(client, CIPHERSUITES) != 1 ||
            (!context->by_name &&
             tls_roots_install(context->configured, context->system_roots, &context->by_name) < 0)) {
                SSL_CTX_free(client);
                return NULL;
        }

        return client;
}

SSL_CTX *tls_context_client(struct tls_context *context) {
        SSL_CTX *client = atomic_load_explicit(&context->client, memory_order_acquire);
        if (client)
                return client;

        pthread_mutex_lock(&context->lock);
        client = atomic_load_explicit(&context->client, memory_order_relaxed);
        if (!client) {
                client = make_client(context);
                atomic_store_explicit(&context->client, client, memory_order_release);
        }

        pthread_mutex_unlock(&context->lock);
        return client;
}

/* to clients */

static int make_server(struct tls_context *context) {
        SSL_CTX *server = SSL_CTX_new_ex(tls_library(), NULL, TLS_server_method());
        if (!server)
                return -ENOMEM;

        context->server = server;
        set_common(server);
        SSL_CTX_set_options(server, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
        SSL_CTX_set_session_cache_mode(server, SSL_SESS_CACHE_OFF); /* tickets, which cost no memory here */
        SSL_CTX_set_num_tickets(server, 1);
        SSL_CTX_set_alpn_select_cb(server, tls_server_choose, NULL);
        SSL_CTX_set_tlsext_servername_callback(server, tls_server_check_name);

        if (SSL_CTX_set_cipher_list(server, SERVER_CIPHERS) != 1 || SSL_CTX_set_ciphersuites(server, CIPHERSUITES) != 1)
                return -EINVAL;

        return 0;
}

/* The key as it is sent to the vault is written here: OpenSSL takes half a millisecond to get ready to encode one. */
static int make_leaf_key(struct tls_context *context) {
        static const unsigned char head[P256_KEY_BYTES - P256_POINT_BYTES] = {
                0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
                0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        };
        unsigned char *point = NULL;

        context->leaf_key = EVP_PKEY_Q_keygen(tls_library(), NULL, "EC", "P-256");
        size_t n = context->leaf_key ? EVP_PKEY_get1_encoded_public_key(context->leaf_key, &point) : 0;
        if (n == P256_POINT_BYTES) {
                memcpy(context->leaf_key_der, head, sizeof head);
                memcpy(context->leaf_key_der + sizeof head, point, n);
        }

        OPENSSL_free(point);
        if (n != P256_POINT_BYTES)
                return -ENOMEM;

        return 0;
}

struct str tls_context_public_key(const struct tls_context *context) {
        return str_n(context->leaf_key_der, sizeof context->leaf_key_der);
}

/* files */

static int read_configured_roots(struct tls_context *context, const char *path, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(ROOTS_BYTES_MAX);

        context->configured = X509_STORE_new();
        if (!context->configured)
                return err_set(err, ENOMEM, "no memory for root certificates");
        if (!path || !*path)
                return 0;

        int r = path_read_file(path, ROOTS_BYTES_MAX, &text, err);
        if (r < 0)
                return err_wrap(err, r, "while reading the configured root certificates");

        r = add_roots(context->configured, buf_str(&text));
        if (r == 0)
                return err_set(err, EINVAL, "%s holds no certificate in PEM form", path);

        if (r < 0)
                return err_set(err, -r, "no memory for root certificates");

        return 0;
}

int tls_context_new(const char *ca_bundle, struct tls_context **ret, struct err *err) {
        tls_memory_init();
        if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
                return err_set(err, ENOMEM, "cannot set up OpenSSL");

        cleanup(tls_context_freep) struct tls_context *c = calloc(1, sizeof *c);
        if (!c)
                return err_set(err, ENOMEM, "no memory for TLS");

        pthread_mutex_init(&c->lock, NULL);
        int r = read_configured_roots(c, ca_bundle, err);
        if (r < 0)
                return r;

        r = tls_roots_read(&c->system_roots, err);
        if (r < 0)
                return r;

        r = make_leaf_key(c);
        if (r >= 0)
                r = make_server(c);
        if (r < 0)
                return err_set(err, -r, "cannot set up TLS");

        *ret = take_ptr(&c);
        return 0;
}

void tls_context_free(struct tls_context *context) {
        if (!context)
                return;

        SSL_CTX_free(atomic_load(&context->client));
        SSL_CTX_free(context->server);
        X509_STORE_free(context->configured);
        X509_LOOKUP_meth_free(context->by_name);
        EVP_PKEY_free(context->leaf_key);
        free((char *)context->system_roots.p);
        pthread_mutex_destroy(&context->lock);
        free(context);
}

void tls_context_freep(struct tls_context **context) {
        tls_context_free(*context);
}

/* leaves */

enum { LEAF_MARGIN_SECONDS = 60 };

static int64_t expiry_of(const X509 *certificate) {
        struct tm t;
        if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &t) == 1)
                return (int64_t)timegm(&t);

        return 0;
}

bool tls_leaf_is_current(const struct tls_leaf *leaf) {
        return (int64_t)time(NULL) + LEAF_MARGIN_SECONDS < leaf->until;
}

int tls_leaf_new(const struct tls_context *context, struct str der, struct tls_leaf **ret, struct err *err) {
        X509 *x = tls_certificate(der);
        bool fits = x && X509_check_private_key(x, context->leaf_key) == 1;

        ERR_clear_error();
        struct tls_leaf *leaf = fits ? malloc(sizeof *leaf) : NULL;
        if (!leaf) {
                X509_free(x);
                if (fits)
                        return err_set(err, ENOMEM, "no memory for a certificate");

                if (x)
                        return err_set(err, EINVAL, "the certificate is for another key");

                return err_set(err, EINVAL, "these bytes are no certificate");
        }

        atomic_init(&leaf->references, 1);
        leaf->certificate = x;
        leaf->until = expiry_of(x);
        leaf->key = context->leaf_key;
        EVP_PKEY_up_ref(leaf->key);
        *ret = leaf;

        return 0;
}

struct tls_leaf *tls_leaf_ref(struct tls_leaf *leaf) {
        atomic_fetch_add_explicit(&leaf->references, 1, memory_order_relaxed);
        return leaf;
}

void tls_leaf_unref(struct tls_leaf *leaf) {
        if (!leaf || atomic_fetch_sub_explicit(&leaf->references, 1, memory_order_acq_rel) != 1)
                return;
        X509_free(leaf->certificate);
        EVP_PKEY_free(leaf->key);
        free(leaf);
}
