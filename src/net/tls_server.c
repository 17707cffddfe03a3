/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Towards clients. One context serves all hosts; the certificate is set on each connection, which costs a fraction of a
 * context per host. What a client asks for by name is checked on every ClientHello, the second one after a
 * HelloRetryRequest included.
 */
#include "net/tls_internal.h"

#include "base/secrets/digest.h"

#include <errno.h>
#include <stdlib.h>

int tls_server_choose(SSL *ssl, const unsigned char **ret, unsigned char *ret_n, const unsigned char *offered,
                      unsigned n, void *unused) {
        (void)unused;
        const struct tls_stream *stream = SSL_get_app_data(ssl);
        const struct tls_accepting *accepting = stream->accepting;
        if (!accepting || accepting->protocol_n == 0)
                return SSL_TLSEXT_ERR_NOACK;

        struct str wanted = str_n(accepting->protocol, accepting->protocol_n), name;

        for (struct str list = str_n(offered, n); tls_protocols_next(&list, &name);)
                if (str_eq(name, wanted)) {
                        *ret = (const unsigned char *)name.p;
                        *ret_n = (unsigned char)name.n;
                        return SSL_TLSEXT_ERR_OK;
                }

        return accepting->required ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
}

int tls_server_check_name(SSL *ssl, int *alert, void *unused) {
        (void)unused;
        const struct tls_stream *stream = SSL_get_app_data(ssl);
        const char *shown = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        if (!shown || !stream->accepting)
                return SSL_TLSEXT_ERR_OK;

        struct host named;
        if (host_parse(str_of(shown), &named, NULL) == 0 && host_equal(&named, &stream->accepting->host))
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

static int server_prepare(struct tls_stream *stream, const struct tls_accept *how) {
        struct tls_accepting *accepting = calloc(1, sizeof *accepting);
        if (!accepting)
                return -ENOMEM;

        stream->accepting = accepting;
        accepting->host = *how->host;
        accepting->required = how->required;
        if (how->protocol.n > sizeof accepting->protocol)
                return -EINVAL;

        accepting->protocol_n = (uint8_t)how->protocol.n;
        if (how->protocol.n > 0)
                memcpy(accepting->protocol, how->protocol.p, how->protocol.n);

        if (!bind_tickets(stream->ssl, how) ||
            SSL_use_cert_and_key(stream->ssl, how->leaf->certificate, how->leaf->key, NULL, 1) != 1)
                return -ENOMEM;

        SSL_set_accept_state(stream->ssl);
        return 0;
}

int tls_accept(struct tls *tls, struct stream *below, const struct tls_accept *how, struct stream **ret) {
        struct tls_stream *stream;
        int r = tls_stream_new(tls, below, tls->context->server, &stream);
        if (r < 0)
                return r;

        r = server_prepare(stream, how);
        if (r < 0) {
                stream_close(&stream->s);
                return r;
        }

        *ret = &stream->s;
        return 0;
}
