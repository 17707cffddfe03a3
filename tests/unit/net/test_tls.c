/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/tls_internal.h"

#include "../cmocka_all.h"
#include "certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Both ends on one loop: `origin` plays a server out there, `own` is the side under test (and each plays the other). */
struct bench {
        struct loop *loop;
        struct authority_maker ca;
        struct tls_context *own, *origin;
        struct tls *own_tls, *origin_tls;
        struct authority target;
        struct stream *client, *server;
        int fds[2]; /* of the newest pair */
};

enum { TURNS = 20000 };

static void set_target(struct bench *b, const char *text) {
        struct err e;
        assert_int_equal(authority_parse(str_of(text), 443, &b->target, &e), 0);
}

static int set_up(void **state) {
        struct bench *b = calloc(1, sizeof *b);
        struct err e = { 0 };
        ca_make(&b->ca, "Test authority");
        char *bundle = ca_write(&b->ca);
        assert_int_equal(loop_new(&b->loop, &e), 0);
        assert_int_equal(tls_context_new(bundle, &b->own, &e), 0);
        assert_int_equal(tls_context_new(NULL, &b->origin, &e), 0);
        assert_int_equal(tls_new(b->own, b->loop, &b->own_tls, &e), 0);
        assert_int_equal(tls_new(b->origin, b->loop, &b->origin_tls, &e), 0);
        unlink(bundle);
        free(bundle);
        set_target(b, "api.ok.test");
        *state = b;
        return 0;
}

static int tear_down(void **state) {
        struct bench *b = *state;
        stream_close(b->client);
        stream_close(b->server);
        tls_free(b->own_tls);
        tls_free(b->origin_tls);
        loop_drain(b->loop);
        loop_free(b->loop);
        tls_context_free(b->own);
        tls_context_free(b->origin);
        ca_done(&b->ca);
        free(b);
        return 0;
}

static void pair(struct bench *b, struct stream *ret[2]) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, b->fds), 0);
        for (int i = 0; i < 2; i++)
                if (ret[i] == NULL)
                        assert_int_equal(stream_socket_new(b->loop, b->fds[i], &ret[i]), 0);
}

static struct tls_leaf *leaf(struct bench *b, const struct leaf_wish *wish) {
        struct tls_leaf *l;
        struct err e = { 0 };
        struct str der = ca_sign(&b->ca, tls_context_public_key(b->origin), wish);
        assert_int_equal(tls_leaf_new(b->origin, der, &l, &e), 0);
        OPENSSL_free((void *)der.p);
        return l;
}

struct wish {
        struct leaf_wish leaf;
        const char *offer; /* wire form */
        const char *protocol, *identity, *server_identity, *server_host;
        bool required;
};

/* Client and server, neither has begun. */
static void begin(struct bench *b, const struct wish *w) {
        struct stream *ends[2] = { 0 };
        struct host host = b->target.host;
        if (w->server_host)
                assert_int_equal(host_parse(str_of(w->server_host), &host, NULL), 0);
        pair(b, ends);
        struct leaf_wish plain = w->leaf;
        plain.names = plain.names ? plain.names : "DNS:api.ok.test";
        struct tls_leaf *l = leaf(b, &plain);
        struct tls_connect connect = { .target = &b->target,
                                       .protocols = str_of(w->offer),
                                       .identity = str_of(w->identity) };
        struct tls_accept accept = { .leaf = l,
                                     .host = &host,
                                     .protocol = str_of(w->protocol),
                                     .required = w->required,
                                     .identity = str_of(w->server_identity) };
        assert_int_equal(tls_connect(b->own_tls, ends[0], &connect, &b->client), 0);
        assert_int_equal(tls_accept(b->origin_tls, ends[1], &accept, &b->server), 0);
        tls_leaf_unref(l);
}

/* Both as far as they get. */
static void shake(struct bench *b, int *ret_client, int *ret_server) {
        int c = -EAGAIN, s = -EAGAIN;
        for (int i = 0; i < 200 && (c == -EAGAIN || s == -EAGAIN); i++) {
                c = tls_handshake(b->client);
                s = tls_handshake(b->server);
                if (c != 0 && c != -EAGAIN && s == -EAGAIN && i > 50)
                        break;
                loop_turn(b->loop, false);
        }
        *ret_client = c;
        *ret_server = s;
}

