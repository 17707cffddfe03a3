/* SPDX-License-Identifier: Apache-2.0 */
/* Towards origins: verified always, by the name or address that was judged. */
#include "net/tls_internal.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

int tls_client_session(SSL *ssl, SSL_SESSION *session) {
        struct tls_stream *stream = SSL_get_app_data(ssl);
        if (!stream || !stream->session_key || stream->error)
                return 0;

        /* A copy, because OpenSSL invalidates the session of a connection that ends without close_notify, as older TLS
         * versions required. Servers that end this way are common. */
        SSL_SESSION *copy = SSL_SESSION_dup(session);
        if (copy)
                tls_sessions_store(stream->tls->sessions, str_n(stream->session_key, stream->session_key_n), copy);

        return 0;
}

/* "identity NUL host:port": no two targets share one. */
static int make_session_key(struct tls_stream *stream, const struct tls_connect *how) {
        char where[AUTHORITY_TEXT_MAX];

        if (how->identity.n > TLS_IDENTITY_MAX)
                return -EINVAL;

        authority_text(how->target, where);
        size_t where_n = strlen(where);
        stream->session_key_n = how->identity.n + 1 + where_n;
        stream->session_key = malloc(stream->session_key_n);
        if (!stream->session_key)
                return -ENOMEM;
        if (how->identity.n > 0)
                memcpy(stream->session_key, how->identity.p, how->identity.n);

        stream->session_key[how->identity.n] = '\0';
        memcpy(stream->session_key + how->identity.n + 1, where, where_n);

        return 0;
}

static bool expect_host(SSL *ssl, const struct host *host) {
        X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
        X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        if (host->kind == HOST_ADDR)
                return X509_VERIFY_PARAM_set1_ip(p, host->addr.bytes, host->addr.family == ADDR_V4 ? 4 : 16) == 1;
        return X509_VERIFY_PARAM_set1_host(p, host->name, host->name_n) == 1 &&
               SSL_set_tlsext_host_name(ssl, host->name) == 1;
}

static int client_prepare(struct tls_stream *stream, const struct tls_connect *how) {
        int r = make_session_key(stream, how);
        if (r < 0)
                return r;
        if (!expect_host(stream->ssl, &how->target->host))
                return -ENOMEM;
        if (how->protocols.n > TLS_PROTOCOLS_MAX)
                return -EINVAL;

        if (how->protocols.n > 0 &&
            SSL_set_alpn_protos(stream->ssl, (const unsigned char *)how->protocols.p, (unsigned)how->protocols.n) != 0)
                return -EINVAL;

        SSL_SESSION *known =
            tls_sessions_find(stream->tls->sessions, str_n(stream->session_key, stream->session_key_n));
        if (known)
                SSL_set_session(stream->ssl, known); /* whatever it says: without one the handshake is a full one */

        SSL_set_connect_state(stream->ssl);
        return 0;
}

int tls_connect(struct tls *tls, struct stream *below, const struct tls_connect *how, struct stream **ret) {
        struct tls_stream *stream;
        SSL_CTX *context = tls_context_client(tls->context);
        if (!context) {
                stream_close(below);
                return -ENOMEM;
        }

        int r = tls_stream_new(tls, below, context, &stream);
        if (r < 0)
                return r;

        r = client_prepare(stream, how);
        if (r < 0) {
                stream_close(&stream->s);
                return r;
        }

        *ret = &stream->s;
        return 0;
}
