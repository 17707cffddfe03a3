/* SPDX-License-Identifier: Apache-2.0 */
/* TLS uses a part of OpenSSL: with an origin that has all of it, nothing may be missing. */
#include "net/tls_internal.h"

#include "../cmocka_all.h"
#include "certificates.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
        struct loop *loop;
        struct authority_maker ca;
        struct tls_context *own;
        struct tls *own_tls;
        struct authority target;
        EVP_PKEY *rsa, *ec;
};

static EVP_PKEY *make_key(const char *kind, const char *group) {
        EVP_PKEY *key = NULL;
        EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
        assert_non_null(c);
        assert_int_equal(EVP_PKEY_keygen_init(c), 1);
        if (group)
                assert_int_equal(EVP_PKEY_CTX_set_group_name(c, group), 1);
        assert_int_equal(EVP_PKEY_generate(c, &key), 1);
        EVP_PKEY_CTX_free(c);
        return key;
}

static int set_up(void **state) {
        struct bench *b = calloc(1, sizeof *b);
        struct err e = { 0 };
        ca_make(&b->ca, "Test authority");
        char *bundle = ca_write(&b->ca);
        assert_int_equal(loop_new(&b->loop, &e), 0);
        assert_int_equal(tls_context_new(bundle, &b->own, &e), 0);
        assert_int_equal(tls_new(b->own, b->loop, &b->own_tls, &e), 0);
        assert_int_equal(authority_parse(STR("api.ok.test"), 443, &b->target, &e), 0);
        unlink(bundle);
        free(bundle);
        b->rsa = make_key("RSA", NULL);
        b->ec = make_key("EC", "P-256");
        *state = b;
        return 0;
}

static int tear_down(void **state) {
        struct bench *b = *state;
        tls_free(b->own_tls);
        loop_drain(b->loop);
        loop_free(b->loop);
        tls_context_free(b->own);
        ca_done(&b->ca);
        EVP_PKEY_free(b->rsa);
        EVP_PKEY_free(b->ec);
        free(b);
        return 0;
}

/* An origin that is OpenSSL itself; NULL: as it likes. */
struct origin {
        EVP_PKEY *key;
        int version; /* 0: any */
        const char *cipher, *group;
};

static SSL *start_origin(struct bench *b, const struct origin *o, int fd) {
        SSL_CTX *c = SSL_CTX_new(TLS_server_method());
        unsigned char *spki = NULL;
        int n = i2d_PUBKEY(o->key, &spki);
        assert_true(n > 0);
        struct str der = ca_sign(&b->ca, str_n(spki, (size_t)n), &(struct leaf_wish){ .names = "DNS:api.ok.test" });
        assert_int_equal(SSL_CTX_use_certificate_ASN1(c, (int)der.n, (const unsigned char *)der.p), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(c, o->key), 1);
        assert_int_equal(SSL_CTX_set_dh_auto(c, 1), 1);
        if (o->version) {
                assert_int_equal(SSL_CTX_set_min_proto_version(c, o->version), 1);
                assert_int_equal(SSL_CTX_set_max_proto_version(c, o->version), 1);
        }
        if (o->cipher && o->version == TLS1_3_VERSION)
                assert_int_equal(SSL_CTX_set_ciphersuites(c, o->cipher), 1);
        else if (o->cipher)
                assert_int_equal(SSL_CTX_set_cipher_list(c, o->cipher), 1);
        if (o->group)
                assert_int_equal(SSL_CTX_set1_groups_list(c, o->group), 1);
        SSL *ssl = SSL_new(c);
        SSL_set_fd(ssl, fd);
        SSL_set_accept_state(ssl);
        SSL_CTX_free(c);
        OPENSSL_free(spki);
        OPENSSL_free((void *)der.p);
        return ssl;
}