static void connected(struct bench *b, const struct wish *w) {
        int c, s;
        begin(b, w);
        shake(b, &c, &s);
        assert_int_equal(c, 0);
        assert_int_equal(s, 0);
}

static void drop_pair(struct bench *b) {
        stream_close(b->client);
        stream_close(b->server);
        b->client = b->server = NULL;
        loop_turn(b->loop, false);
}

static ssize_t read_some(struct bench *b, struct stream *s, void *p, size_t n) {
        ssize_t got = -EAGAIN;
        for (int i = 0; i < TURNS && got == -EAGAIN; i++) {
                got = stream_read(s, p, n);
                if (got == -EAGAIN)
                        loop_turn(b->loop, false);
        }
        return got;
}

static void expect(struct bench *b, struct stream *s, const char *text) {
        char bytes[256];
        size_t have = 0, n = strlen(text);
        while (have < n) {
                ssize_t got = read_some(b, s, bytes + have, n - have);
                assert_true(got > 0);
                have += (size_t)got;
        }
        assert_memory_equal(bytes, text, n);
}

static void carries_bytes(void **state) {
        struct bench *b = *state;
        connected(b, &(struct wish){ .offer = "\2h2\10http/1.1", .protocol = "http/1.1" });
        assert_true(str_is(tls_protocol(b->client), "http/1.1"));
        assert_true(str_is(tls_protocol(b->server), "http/1.1"));
        assert_false(b->client->plain);
        char text[] = "hello";
        struct iovec parts[3] = { { text, 2 }, { text, 0 }, { text + 2, 3 } };
        assert_int_equal(stream_writev(b->client, parts, 3), 5);
        expect(b, b->server, "hello");
        assert_int_equal(stream_write(b->server, STR("world")), 5);
        expect(b, b->client, "world");
        char byte;
        assert_int_equal(stream_read(b->client, &byte, 1), -EAGAIN);
        /* one way ends, the other goes on */
        assert_int_equal(stream_finish(b->client), 0);
        assert_int_equal(read_some(b, b->server, &byte, 1), 0);
        assert_int_equal(stream_write(b->client, STR("x")), -EPIPE);
        assert_int_equal(stream_write(b->server, STR("still here")), 10);
        expect(b, b->client, "still here");
        stream_close(b->server);
        b->server = NULL;
        assert_int_equal(read_some(b, b->client, &byte, 1), 0);
}

static void chooses_protocols(void **state) {
        struct bench *b = *state;
        int c, s;
        connected(b, &(struct wish){ .offer = "\10http/1.1", .protocol = "h2" });
        assert_int_equal(tls_protocol(b->client).n, 0);
        drop_pair(b);
        connected(b, &(struct wish){ .offer = "\10http/1.1" });
        assert_int_equal(tls_protocol(b->client).n, 0);
        drop_pair(b);
        begin(b, &(struct wish){ .offer = "\10http/1.1", .protocol = "h2", .required = true });
        shake(b, &c, &s);
        assert_int_equal(c, -EPROTO);
        assert_int_equal(s, -EPROTO);
        assert_string_equal(tls_failure(b->client), "It has no protocol in common with the other end.");
}

static void lists_of_protocols(void **state) {
        (void)state;
        assert_true(tls_protocols_contain(STR("\2h2\10http/1.1"), STR("http/1.1")));
        assert_false(tls_protocols_contain(STR("\2h2\10http/1.1"), STR("http/1")));
        assert_false(tls_protocols_contain(STR("\2h2\11http/1.1"), STR("http/1.1"))); /* cut short */
        assert_false(tls_protocols_contain(STR("\0\2h2"), STR("h2")));                /* an empty name */
        assert_false(tls_protocols_contain(STR(""), STR("h2")));
}

