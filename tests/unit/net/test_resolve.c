/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/resolve.h"

#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* A name server on loopback that answers A questions by the first label of the name, counts them, and can be silent. */
struct server {
        struct loop *loop;
        struct watch watch;
        int fd;
        uint16_t port;
        int asked_a;
        bool silent;
};

static size_t question_end(const unsigned char *q, size_t n) {
        size_t at = 12;
        while (at < n && q[at])
                at += q[at] + 1u;
        return at + 5;
}

static size_t put_a(unsigned char *p, uint32_t ttl, const unsigned char address[4]) {
        unsigned char record[] = { 0xc0,
                                   12,
                                   0,
                                   1,
                                   0,
                                   1,
                                   (unsigned char)(ttl >> 24),
                                   (unsigned char)(ttl >> 16),
                                   (unsigned char)(ttl >> 8),
                                   (unsigned char)ttl,
                                   0,
                                   4 };
        memcpy(p, record, sizeof record);
        memcpy(p + sizeof record, address, 4);
        return sizeof record + 4;
}

static size_t put_aaaa(unsigned char *p, unsigned char last) {
        const unsigned char record[28] = { 0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0x20, 1, 0xd, 0xb8, [27] = last };
        memcpy(p, record, sizeof record);
        return sizeof record;
}

static void on_question(struct watch *w, unsigned ready) {
        (void)ready;
        struct server *s = link_owner(w, struct server, watch);
        unsigned char m[2048];
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(s->fd, m, 512, 0, (struct sockaddr *)&from, &size);
        if (got < 17)
                return;
        size_t n = question_end(m, (size_t)got);
        bool a = m[n - 3] == 1;
        s->asked_a += a;
        if (s->silent)
                return;
        unsigned answers = 0;
        m[2] = 0x81;
        m[3] = 0x80;
        memset(m + 6, 0, 6);
        if (a && memcmp(m + 13, "two", 3) == 0) {
                n += put_a(m + n, 60, (unsigned char[]){ 192, 0, 2, 1 });
                n += put_a(m + n, 60, (unsigned char[]){ 192, 0, 2, 2 });
                answers = 2;
        } else if (a && memcmp(m + 13, "brief", 5) == 0) {
                n += put_a(m + n, 0, (unsigned char[]){ 192, 0, 2, (unsigned char)s->asked_a });
                answers = 1;
        } else if (memcmp(m + 13, "flood", 5) == 0) {
                for (answers = 0; answers < (a ? 20 : 16);
                     answers++) /* together one more than is taken, and then some */
                        n += a ? put_a(m + n, 60, (unsigned char[]){ 192, 0, 2, (unsigned char)answers })
                               : put_aaaa(m + n, (unsigned char)answers);
        } else if (memcmp(m + 13, "gone", 4) == 0) {
                m[3] |= 3;
        } else if (memcmp(m + 13, "junk", 4) == 0) {
                m[7] = 9; /* nine answers, none there */
        }
        if (answers)
                m[7] = (unsigned char)answers;
        sendto(s->fd, m, n, 0, (struct sockaddr *)&from, size);
}

struct lab {
        struct loop *loop;
        struct server server;
        struct resolver *resolver;
        char hosts[64];
};

static int set_up(void **state) {
        struct lab *lab = calloc(1, sizeof *lab);
        struct server *s = &lab->server;
        assert_int_equal(loop_new(&lab->loop, NULL), 0);
        s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof a;
        assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
        getsockname(s->fd, (struct sockaddr *)&a, &size);
        s->port = ntohs(a.sin_port);
        assert_int_equal(watch_start_level(lab->loop, &s->watch, s->fd, WATCH_READ, on_question), 0);
        snprintf(lab->hosts, sizeof lab->hosts, "/tmp/test-resolve-XXXXXX");
        int fd = mkstemp(lab->hosts);
        const char text[] = "# static\n192.0.2.9 fixed.test other.test\n2001:db8::9\tfixed.test # both\n\n";
        assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
        close(fd);
        struct resolve_server server = { .port = s->port };
        assert_true(addr_parse(STR("127.0.0.1"), &server.addr));
        struct resolver_settings settings = { .servers = &server,
                                              .n_servers = 1,
                                              .hosts_file = lab->hosts,
                                              .timeout_ns = 400 * NS_PER_MS,
                                              .cache_max = 4,
                                              .flight_max = 3 };
        struct err e = { 0 };
        if (resolver_new(lab->loop, &settings, &lab->resolver, &e) < 0)
                fail_msg("%s", err_text(&e));
        *state = lab;
        return 0;
}

