/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of net/tls.h, for the tls_*.c files only. */
#include "net/tls.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { P256_KEY_BYTES = 91, P256_POINT_BYTES = 65 }; /* SubjectPublicKeyInfo, and the point at its end */

struct tls_context {
        SSL_CTX *server;
        EVP_PKEY *leaf_key;
        unsigned char leaf_key_der[P256_KEY_BYTES];
        X509_STORE *configured; /* roots of ca_bundle, parsed at once: an error in them is the user's to see */
        struct str system_roots;
        X509_LOOKUP_METHOD *by_name; /* how those are found; outlives the store */
        pthread_mutex_t lock;
        _Atomic(SSL_CTX *) client; /* made when it is first needed, under the lock */
};

/* tls_library.c: OpenSSL's context for everything about TLS; NULL is its own, with all that it has. */
OSSL_LIB_CTX *tls_library(void);
/* A certificate in it, DER, which must be all of the bytes. NULL: they are none, or no memory. */
X509 *tls_certificate(struct str der);

/* The context for connections to origins; NULL when out of memory. */
SSL_CTX *tls_context_client(struct tls_context *context);

/* tls_roots.c: the system's roots, as text in heap memory that is the caller's. */
int tls_roots_read(struct str *ret, struct err *err);
/* Has the store find them by name. *ret is to be freed after the store. 0 or -ENOMEM. */
int tls_roots_install(X509_STORE *store, struct str pem, X509_LOOKUP_METHOD **ret);

struct tls_leaf {
        atomic_uint references;
        X509 *certificate;
        EVP_PKEY *key;
        int64_t until; /* seconds since the epoch */
};

/* tls_session.c: sessions of origins, by host, port and identity; the one used least recently gives way. */
struct tls_sessions;
struct tls_sessions *tls_sessions_new(void);
void tls_sessions_free(struct tls_sessions *sessions);
/* A session that may still be resumed, borrowed, or NULL. */
SSL_SESSION *tls_sessions_find(struct tls_sessions *sessions, struct str key);
/* Takes the reference, also when there is no memory to keep it. */
void tls_sessions_store(struct tls_sessions *sessions, struct str key, SSL_SESSION *session);
void tls_sessions_drop(struct tls_sessions *sessions, struct str key);

struct tls {
        struct tls_context *context;
        struct loop *loop;
        struct tls_sessions *sessions;
        struct link draining; /* struct tls_stream: closed, with a last record on its way */
        char *plain;          /* where small parts are put together into one record */
};

#define TLS_RECORD_BYTES 16384 /* the most that a record holds */

/* State of a server until its handshake is over. */
struct tls_accepting {
        struct host host;
        bool required;
        uint8_t protocol_n;
        char protocol[255];
};

struct tls_stream {
        struct stream s;
        struct tls *tls;
        SSL *ssl;
        char *out; /* encrypted, and not taken by the stream below yet */
        size_t out_at, out_n;
        struct tls_accepting *accepting; /* a server, until the handshake is over */
        char *session_key;               /* a client: where its sessions are kept */
        size_t session_key_n;
        const char *why; /* it failed: for people */
        bool cut;        /* the peer's end came without TLS's own */
        int error;       /* it failed */
        int below_error; /* of the stream below, for the next caller of OpenSSL */
        bool ready;      /* the handshake is over */
        bool finishing;  /* the end is written; the stream below ends when all is out */
        bool ended_below;
        struct timer drain;
        struct link draining;
        struct task destroy;
};

static inline struct tls_stream *tls_of(struct stream *stream) {
        return link_owner(stream, struct tls_stream, s);
}

/* tls_stream.c: a stream around a new SSL of this context; takes `below` over, also when it fails. */
int tls_stream_new(struct tls *tls, struct stream *below, SSL_CTX *context, struct tls_stream **ret);

/* tls_memory.c: how OpenSSL gets memory; before anything else is asked of it. */
void tls_memory_init(void);

/* tls_error.c: what OpenSSL's queue and the verification say. Clears the queue. */
int tls_explain(struct tls_stream *stream, const char **ret_why);

/* tls_server.c, for the context: which protocol is chosen, and whether the name is the right one. */
int tls_server_choose(SSL *ssl, const unsigned char **ret, unsigned char *ret_n, const unsigned char *offered,
                      unsigned n, void *unused);
int tls_server_check_name(SSL *ssl, int *alert, void *unused);
/* tls_client.c, for the context: a session arrived. */
int tls_client_session(SSL *ssl, SSL_SESSION *session);