static void refuses_certificates(void **state) {
        static const struct {
                struct leaf_wish leaf;
                const char *target, *why;
        } cases[] = {
                { { .names = "DNS:api.ok.test", .from = -7200, .until = -3600 },
                  "api.ok.test",
                  "Its certificate has expired." },
                { { .names = "DNS:api.ok.test", .from = 3600, .until = 7200 },
                  "api.ok.test",
                  "Its certificate is not valid yet." },
                { { .names = "DNS:evil.test" }, "api.ok.test", "Its certificate is for another name." },
                { { .names = "DNS:*.test" }, "api.ok.test", "Its certificate is for another name." },
                { { .names = "DNS:a*.ok.test" }, "api.ok.test", "Its certificate is for another name." },
                { { .names = "IP:127.0.0.1" }, "127.0.0.2", "Its certificate is for another address." },
                { { .names = "DNS:127.0.0.2" }, "127.0.0.2", "Its certificate is for another address." },
                { { .names = "DNS:api.ok.test", .self_signed = true },
                  "api.ok.test",
                  "Its certificate is signed by itself." },
        };
        struct bench *b = *state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                int c, s;
                set_target(b, cases[i].target);
                begin(b, &(struct wish){ .leaf = cases[i].leaf });
                shake(b, &c, &s);
                assert_int_equal(c, -EKEYREJECTED);
                assert_string_equal(tls_failure(b->client), cases[i].why);
                assert_int_equal(stream_write(b->client, STR("secret")), -EKEYREJECTED);
                drop_pair(b);
        }
        static const struct {
                const char *names, *target;
        } good[] = { { "DNS:*.ok.test", "api.ok.test" }, { "IP:127.0.0.1", "127.0.0.1" }, { "IP:::1", "[::1]" } };
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
                set_target(b, good[i].target);
                connected(b, &(struct wish){ .leaf = { .names = good[i].names } });
                drop_pair(b);
        }
}

/* An authority that nobody knows, and one that calls itself like a trusted one. */
static void refuses_unknown_issuers(void **state) {
        static const struct {
                const char *name, *why, *why_server;
        } cases[] = {
                { "Other authority", "Its certificate is from an issuer that is not trusted here.",
                  "It does not trust Bailey's certificate authority." },
                { "Test authority", "The signature of its certificate is wrong.", "The TLS handshake with it failed." },
        };
        struct bench *b = *state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct authority_maker other, own = b->ca;
                int c, s;
                ca_make(&other, cases[i].name);
                b->ca = other;
                begin(b, &(struct wish){ 0 });
                b->ca = own;
                ca_done(&other);
                shake(b, &c, &s);
                assert_int_equal(c, -EKEYREJECTED);
                assert_string_equal(tls_failure(b->client), cases[i].why);
                assert_true(s == -EKEYREJECTED || s == -EPROTO);
                assert_string_equal(tls_failure(b->server), cases[i].why_server);
                drop_pair(b);
        }
}

static void refuses_other_names(void **state) {
        struct bench *b = *state;
        int c, s;
        begin(b, &(struct wish){ .server_host = "other.ok.test" });
        shake(b, &c, &s);
        assert_int_equal(s, -EPROTO);
        assert_int_equal(c, -EPROTO);
        assert_string_equal(tls_failure(b->client), "It does not know the name that was asked for.");
}

/* A session, once the server's ticket was read. */
static bool resumed(struct bench *b, const struct wish *w) {
        connected(b, w);
        assert_int_equal(stream_write(b->server, STR("x")), 1);
        expect(b, b->client, "x");
        bool r = tls_is_resumed(b->client);
        assert_int_equal(tls_is_resumed(b->server), r);
        drop_pair(b);
        return r;
}

static void resumes(void **state) {
        struct bench *b = *state;
        assert_false(resumed(b, &(struct wish){ 0 }));
        assert_true(resumed(b, &(struct wish){ 0 }));
        assert_true(resumed(b, &(struct wish){ 0 }));
        assert_false(resumed(b, &(struct wish){ .identity = "alice" }));
        assert_true(resumed(b, &(struct wish){ .identity = "alice" }));
        assert_false(resumed(b, &(struct wish){ .server_identity = "bob" })); /* a ticket of another one */
        set_target(b, "api.ok.test:8443");
        assert_false(resumed(b, &(struct wish){ 0 }));
        set_target(b, "b.ok.test:443");
        assert_false(resumed(b, &(struct wish){ .leaf = { .names = "DNS:b.ok.test" } }));
}

