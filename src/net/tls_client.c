/* SPDX-License-Identifier: Apache-2.0 */
/* Towards origins: verified always, by the name or address that was judged. */
#include "net/tls_stream.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

int tls_client_session(SSL *ssl, SSL_SESSION *session) {
        struct tls_stream *t = SSL_get_app_data(ssl);
        if (!t || !t->session_key || t->error)
                return 0;
        /* A copy, since OpenSSL spoils the session of a connection that was cut off, as older versions of TLS wanted
         * it. Servers that cut where they should say goodbye are common. */
        SSL_SESSION *copy = SSL_SESSION_dup(session);
        if (copy)
                tls_sessions_store(t->tls->sessions, str_n(t->session_key, t->session_key_n), copy);
        return 0;
}

/* "identity NUL host:port": no two targets share one. */
static int make_session_key(struct tls_stream *t, const struct tls_connect *how) {
        char where[AUTHORITY_TEXT_MAX];
        if (how->identity.n > TLS_IDENTITY_MAX)
                return -EINVAL;
        authority_text(how->target, where);
        size_t where_n = strlen(where);
        t->session_key_n = how->identity.n + 1 + where_n;
        t->session_key = malloc(t->session_key_n);
        if (!t->session_key)
                return -ENOMEM;
        if (how->identity.n > 0)
                memcpy(t->session_key, how->identity.p, how->identity.n);
        t->session_key[how->identity.n] = '\0';
        memcpy(t->session_key + how->identity.n + 1, where, where_n);
        return 0;
}

static bool expect_host(SSL *ssl, const struct host *h) {
        X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
        X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        if (h->kind == HOST_ADDR)
                return X509_VERIFY_PARAM_set1_ip(p, h->addr.bytes, h->addr.family == ADDR_V4 ? 4 : 16) == 1;
        return X509_VERIFY_PARAM_set1_host(p, h->name, h->name_n) == 1 && SSL_set_tlsext_host_name(ssl, h->name) == 1;
}

static int prepare(struct tls_stream *t, const struct tls_connect *how) {
        int r = make_session_key(t, how);
        if (r < 0)
                return r;
        if (!expect_host(t->ssl, &how->target->host))
                return -ENOMEM;
        if (how->protocols.n > TLS_PROTOCOLS_MAX)
                return -EINVAL;
        if (how->protocols.n > 0 &&
            SSL_set_alpn_protos(t->ssl, (const unsigned char *)how->protocols.p, (unsigned)how->protocols.n) != 0)
                return -EINVAL;
        SSL_SESSION *known = tls_sessions_find(t->tls->sessions, str_n(t->session_key, t->session_key_n));
        if (known)
                SSL_set_session(t->ssl, known); /* whatever it says: without one the handshake is a full one */
        SSL_set_connect_state(t->ssl);
        return 0;
}

int tls_connect(struct tls *t, struct stream *below, const struct tls_connect *how, struct stream **ret) {
        struct tls_stream *s;
        SSL_CTX *context = tls_context_client(t->context);
        if (!context) {
                stream_close(below);
                return -ENOMEM;
        }
        int r = tls_stream_new(t, below, context, &s);
        if (r < 0)
                return r;
        r = prepare(s, how);
        if (r < 0) {
                stream_close(&s->s);
                return r;
        }
        *ret = &s->s;
        return 0;
}
