/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "gateway/creds/vault_client.h"

#include "../cmocka_all.h"
#include "../net/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* The test plays the vault, over a socket pair. */
struct bench {
        struct loop *loop;
        struct authority_maker ca;
        struct tls_context *keys;
        struct vault_client *client;
        struct vault_page *page;
        int page_fd, vault;
        char room[VAULT_MESSAGE_MAX];
};

struct waiter {
        struct vault_call call;
        int told, error;
};

static void on_done(struct vault_call *c, int error) {
        struct waiter *w = link_owner(c, struct waiter, call);
        w->told++;
        w->error = error;
}

static struct waiter waiter(void) {
        return (struct waiter){ .call.done = on_done };
}

static struct authority target(const char *text) {
        struct authority a;
        assert_int_equal(authority_parse(str_of(text), 443, &a, NULL), 0);
        return a;
}

static void turn(struct bench *b) {
        for (int i = 0; i < 5; i++)
                loop_turn(b->loop, false);
}

static void say(struct bench *b, const struct vault_message *m, int fd) {
        assert_int_equal(vault_send(b->vault, VAULT_TO_GATEWAY, m, fd), 0);
}

static void connect_vault(struct bench *b) {
        int ends[2];
        if (b->vault >= 0)
                close(b->vault);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        b->vault = ends[0];
        vault_client_connect(b->client, ends[1]);
        say(b, &(struct vault_message){ .kind = VAULT_HELLO }, b->page_fd);
        turn(b);
}

static void start_client(struct bench *b, uint64_t patience_ns) {
        vault_client_free(b->client);
        assert_int_equal(vault_client_new(b->loop, b->keys, NULL, patience_ns, &b->client), 0);
        connect_vault(b);
}

static int set_up(void **state) {
        struct bench *b = calloc(1, sizeof *b);
        struct err e = { 0 };
        ca_make(&b->ca, "Test authority");
        assert_int_equal(loop_new(&b->loop, &e), 0);
        assert_int_equal(tls_context_new(NULL, &b->keys, &e), 0);
        assert_int_equal(vault_page_new(4, &b->page, &b->page_fd, &e), 0);
        b->vault = -1;
        start_client(b, 60 * NS_PER_SECOND); /* no test waits for it, and no slow machine reaches it */
        *state = b;
        return 0;
}

static int tear_down(void **state) {
        struct bench *b = *state;
        vault_client_free(b->client);
        loop_drain(b->loop);
        loop_free(b->loop);
        tls_context_free(b->keys);
        vault_page_close(b->page);
        close(b->page_fd);
        if (b->vault >= 0)
                close(b->vault);
        ca_done(&b->ca);
        free(b);
        return 0;
}

/* The next question, or false when there is none. */
static bool hear(struct bench *b, struct vault_message *ret) {
        int fd = -1;
        turn(b);
        int r = vault_receive(b->vault, GATEWAY_TO_VAULT, b->room, ret, &fd);
        assert_int_equal(fd, -1);
        assert_true(r == 1 || r == -EAGAIN);
        return r == 1;
}

static void sign(struct bench *b, const struct vault_message *question) {
        char names[300];
        assert_int_equal(question->kind, VAULT_SIGN);
        snprintf(names, sizeof names, "DNS:%s", question->authority.host.name);
        struct str der = ca_sign(&b->ca, question->data[0], &(struct leaf_wish){ .names = names });
        say(b, &(struct vault_message){ .kind = VAULT_CERTIFICATE, .id = question->id, .data = { der } }, -1);
        OPENSSL_free((void *)der.p);
        turn(b);
}