static void counts_sessions_by_their_certificate(void **state) {
        struct bench *b = *state;
        const struct wish soon = { .leaf = { .names = "DNS:api.ok.test", .until = 2 } };
        assert_false(resumed(b, &soon));
        assert_true(resumed(b, &soon));
        uint64_t until = clock_ns() + 3 * NS_PER_SECOND;
        while (clock_ns() < until)
                usleep(100000);
        assert_false(resumed(b, &(struct wish){ 0 })); /* the certificate of the session has expired meanwhile */
}

static void tells_a_cut_from_an_end(void **state) {
        struct bench *b = *state;
        char byte;
        connected(b, &(struct wish){ 0 });
        assert_int_equal(stream_write(b->server, STR("half")), 4);
        expect(b, b->client, "half");
        assert_int_equal(shutdown(b->fds[1], SHUT_WR), 0); /* below TLS */
        assert_int_equal(read_some(b, b->client, &byte, 1), -ECONNRESET);
        assert_string_equal(tls_failure(b->client), "The connection was cut in the middle of TLS.");
        assert_int_equal(stream_read(b->client, &byte, 1), -ECONNRESET); /* and stays so */
}

/* Who reads after this would see an ordinary end, and take what was written for delivered. */
static void an_end_that_nobody_hears_is_an_error(void **state) {
        struct bench *b = *state;

        connected(b, &(struct wish){ 0 });
        assert_int_equal(stream_write(b->client, STR("lost")), 4);
        stream_abort(b->server);
        b->server = NULL;
        loop_turn(b->loop, false);
        assert_true(stream_finish(b->client) < 0);
}

static void leave_error(const SSL *ssl, int where, int value) {
        (void)ssl;
        (void)where;
        (void)value;
        ERR_raise(ERR_LIB_USER, 1);
}

/* The queue is of the thread: what one handshake leaves there would be taken for another connection's failure. */
static void handshakes_leave_no_error_behind(void **state) {
        struct bench *b = *state;
        begin(b, &(struct wish){ 0 });
        SSL_set_info_callback(tls_of(b->client)->ssl, leave_error);
        int r = -EAGAIN;
        for (int i = 0; i < TURNS && r == -EAGAIN; i++) {
                r = tls_handshake(b->client);
                assert_int_equal(ERR_peek_error(), 0);
                (void)tls_handshake(b->server);
                loop_turn(b->loop, false);
        }
        assert_int_equal(r, 0);
}

static void fill(char *p, size_t n, size_t at) {
        for (size_t i = 0; i < n; i++)
                p[i] = (char)((at + i) * 31 >> 3);
}

static void waits_for_the_reader(void **state) {
        struct bench *b = *state;
        enum { TOTAL = 3 << 20, PIECE = 50000 };
        static char piece[PIECE], back[PIECE], wanted[PIECE];
        connected(b, &(struct wish){ 0 });
        size_t sent = 0, got = 0, blocked = 0;
        for (int i = 0; i < TURNS && got < TOTAL; i++) {
                while (sent < TOTAL) {
                        size_t n = TOTAL - sent < PIECE ? TOTAL - sent : PIECE;
                        fill(piece, n, sent);
                        struct iovec parts[2] = { { piece, n / 3 }, { piece + n / 3, n - n / 3 } };
                        ssize_t put = stream_writev(b->client, parts, 2);
                        if (put == -EAGAIN) {
                                blocked++;
                                break;
                        }
                        assert_true(put > 0);
                        sent += (size_t)put;
                }
                /* not more than the socket and a record are in between */
                assert_true(sent - got < 2 << 20);
                ssize_t n = stream_read(b->server, back, i % 7 ? sizeof back : 100);
                if (n > 0) {
                        fill(wanted, (size_t)n, got);
                        assert_memory_equal(back, wanted, (size_t)n);
                        got += (size_t)n;
                }
                loop_turn(b->loop, false);
        }
        assert_int_equal(got, TOTAL);
        assert_true(blocked > 0);
}