static int tear_down(void **state) {
        struct lab *lab = *state;
        resolver_free(lab->resolver);
        watch_stop(&lab->server.watch);
        close(lab->server.fd);
        loop_turn(lab->loop, false);
        loop_free(lab->loop);
        unlink(lab->hosts);
        free(lab);
        return 0;
}

struct waiter {
        struct resolve_call call;
        int calls, error;
        unsigned n;
        uint8_t last[RESOLVE_ADDRS_MAX];
};

static void on_answer(struct resolve_call *c, const struct resolve_answer *a) {
        struct waiter *w = link_owner(c, struct waiter, call);
        w->calls++;
        w->error = a->error;
        w->n = a->n;
        for (unsigned i = 0; i < a->n; i++)
                w->last[i] = a->addrs[i].bytes[a->addrs[i].family == ADDR_V4 ? 3 : 15];
}

static struct host name(const char *text) {
        struct host h;
        assert_int_equal(host_parse(str_of(text), &h, NULL), 0);
        return h;
}

static void begin(struct lab *lab, const char *text, struct waiter *w) {
        struct host h = name(text);
        *w = (struct waiter){ .call.done = on_answer };
        assert_int_equal(resolve_start(lab->resolver, &h, &w->call), 0);
        assert_int_equal(w->calls, 0);
}

static void finish(struct lab *lab, struct waiter *w) {
        uint64_t limit = clock_ns() + 60 * NS_PER_SECOND;
        while (!w->calls && clock_ns() < limit)
                loop_turn(lab->loop, true);
        assert_int_equal(w->calls, 1);
}

static void answers_are_kept_and_shared(void **state) {
        struct lab *lab = *state;
        struct waiter a, b, c;
        begin(lab, "two.test", &a);
        begin(lab, "two.test", &b);
        finish(lab, &a);
        finish(lab, &b);
        assert_int_equal(a.error, 0);
        assert_int_equal(a.n, 2);
        assert_int_equal(a.last[0] + a.last[1], 3);
        assert_int_equal(b.n, 2);
        begin(lab, "two.test", &c);
        finish(lab, &c);
        assert_int_equal(c.n, 2);
        assert_int_equal(lab->server.asked_a, 1); /* one question for all three */
        struct host h = name("two.test");
        assert_non_null(resolve_cached(lab->resolver, &h));
}

static void absence_is_kept_too(void **state) {
        struct lab *lab = *state;
        struct waiter a;
        begin(lab, "gone.test", &a);
        finish(lab, &a);
        assert_int_equal(a.error, -ENOENT);
        begin(lab, "gone.test", &a);
        finish(lab, &a);
        assert_int_equal(a.error, -ENOENT);
        assert_int_equal(lab->server.asked_a, 1);
}

/* An answer with no lifetime is asked for again: what is judged is what is dialled, each time. */
static void short_lives_end(void **state) {
        struct lab *lab = *state;
        struct waiter a;
        begin(lab, "brief.test", &a);
        finish(lab, &a);
        assert_int_equal(a.last[0], 1);
        usleep(1100000);
        loop_turn(lab->loop, false);
        begin(lab, "brief.test", &a);
        finish(lab, &a);
        assert_int_equal(a.last[0], 2);
}

static void too_many_addresses_are_refused(void **state) {
        struct waiter a;
        begin(*state, "flood.test", &a);
        finish(*state, &a);
        assert_int_equal(a.error, -E2BIG);
        assert_int_equal(a.n, 0);
}

static void nonsense_is_an_error(void **state) {
        struct waiter a;
        begin(*state, "junk.test", &a);
        finish(*state, &a);
        assert_true(a.error < 0);
        assert_int_equal(a.n, 0);
}

/* A dead server costs one time limit, and no more than the limit of questions is in flight. */
static void silence_ends_in_time(void **state) {
        struct lab *lab = *state;
        lab->server.silent = true;
        struct waiter w[4];
        uint64_t start = clock_ns();
        for (int i = 0; i < 4; i++) {
                char text[] = "name0.test";
                text[4] = (char)('0' + i);
                begin(lab, text, &w[i]);
        }
        finish(lab, &w[3]);
        assert_int_equal(w[3].error, -EBUSY);
        for (int i = 0; i < 3; i++) {
                finish(lab, &w[i]);
                assert_int_equal(w[i].error, -ETIMEDOUT);
        }
        uint64_t took = clock_ns() - start;
        assert_true(took >= 400 * NS_PER_MS && took < 1500 * NS_PER_MS);
        begin(lab, "name0.test", &w[0]);
        finish(lab, &w[0]);
        assert_int_equal(w[0].error, -ETIMEDOUT);
        assert_true(clock_ns() - start - took < 100 * NS_PER_MS); /* known to be dead for a moment */
}