static void asks_once(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("api.ok.test"), other = target("b.ok.test");
        struct waiter w[4] = { waiter(), waiter(), waiter(), waiter() };
        assert_null(vault_leaf(b->client, &a.host));
        for (int i = 0; i < 3; i++)
                assert_int_equal(vault_ask_leaf(b->client, &a.host, &w[i].call), 0);
        assert_int_equal(vault_ask_leaf(b->client, &other.host, &w[3].call), 0);
        vault_call_cancel(&w[1].call);
        assert_true(hear(b, &m));
        assert_true(str_is(host_str(&m.authority.host), "api.ok.test"));
        sign(b, &m);
        assert_int_equal(w[0].told, 1);
        assert_int_equal(w[0].error, 0);
        assert_int_equal(w[1].told, 0);
        assert_int_equal(w[2].told, 1);
        assert_int_equal(w[3].told, 0);
        assert_non_null(vault_leaf(b->client, &a.host));
        assert_null(vault_leaf(b->client, &other.host));
        assert_true(hear(b, &m));
        sign(b, &m);
        assert_int_equal(w[3].told, 1);
        assert_false(hear(b, &m));
}

static void keeps_a_bounded_number(void **state) {
        struct bench *b = *state;
        enum { HOSTS = 1000 };
        for (int i = 0; i < HOSTS; i++) {
                char name[32];
                struct vault_message m;
                struct waiter w = waiter();
                snprintf(name, sizeof name, "h%d.ok.test", i);
                struct authority a = target(name);
                assert_int_equal(vault_ask_leaf(b->client, &a.host, &w.call), 0);
                assert_true(hear(b, &m));
                sign(b, &m);
                assert_int_equal(w.error, 0);
                struct authority first = target("h0.ok.test");
                if (i < 600)
                        assert_non_null(vault_leaf(b->client, &first.host)); /* in use: it stays */
        }
        int kept = 0;
        for (int i = 0; i < HOSTS; i++) {
                char name[32];
                snprintf(name, sizeof name, "h%d.ok.test", i);
                struct authority a = target(name);
                kept += vault_leaf(b->client, &a.host) != NULL;
        }
        assert_int_equal(kept, 512);
}

static void values_count_by_serial(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("api.ok.test"), port = target("api.ok.test:8443");
        struct waiter w = waiter();
        atomic_store(&b->page->serials[2], 7);
        assert_null(vault_value(b->client, 2, &a));
        assert_int_equal(vault_ask_value(b->client, 2, &a, &w.call), 0);
        assert_true(hear(b, &m));
        assert_int_equal(m.kind, VAULT_RELEASE);
        assert_int_equal(m.mapping, 2);
        assert_int_equal(m.authority.port, 443);
        say(b,
            &(struct vault_message){ .kind = VAULT_SECRET, .id = m.id, .number = 7, .data = { STR("s3cr3t-value") } },
            -1);
        turn(b);
        assert_int_equal(w.told, 1);
        const struct vault_value *v = vault_value(b->client, 2, &a);
        assert_non_null(v);
        assert_true(str_is(v->bytes, "s3cr3t-value"));
        assert_int_equal(v->serial, 7);
        assert_null(vault_value(b->client, 1, &a));    /* another mapping */
        assert_null(vault_value(b->client, 2, &port)); /* another target: the vault has not been asked */
        atomic_store(&b->page->serials[2], 8);
        assert_null(vault_value(b->client, 2, &a));
        atomic_store(&b->page->serials[2], 7); /* serials never repeat; what was dropped is gone all the same */
        assert_null(vault_value(b->client, 2, &a));
        vault_tell_stale(b->client, 2, 8);
        assert_true(hear(b, &m));
        assert_int_equal(m.kind, VAULT_STALE);
        assert_int_equal(m.number, 8);
}

static void signing_keys_have_a_scope(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("s3.ok.test");
        struct vault_scope scope = { STR("20261115"), STR("eu-west-1"), STR("s3") }, next = scope;
        struct waiter w = waiter();
        char key[VAULT_DIGEST_BYTES] = "0123456789abcdef0123456789abcde";
        next.date = STR("20261116");
        atomic_store(&b->page->serials[0], 3);
        assert_int_equal(vault_ask_signing_key(b->client, 0, &a, &scope, &w.call), 0);
        assert_true(hear(b, &m));
        assert_int_equal(m.kind, VAULT_SIGV4);
        assert_true(str_is(m.data[0], "20261115") && str_is(m.data[1], "eu-west-1") && str_is(m.data[2], "s3"));
        say(b,
            &(struct vault_message){ .kind = VAULT_SIGNING_KEY,
                                     .id = m.id,
                                     .number = 3,
                                     .data = { STR("AKIDREAL"), str_n(key, sizeof key), STR("") } },
            -1);
        turn(b);
        const struct vault_signing_key *k = vault_signing_key(b->client, 0, &a, &scope);
        assert_non_null(k);
        assert_true(str_is(k->key_id, "AKIDREAL"));
        assert_memory_equal(k->key.p, key, sizeof key);
        assert_int_equal(k->token.n, 0);
        assert_null(vault_signing_key(b->client, 0, &a, &next));
        assert_null(vault_value(b->client, 0, &a));
}