/* What was taken arrives, also when the writer closes with the socket full. */
static void drains_after_close(void **state) {
        struct bench *b = *state;
        static char piece[40000], back[40000], wanted[40000];
        connected(b, &(struct wish){ 0 });
        size_t sent = 0, got = 0;
        ssize_t n = 0;
        for (int i = 0; i < 1000 && n != -EAGAIN; i++) {
                fill(piece, sizeof piece, sent);
                n = stream_write(b->client, str_n(piece, sizeof piece));
                sent += n > 0 ? (size_t)n : 0;
        }
        assert_int_equal(n, -EAGAIN);
        stream_close(b->client);
        b->client = NULL;
        while ((n = read_some(b, b->server, back, sizeof back)) > 0) {
                fill(wanted, (size_t)n, got);
                assert_memory_equal(back, wanted, (size_t)n);
                got += (size_t)n;
        }
        assert_int_equal(n, 0);
        assert_int_equal(got, sent);
}

static void replays_what_was_looked_at(void **state) {
        struct bench *b = *state;
        struct stream *ends[2] = { 0 };
        char hello[4096];
        int c, s;
        pair(b, ends);
        struct tls_connect connect = { .target = &b->target };
        assert_int_equal(tls_connect(b->own_tls, ends[0], &connect, &b->client), 0);
        assert_int_equal(tls_handshake(b->client), -EAGAIN);
        ssize_t n = read_some(b, ends[1], hello, sizeof hello);
        assert_true(n > 100);
        assert_int_equal(stream_unread(ends[1], str_n(hello, (size_t)n)), 0);
        struct tls_leaf *l = leaf(b, &(struct leaf_wish){ .names = "DNS:api.ok.test" });
        struct tls_accept accept = { .leaf = l, .host = &b->target.host };
        assert_int_equal(tls_accept(b->origin_tls, ends[1], &accept, &b->server), 0);
        tls_leaf_unref(l);
        shake(b, &c, &s);
        assert_int_equal(c, 0);
        assert_int_equal(s, 0);
}