static void meets(struct bench *b, const struct origin *o) {
        int fds[2], r = -EAGAIN, done = 0;
        struct stream *below, *client;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        assert_int_equal(stream_socket_new(b->loop, fds[0], &below), 0);
        SSL *origin = start_origin(b, o, fds[1]);
        struct tls_connect how = { .target = &b->target };
        assert_int_equal(tls_connect(b->own_tls, below, &how, &client), 0);
        for (int i = 0; i < 200 && (r == -EAGAIN || done != 1); i++) {
                r = tls_handshake(client);
                done = SSL_do_handshake(origin);
                loop_turn(b->loop, false);
        }
        if (r != 0 || done != 1)
                fail_msg("%s, %s, %s: %s", EVP_PKEY_get0_type_name(o->key), o->cipher ? o->cipher : "any cipher",
                         o->group ? o->group : "any group", tls_failure(client));
        assert_false(tls_is_resumed(client)); /* every origin has keys for tickets of its own */
        if (o->cipher)
                assert_string_equal(SSL_get_cipher_name(origin), o->cipher);
        char bytes[4];
        assert_int_equal(stream_write(client, STR("ping")), 4);
        assert_int_equal(SSL_read(origin, bytes, 4), 4);
        stream_close(client);
        SSL_free(origin);
        close(fds[1]);
        ERR_clear_error();
}

static void has_a_context_of_its_own(void **state) {
        (void)state;
        assert_non_null(tls_library());
}

static void knows_all_keys(void **state) {
        static const char *const kinds[][2] = { { "EC", "P-256" }, { "EC", "P-384" },   { "EC", "P-521" },
                                                { "RSA", NULL },   { "RSA-PSS", NULL }, { "ED25519", NULL },
                                                { "ED448", NULL } };
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
                EVP_PKEY *key = make_key(kinds[i][0], kinds[i][1]);
                meets(*state, &(struct origin){ .key = key, .version = TLS1_2_VERSION });
                meets(*state, &(struct origin){ .key = key, .version = TLS1_3_VERSION });
                EVP_PKEY_free(key);
        }
}

static void knows_all_ciphers(void **state) {
        static const char *const with_rsa[] = {
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-RSA-CHACHA20-POLY1305",
                "DHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-AES256-SHA384",
                "ECDHE-RSA-AES128-SHA",
                "AES128-GCM-SHA256",
                "AES256-SHA256",
        };
        static const char *const with_ec[] = { "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
                                               "ECDHE-ECDSA-AES128-CCM", "ECDHE-ECDSA-AES128-SHA256" };
        static const char *const with_any[] = { "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                                "TLS_CHACHA20_POLY1305_SHA256" };
        struct bench *b = *state;
        for (size_t i = 0; i < sizeof with_rsa / sizeof with_rsa[0]; i++)
                meets(b, &(struct origin){ .key = b->rsa, .version = TLS1_2_VERSION, .cipher = with_rsa[i] });
        for (size_t i = 0; i < sizeof with_ec / sizeof with_ec[0]; i++)
                meets(b, &(struct origin){ .key = b->ec, .version = TLS1_2_VERSION, .cipher = with_ec[i] });
        for (size_t i = 0; i < sizeof with_any / sizeof with_any[0]; i++)
                meets(b, &(struct origin){ .key = b->ec, .version = TLS1_3_VERSION, .cipher = with_any[i] });
}

static void knows_all_groups(void **state) {
        static const char *const groups[] = { "X25519", "P-256", "P-384", "P-521", "X448", "ffdhe2048" };
        struct bench *b = *state;
        for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
                meets(b, &(struct origin){ .key = b->ec, .version = TLS1_3_VERSION, .group = groups[i] });
}

int main(void) {
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(has_a_context_of_its_own),
                WITH_BENCH(knows_all_keys),
                WITH_BENCH(knows_all_ciphers),
                WITH_BENCH(knows_all_groups),
        };
        return cmocka_run_group_tests_name("tls_library", tests, NULL, NULL);
}
