/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TLS as a stream over another stream, both ways round: towards origins, always verified, and towards clients, with a
 * leaf certificate that the caller supplies. OpenSSL stays behind this header.
 *
 *   struct tls_context   one per process, made before it confines itself: roots, the leaf key, settings. Shared.
 *   struct tls           one per loop: sessions of origins for resumption, streams that still drain
 *   struct stream        from tls_connect() or tls_accept(), then as any other
 *
 * A TLS stream owns the one below it. The caller gets it before the handshake is complete: it calls tls_handshake() at
 * once and on every notification, until that no longer returns -EAGAIN. Timeouts are up to the owner.
 *
 * Accepted writes are sent: a stream that is closed (not aborted) before the peer has taken its last record stays until
 * that is sent, for a few seconds at most. At most one record waits this way. At rest a stream holds no buffer.
 */
#include "net/stream.h"
#include "policy/match/host.h"

struct tls_context;
struct tls;
struct tls_leaf; /* a certificate for the context's leaf key, shared by reference */

/* Reads the system's roots ($SSL_CERT_FILE, or where distributions have them, and $SSL_CERT_DIR) and those in ca_bundle
 * ("" or NULL: none); makes the leaf key. Nothing of this needs a file afterwards. */
int tls_context_new(const char *ca_bundle, struct tls_context **ret, struct err *err);
void tls_context_free(struct tls_context *context);
void tls_context_freep(struct tls_context **context);
/* SubjectPublicKeyInfo of the leaf key (P-256), DER. Lives as long as the context. */
struct str tls_context_public_key(const struct tls_context *context);

int tls_new(struct tls_context *context, struct loop *loop, struct tls **ret, struct err *err);
/* All its streams must have been closed. */
void tls_free(struct tls *tls);

/* -EINVAL when the bytes are no certificate, or not for the leaf key. */
int tls_leaf_new(const struct tls_context *context, struct str der, struct tls_leaf **ret, struct err *err);
#define TLS_DIGEST_BYTES 32
/* One that the leaf key itself has signed, good for so long, with its SHA-256 digest: for a client that learns the
 * digest by another way than this connection. */
int tls_leaf_self(const struct tls_context *context, const struct host *host, int64_t seconds, struct tls_leaf **ret,
                  unsigned char ret_digest[static TLS_DIGEST_BYTES], struct err *err);
struct tls_leaf *tls_leaf_ref(struct tls_leaf *leaf);
void tls_leaf_unref(struct tls_leaf *leaf);
/* It will not expire within the next minute. */
bool tls_leaf_is_current(const struct tls_leaf *leaf);

#define TLS_IDENTITY_MAX 64
#define TLS_PROTOCOLS_MAX 256 /* bytes of a list */

/* Lists of protocols (ALPN) are in wire form: each name behind a byte with its length. */
struct tls_connect {
        const struct authority *target; /* the certificate must be for its host; a name is sent as SNI */
        struct str protocols;           /* offered, in this order; empty: none */
        struct str identity;            /* a session is resumed only under the identity that it was made with */
};

struct tls_accept {
        struct tls_leaf *leaf;   /* the stream takes a reference of its own */
        const struct host *host; /* a client that names another one (SNI) is refused */
        struct str protocol;     /* one name, without length: chosen if the client offers it. Empty: none is chosen */
        bool required;           /* a client that does not offer it is refused */
        struct str identity;     /* as above: tickets given out under another one are not taken */
};

/* Both take the stream below over, also when they fail. Bytes pushed back into it are read first. */
int tls_connect(struct tls *tls, struct stream *below, const struct tls_connect *how, struct stream **ret);
int tls_accept(struct tls *tls, struct stream *below, const struct tls_accept *how, struct stream **ret);

/*
 * 0 when the handshake is complete, -EAGAIN while it is not, or how it failed: -EKEYREJECTED for a certificate that
 * cannot be trusted, -EPROTO for what is not TLS as it must be, -ECONNRESET when the peer went away, or the error of
 * the stream below. A failed stream stays failed and is only to be closed.
 */
int tls_handshake(struct stream *stream);
/* Why it failed: a short sentence without the host, for people. */
const char *tls_failure(const struct stream *stream);
/* Whether the peer ended the connection without TLS's own word for it: nobody says that it was the peer. */
bool tls_was_cut(const struct stream *stream);
/* After the handshake: the protocol that was chosen, empty when none was. */
struct str tls_protocol(const struct stream *stream);
bool tls_is_resumed(const struct stream *stream);

/* One name of a list; false at its end or when the rest is malformed. */
bool tls_protocols_next(struct str *list, struct str *ret_name);
bool tls_protocols_contain(struct str list, struct str name);