/* Bytes that are no TLS, at either end. */
static void refuses_other_protocols(void **state) {
        static const struct {
                struct str bytes;
                const char *why;
        } cases[] = {
                { STR("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "It speaks plain HTTP where TLS was expected." },
                { STR("SSH-2.0-OpenSSH_9.2\r\n"), "It does not speak TLS." },
                { STR("\x16\x03\x01\x00\x05hello"), NULL },
                { STR("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), NULL }, /* SSLv2 */
        };
        struct bench *b = *state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct stream *ends[2] = { 0 };
                pair(b, ends);
                struct tls_leaf *l = leaf(b, &(struct leaf_wish){ .names = "DNS:api.ok.test" });
                struct tls_accept accept = { .leaf = l, .host = &b->target.host };
                assert_int_equal(tls_accept(b->origin_tls, ends[1], &accept, &b->server), 0);
                tls_leaf_unref(l);
                assert_int_equal(stream_write(ends[0], cases[i].bytes), (ssize_t)cases[i].bytes.n);
                stream_finish(ends[0]);
                int s = -EAGAIN;
                for (int turn = 0; turn < 100 && s == -EAGAIN; turn++) {
                        loop_turn(b->loop, false);
                        s = tls_handshake(b->server);
                }
                assert_true(s == -EPROTO || (s == -ECONNRESET && i == 3));
                if (cases[i].why)
                        assert_string_equal(tls_failure(b->server), cases[i].why);
                stream_close(ends[0]);
                drop_pair(b);
        }
}

/* A peer that is OpenSSL itself, with settings of its own choosing. */
struct raw {
        SSL_CTX *context;
        SSL *ssl;
        int fd;
};

static void raw_client(struct bench *b, struct raw *r, int version) {
        struct stream *ends[2] = { NULL, NULL };
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, b->fds), 0);
        assert_int_equal(stream_socket_new(b->loop, b->fds[1], &ends[1]), 0);
        r->fd = b->fds[0];
        r->context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_cipher_list(r->context, "ALL:@SECLEVEL=0");
        SSL_CTX_set_min_proto_version(r->context, version);
        SSL_CTX_set_max_proto_version(r->context, version);
        r->ssl = SSL_new(r->context);
        SSL_set_fd(r->ssl, r->fd);
        SSL_set_connect_state(r->ssl);
        struct tls_leaf *l = leaf(b, &(struct leaf_wish){ .names = "DNS:api.ok.test" });
        struct tls_accept accept = { .leaf = l, .host = &b->target.host };
        assert_int_equal(tls_accept(b->origin_tls, ends[1], &accept, &b->server), 0);
        tls_leaf_unref(l);
        for (int i = 0; i < 200; i++) {
                int done = SSL_do_handshake(r->ssl);
                loop_turn(b->loop, false);
                int s = tls_handshake(b->server);
                if ((done == 1 && s == 0) || (s < 0 && s != -EAGAIN))
                        break;
        }
}

static void raw_done(struct raw *r) {
        SSL_free(r->ssl);
        SSL_CTX_free(r->context);
        close(r->fd);
        ERR_clear_error();
}

static void refuses_old_versions(void **state) {
        struct bench *b = *state;
        const int old[] = { TLS1_VERSION, TLS1_1_VERSION };
        for (int i = 0; i < 2; i++) {
                struct raw r;
                raw_client(b, &r, old[i]);
                assert_int_equal(tls_handshake(b->server), -EPROTO);
                assert_string_equal(tls_failure(b->server),
                                    "It speaks only versions of TLS that are not safe any more.");
                raw_done(&r);
                drop_pair(b);
        }
        struct raw r;
        raw_client(b, &r, TLS1_2_VERSION);
        assert_int_equal(tls_handshake(b->server), 0);
        raw_done(&r);
}

static void refuses_renegotiation(void **state) {
        struct bench *b = *state;
        struct raw r;
        char bytes[64];
        raw_client(b, &r, TLS1_2_VERSION);
        assert_int_equal(tls_handshake(b->server), 0);
        assert_int_equal(SSL_renegotiate(r.ssl), 1);
        int done = 0, got = 0;
        for (int i = 0; i < 100; i++) {
                done = SSL_do_handshake(r.ssl);
                loop_turn(b->loop, false);
                got = (int)stream_read(b->server, bytes, sizeof bytes);
                if (done == 1 || SSL_get_error(r.ssl, done) == SSL_ERROR_SSL)
                        break;
        }
        assert_int_not_equal(done, 1);
        assert_true(got < 0);
        raw_done(&r);
}

static void follows_key_updates(void **state) {
        struct bench *b = *state;
        struct raw r;
        raw_client(b, &r, TLS1_3_VERSION);
        for (int i = 0; i < 50; i++) {
                assert_int_equal(SSL_key_update(r.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
                assert_int_equal(SSL_write(r.ssl, "ping", 4), 4);
                expect(b, b->server, "ping");
                assert_int_equal(stream_write(b->server, STR("pong")), 4);
                char bytes[4];
                assert_int_equal(SSL_read(r.ssl, bytes, 4), 4);
        }
        raw_done(&r);
}

static void refuses_leaves_of_others(void **state) {
        struct bench *b = *state;
        struct tls_leaf *l;
        struct err e = { 0 };
        struct str der = ca_sign(&b->ca, tls_context_public_key(b->own), &(struct leaf_wish){ .names = "DNS:a.test" });
        assert_int_equal(tls_leaf_new(b->origin, der, &l, &e), -EINVAL);
        assert_string_equal(err_text(&e), "the certificate is for another key");
        assert_int_equal(tls_leaf_new(b->own, str_first(der, der.n - 1), &l, &e), -EINVAL);
        assert_int_equal(tls_leaf_new(b->own, STR("hello"), &l, &e), -EINVAL);
        assert_string_equal(err_text(&e), "these bytes are no certificate");
        OPENSSL_free((void *)der.p);
}

static void wants_usable_roots(void **state) {
        (void)state;
        struct tls_context *c;
        struct err e = { 0 };
        assert_int_equal(tls_context_new("/nonexistent/roots.pem", &c, &e), -ENOENT);
        assert_non_null(strstr(err_text(&e), "/nonexistent/roots.pem"));
        assert_int_equal(tls_context_new("/etc/passwd", &c, &e), -EINVAL);
        assert_string_equal(err_text(&e), "/etc/passwd holds no certificate in PEM form");
}

/* A context that knows only what the environment names. */
static void use_roots(struct bench *b, const char *file, const char *directory) {
        struct err e = { 0 };
        drop_pair(b);
        tls_free(b->own_tls);
        tls_context_free(b->own);
        assert_int_equal(setenv("SSL_CERT_FILE", file, 1) | setenv("SSL_CERT_DIR", directory, 1), 0);
        int r = tls_context_new(NULL, &b->own, &e);
        assert_int_equal(unsetenv("SSL_CERT_FILE") | unsetenv("SSL_CERT_DIR"), 0);
        if (r < 0)
                fail_msg("%s", err_text(&e));
        assert_int_equal(tls_new(b->own, b->loop, &b->own_tls, &e), 0);
}

static void append(FILE *to, const char *path) {
        char text[8192];
        FILE *from = fopen(path, "re");
        assert_non_null(from);
        size_t n = fread(text, 1, sizeof text, from);
        assert_int_equal(fwrite(text, 1, n, to), n);
        fclose(from);
}

/* Between others and what is none; by file and by directory. */
static void finds_roots_by_name(void **state) {
        struct bench *b = *state;
        struct authority_maker other;
        char directory[] = "/tmp/bailey-roots-XXXXXX", file[64], empty[64];
        int c, s;
        assert_non_null(mkdtemp(directory));
        (void)snprintf(file, sizeof file, "%s/bundle", directory);
        (void)snprintf(empty, sizeof empty, "%s.empty", directory);
        ca_make(&other, "Other authority");
        char *paths[] = { ca_write(&other), ca_write(&b->ca) };
        FILE *bundle = fopen(file, "we"), *nothing = fopen(empty, "we");
        assert_true(bundle && nothing);
        fputs("-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n# a line\n"
              "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
              bundle);
        for (size_t i = 0; i < 2; i++) {
                append(bundle, paths[i]);
                unlink(paths[i]);
                free(paths[i]);
        }
        fputs("-----BEGIN CERTIFICATE-----\nbm9uZQ==\n", bundle);
        fclose(bundle);
        fclose(nothing);
        for (int by_directory = 0; by_directory < 2; by_directory++) {
                use_roots(b, by_directory ? empty : file, by_directory ? directory : "");
                for (int i = 0; i < 3; i++) { /* the second one is in the store already */
                        connected(b, &(struct wish){ .identity = i == 2 ? "another session" : NULL });
                        drop_pair(b);
                }
        }
        use_roots(b, empty, "");
        begin(b, &(struct wish){ 0 });
        shake(b, &c, &s);
        assert_int_equal(c, -EKEYREJECTED);
        assert_int_equal(unlink(file) | unlink(empty) | rmdir(directory), 0);
        ca_done(&other);
}

int main(void) {
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                WITH_BENCH(carries_bytes),
                WITH_BENCH(chooses_protocols),
                cmocka_unit_test(lists_of_protocols),
                WITH_BENCH(refuses_certificates),
                WITH_BENCH(refuses_unknown_issuers),
                WITH_BENCH(refuses_other_names),
                WITH_BENCH(resumes),
                WITH_BENCH(counts_sessions_by_their_certificate),
                WITH_BENCH(tells_a_cut_from_an_end),
                WITH_BENCH(an_end_that_nobody_hears_is_an_error),
                WITH_BENCH(handshakes_leave_no_error_behind),
                WITH_BENCH(waits_for_the_reader),
                WITH_BENCH(drains_after_close),
                WITH_BENCH(replays_what_was_looked_at),
                WITH_BENCH(refuses_other_protocols),
                WITH_BENCH(refuses_old_versions),
                WITH_BENCH(refuses_renegotiation),
                WITH_BENCH(follows_key_updates),
                WITH_BENCH(refuses_leaves_of_others),
                cmocka_unit_test(wants_usable_roots),
                WITH_BENCH(finds_roots_by_name),
        };
        return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