static void static_names_come_first(void **state) {
        struct lab *lab = *state;
        struct waiter a;
        begin(lab, "fixed.test", &a);
        finish(lab, &a);
        assert_int_equal(a.n, 2);
        assert_int_equal(a.last[0], 9);
        struct host h = name("other.test");
        const struct resolve_answer *known = resolve_cached(lab->resolver, &h);
        assert_non_null(known);
        assert_int_equal(known->n, 1);
        assert_int_equal(lab->server.asked_a, 0);
}

static void cancelled_is_silent(void **state) {
        struct lab *lab = *state;
        struct waiter a, b;
        begin(lab, "two.test", &a);
        begin(lab, "two.test", &b);
        resolve_cancel(&a.call);
        finish(lab, &b);
        assert_int_equal(a.calls, 0);
}

struct persistent {
        struct resolve_call call;
        struct resolver *resolver;
        int calls, again;
};

static void on_end(struct resolve_call *c, const struct resolve_answer *a) {
        struct persistent *p = link_owner(c, struct persistent, call);
        assert_int_equal(a->error, -ECANCELED);
        struct host h = name("another.test");
        p->calls++;
        p->again = resolve_start(p->resolver, &h, c);
}

/* Who hears of the end and asks the next question is told so at once, and nothing is asked of what is being freed. */
static void the_end_is_the_end(void **state) {
        struct lab *lab = *state;
        struct persistent p = { .call.done = on_end, .resolver = lab->resolver };
        struct host h = name("silent.test");
        assert_int_equal(resolve_start(lab->resolver, &h, &p.call), 0);
        resolver_free(lab->resolver);
        lab->resolver = NULL;
        assert_int_equal(p.calls, 1);
        assert_int_equal(p.again, -ECANCELED);
}

/* However many names are asked for, the cache keeps its bound. */
static void the_cache_is_bounded(void **state) {
        struct lab *lab = *state;
        struct waiter a;
        for (int i = 0; i < 20; i++) {
                char text[] = "two00.test";
                text[3] = (char)('0' + i / 10);
                text[4] = (char)('0' + i % 10);
                begin(lab, text, &a);
                finish(lab, &a);
                assert_int_equal(a.n, 2);
        }
        int known = 0;
        for (int i = 0; i < 20; i++) {
                char text[] = "two00.test";
                text[3] = (char)('0' + i / 10);
                text[4] = (char)('0' + i % 10);
                struct host h = name(text);
                known += resolve_cached(lab->resolver, &h) != NULL;
        }
        assert_true(known >= 1 && known <= 4);
}

static void a_bad_host_file_is_an_error(void **state) {
        struct lab *lab = *state;
        static const char *const bad[] = { "192.0.2.300 a.test\n", "192.0.2.1\n", "192.0.2.1 bad..name\n",
                                           "192.0.2.1 1.2.3.4\n" };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                FILE *f = fopen(lab->hosts, "w");
                fputs("192.0.2.1 good.test\n", f);
                fputs(bad[i], f);
                fclose(f);
                struct resolver_settings settings = { .hosts_file = lab->hosts };
                struct resolver *r = NULL;
                struct err e = { 0 };
                assert_true(resolver_new(lab->loop, &settings, &r, &e) < 0);
                assert_non_null(strstr(err_text(&e), ":2"));
        }
}

#define WITH_LAB(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_LAB(answers_are_kept_and_shared),
                WITH_LAB(absence_is_kept_too),
                WITH_LAB(short_lives_end),
                WITH_LAB(too_many_addresses_are_refused),
                WITH_LAB(nonsense_is_an_error),
                WITH_LAB(silence_ends_in_time),
                WITH_LAB(static_names_come_first),
                WITH_LAB(cancelled_is_silent),
                WITH_LAB(the_end_is_the_end),
                WITH_LAB(the_cache_is_bounded),
                WITH_LAB(a_bad_host_file_is_an_error),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