static void refusals_have_their_errors(void **state) {
        static const struct {
                enum vault_refusal why;
                int error;
        } cases[] = { { VAULT_NOT_MAPPED, -EACCES },
                      { VAULT_WRONG_TARGET, -EACCES },
                      { VAULT_NO_VALUE, -ENOKEY },
                      { VAULT_BAD_KEY, -EIO },
                      { VAULT_BROKEN, -EIO } };
        struct bench *b = *state;
        struct authority a = target("api.ok.test");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct vault_message m;
                struct waiter w = waiter();
                assert_int_equal(vault_ask_value(b->client, 1, &a, &w.call), 0);
                assert_true(hear(b, &m));
                say(b, &(struct vault_message){ .kind = VAULT_REFUSED, .id = m.id, .number = cases[i].why }, -1);
                turn(b);
                assert_int_equal(w.told, 1);
                assert_int_equal(w.error, cases[i].error);
        }
}

/* There is room for some large ones; those that were not used for longest give way, and no two lie on each other. */
static void secrets_give_way(void **state) {
        enum { N = 24 };
        static char text[N][VAULT_SECRET_MAX];
        struct bench *b = *state;
        struct authority a = target("api.ok.test");
        atomic_store(&b->page->serials[0], 7);
        for (size_t i = 0; i < N; i++) {
                size_t n = VAULT_SECRET_MAX - 1000 * (i % 5);
                struct vault_message m;
                struct waiter w = waiter();
                a.port = (uint16_t)(1 + i);
                memset(text[i], (int)('a' + i), sizeof text[i]);
                assert_int_equal(vault_ask_value(b->client, 0, &a, &w.call), 0);
                assert_true(hear(b, &m));
                say(b,
                    &(struct vault_message){
                        .kind = VAULT_SECRET, .id = m.id, .number = 7, .data = { str_n(text[i], n) } },
                    -1);
                turn(b);
                assert_int_equal(w.error, 0);
                size_t kept = 0;
                for (size_t k = 0; k <= i; k++) {
                        a.port = (uint16_t)(1 + k);
                        const struct vault_value *v = vault_value(b->client, 0, &a);
                        assert_true(v || k < i);
                        kept += v != NULL;
                        if (v)
                                assert_memory_equal(v->bytes.p, text[k], v->bytes.n);
                }
                assert_true(kept >= (i < 6 ? i + 1 : 6));
        }
}

static void survives_the_vault(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("api.ok.test");
        struct waiter w[3] = { waiter(), waiter(), waiter() };
        atomic_store(&b->page->serials[0], 1);
        vault_ask_leaf(b->client, &a.host, &w[0].call);
        assert_true(hear(b, &m));
        sign(b, &m);
        vault_ask_value(b->client, 0, &a, &w[1].call);
        assert_true(hear(b, &m));
        say(b, &(struct vault_message){ .kind = VAULT_SECRET, .id = m.id, .number = 1, .data = { STR("value") } }, -1);
        turn(b);
        assert_non_null(vault_value(b->client, 0, &a));
        vault_ask_value(b->client, 1, &a, &w[2].call);
        close(b->vault);
        b->vault = -1;
        turn(b);
        assert_int_equal(w[2].told, 1);
        assert_int_equal(w[2].error, -EPIPE);
        assert_null(vault_value(b->client, 0, &a));
        assert_non_null(vault_leaf(b->client, &a.host));
        struct waiter late = waiter();
        assert_int_equal(vault_ask_value(b->client, 0, &a, &late.call), -EPIPE);
        connect_vault(b);
        assert_null(vault_value(b->client, 0, &a));
        assert_int_equal(vault_ask_value(b->client, 0, &a, &late.call), 0);
        assert_true(hear(b, &m));
        say(b, &(struct vault_message){ .kind = VAULT_SECRET, .id = m.id, .number = 1, .data = { STR("value") } }, -1);
        turn(b);
        assert_non_null(vault_value(b->client, 0, &a));
}

