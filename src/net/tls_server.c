/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Towards clients. One context serves all hosts; the certificate is set on each connection, which costs a fraction of a
 * context per host. What a client asks for by name is checked on every ClientHello, the second one after a
 * HelloRetryRequest included.
 */
#include "net/tls_stream.h"

#include "base/digest.h"

#include <errno.h>
#include <stdlib.h>

int tls_server_choose(SSL *ssl, const unsigned char **ret, unsigned char *ret_n, const unsigned char *offered,
                      unsigned n, void *unused) {
        (void)unused;
        const struct tls_stream *t = SSL_get_app_data(ssl);
        const struct tls_accepting *a = t->accepting;
        if (!a || a->protocol_n == 0)
                return SSL_TLSEXT_ERR_NOACK;
        struct str wanted = str_n(a->protocol, a->protocol_n), name;
        for (struct str list = str_n(offered, n); tls_protocols_next(&list, &name);)
                if (str_eq(name, wanted)) {
                        *ret = (const unsigned char *)name.p;
                        *ret_n = (unsigned char)name.n;
                        return SSL_TLSEXT_ERR_OK;
                }
        return a->required ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

int tls_server_check_name(SSL *ssl, int *alert, void *unused) {
        (void)unused;
        const struct tls_stream *t = SSL_get_app_data(ssl);
        const char *shown = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        if (!shown || !t->accepting)
                return SSL_TLSEXT_ERR_OK;
        struct host named;
        if (host_parse(str_of(shown), &named, NULL) == 0 && host_equal(&named, &t->accepting->host))
                return SSL_TLSEXT_ERR_OK;
        *alert = SSL_AD_UNRECOGNIZED_NAME;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Tickets are bound to identity and host: one that was given out for another host is no good here. */
static bool bind_tickets(SSL *ssl, const struct tls_accept *how) {
        char bound[TLS_IDENTITY_MAX + 1 + HOST_TEXT_MAX];
        unsigned char digest[DIGEST_BYTES];
        size_t n = how->identity.n;
        if (n > TLS_IDENTITY_MAX)
                return false;
        if (n > 0)
                memcpy(bound, how->identity.p, n);
        bound[n++] = '\0';
        memcpy(bound + n, how->host->name, how->host->name_n);
        digest_sha256(str_n(bound, n + how->host->name_n), digest);
        return SSL_set_session_id_context(ssl, digest, sizeof digest) == 1;
}

static int prepare(struct tls_stream *t, const struct tls_accept *how) {
        struct tls_accepting *a = calloc(1, sizeof *a);
        if (!a)
                return -ENOMEM;
        t->accepting = a;
        a->host = *how->host;
        a->required = how->required;
        if (how->protocol.n > sizeof a->protocol)
                return -EINVAL;
        a->protocol_n = (uint8_t)how->protocol.n;
        if (how->protocol.n > 0)
                memcpy(a->protocol, how->protocol.p, how->protocol.n);
        if (!bind_tickets(t->ssl, how) ||
            SSL_use_cert_and_key(t->ssl, how->leaf->certificate, how->leaf->key, NULL, 1) != 1)
                return -ENOMEM;
        SSL_set_accept_state(t->ssl);
        return 0;
}

int tls_accept(struct tls *t, struct stream *below, const struct tls_accept *how, struct stream **ret) {
        struct tls_stream *s;
        int r = tls_stream_new(t, below, t->context->server, &s);
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
