/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway speaks TLS itself only where it opens it, which takes a vault, and macOS has none yet. So OpenSSL is not
 * built for it; who asks for TLS is refused, and no host key verifies.
 */
#include "net/tls.h"

#include "net/tls_hostkey.h"

#include <errno.h>

int tls_context_new(const char *ca_bundle, struct tls_context **ret, struct err *err) {
        (void)ca_bundle;
        (void)ret;
        return err_set(err, ENOTSUP, "TLS cannot be opened on macOS");
}

void tls_context_free(struct tls_context *c) {
        (void)c;
}

struct str tls_context_public_key(const struct tls_context *context) {
        (void)context;
        return STR("");
}

int tls_new(struct tls_context *context, struct loop *loop, struct tls **ret, struct err *err) {
        (void)context;
        (void)loop;
        (void)ret;
        return err_set(err, ENOTSUP, "TLS cannot be opened on macOS");
}

void tls_free(struct tls *t) {
        (void)t;
}

int tls_leaf_new(const struct tls_context *context, struct str der, struct tls_leaf **ret, struct err *err) {
        (void)context;
        (void)der;
        (void)ret;
        return err_set(err, EINVAL, "TLS cannot be opened on macOS");
}

void tls_leaf_unref(struct tls_leaf *leaf) {
        (void)leaf;
}

bool tls_leaf_is_current(const struct tls_leaf *leaf) {
        (void)leaf;
        return false;
}

int tls_connect(struct tls *tls, struct stream *below, const struct tls_connect *how, struct stream **ret) {
        (void)tls;
        (void)how;
        (void)ret;
        stream_close(below);
        return -ENOTSUP;
}

int tls_handshake(struct stream *stream) {
        (void)stream;
        return -EPROTO;
}

const char *tls_failure(const struct stream *s) {
        (void)s;
        return "TLS cannot be opened on macOS";
}

bool hostkey_verifies(struct str key, struct str data, struct str signature) {
        (void)key;
        (void)data;
        (void)signature;
        return false;
}