/* What is no answer to what was asked ends the connection; an answer that comes too late does not. */
static void trusts_no_nonsense(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("api.ok.test");
        struct waiter w = waiter();
        vault_ask_leaf(b->client, &a.host, &w.call);
        assert_true(hear(b, &m));
        say(b, &(struct vault_message){ .kind = VAULT_SECRET, .id = m.id, .number = 1, .data = { STR("value") } }, -1);
        turn(b);
        assert_int_equal(w.error, -EPIPE);
        connect_vault(b);
        w = waiter();
        vault_ask_leaf(b->client, &a.host, &w.call);
        say(b, &(struct vault_message){ .kind = VAULT_REFUSED, .id = 4711, .number = VAULT_BROKEN }, -1);
        turn(b);
        assert_int_equal(w.error, -EPIPE);
        connect_vault(b);
        w = waiter();
        vault_ask_leaf(b->client, &a.host, &w.call);
        assert_true(hear(b, &m));
        say(b, &(struct vault_message){ .kind = VAULT_CERTIFICATE, .id = m.id, .data = { STR("no certificate") } }, -1);
        turn(b);
        assert_int_equal(w.error, -EIO);
        assert_null(vault_leaf(b->client, &a.host));
        w = waiter();
        vault_ask_leaf(b->client, &a.host, &w.call); /* the connection is still there */
        assert_true(hear(b, &m));
        sign(b, &m);
        assert_int_equal(w.told, 1);
        assert_int_equal(w.error, 0);
}

static void gives_up_in_time(void **state) {
        struct bench *b = *state;
        struct vault_message m;
        struct authority a = target("api.ok.test");
        struct waiter w = waiter();
        start_client(b, NS_PER_SECOND / 20);
        vault_ask_leaf(b->client, &a.host, &w.call);
        assert_true(hear(b, &m));
        for (uint64_t end = clock_ns() + 60 * NS_PER_SECOND; !w.told && clock_ns() < end;)
                loop_turn(b->loop, true);
        assert_int_equal(w.error, -ETIMEDOUT);
        sign(b, &m); /* nobody waits for it, and it is no nonsense either */
        w = waiter();
        assert_int_equal(vault_ask_leaf(b->client, &a.host, &w.call), 0);
        assert_true(hear(b, &m));
        vault_call_cancel(&w.call); /* it is asked for until the end, and w is not there then */
}

/* A vault that does not read: questions wait, in order, and none is lost. */
static void waits_for_the_socket(void **state) {
        struct bench *b = *state;
        enum { MANY = 1500 };
        static struct waiter w[MANY];
        for (int i = 0; i < MANY; i++) {
                char name[32];
                snprintf(name, sizeof name, "h%d.ok.test", i);
                struct authority a = target(name);
                w[i] = waiter();
                assert_int_equal(vault_ask_value(b->client, 0, &a, &w[i].call), 0);
        }
        for (int i = 0; i < MANY; i++) {
                struct vault_message m;
                assert_true(hear(b, &m));
                say(b, &(struct vault_message){ .kind = VAULT_REFUSED, .id = m.id, .number = VAULT_NO_VALUE }, -1);
                turn(b);
                assert_int_equal(w[i].told, 1);
        }
}

int main(void) {
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                WITH_BENCH(asks_once),
                WITH_BENCH(keeps_a_bounded_number),
                WITH_BENCH(values_count_by_serial),
                WITH_BENCH(signing_keys_have_a_scope),
                WITH_BENCH(refusals_have_their_errors),
                WITH_BENCH(secrets_give_way),
                WITH_BENCH(survives_the_vault),
                WITH_BENCH(trusts_no_nonsense),
                WITH_BENCH(gives_up_in_time),
                WITH_BENCH(waits_for_the_socket),
        };
        return cmocka_run_group_tests_name("vault_client", tests, NULL, NULL);
}
