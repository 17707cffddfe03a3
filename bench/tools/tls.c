/* SPDX-License-Identifier: Apache-2.0 */
#include "tls.h"

#include "tool.h"

#include <errno.h>
#include <openssl/ssl.h>

static SSL_CTX *context;

void tls_prepare(void) {
        static const unsigned char protocols[] = "\x08http/1.1";
        context = SSL_CTX_new(TLS_client_method());
        if (!context || SSL_CTX_set_alpn_protos(context, protocols, sizeof protocols - 1) != 0)
                tool_die("no TLS");
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

struct tls *tls_open(int fd, const char *name) {
        SSL *ssl = SSL_new(context);
        if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_set_tlsext_host_name(ssl, name) != 1)
                tool_die("no TLS connection");
        SSL_set_connect_state(ssl);
        return (struct tls *)ssl;
}

static ssize_t outcome(SSL *ssl, int r, size_t n) {
        if (r > 0)
                return (ssize_t)n;
        int why = SSL_get_error(ssl, r);
        if (why == SSL_ERROR_ZERO_RETURN)
                return 0;
        errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
        return -1;
}

int tls_handshake(struct tls *t) {
        ssize_t r = outcome((SSL *)t, SSL_do_handshake((SSL *)t), 1);
        return r > 0 ? 1 : r < 0 && errno == EAGAIN ? 0 : -1;
}

ssize_t tls_recv(struct tls *t, void *to, size_t n) {
        size_t got = 0;
        int r = SSL_read_ex((SSL *)t, to, n, &got);
        return outcome((SSL *)t, r, got);
}

ssize_t tls_send(struct tls *t, const void *from, size_t n) {
        size_t sent = 0;
        int r = SSL_write_ex((SSL *)t, from, n, &sent);
        return outcome((SSL *)t, r, sent);
}

void tls_close(struct tls *t) {
        SSL_free((SSL *)t);
}
