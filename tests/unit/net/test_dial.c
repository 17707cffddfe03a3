/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/dial.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct result {
        int calls, error;
        struct stream *stream;
        struct addr addr;
};

static void on_dialled(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct result *r = owner;
        r->calls++;
        r->error = error;
        r->stream = s;
        if (addr)
                r->addr = *addr;
}

static struct addr addr_of(const char *text) {
        struct addr a;
        assert_true(addr_parse(str_of(text), &a));
        return a;
}

/* A listener on the address, with a port of its choosing or the one given; -1 where the machine lacks the address. */
static int listen_on(const char *text, uint16_t *port, int backlog) {
        struct addr a = addr_of(text);
        struct sockaddr_storage where;
        socklen_t size = addr_to_sockaddr(&a, *port, &where);
        int fd = socket(where.ss_family, SOCK_STREAM, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&where, size) < 0 || listen(fd, backlog) < 0) {
                close(fd);
                return -1;
        }
        size = sizeof where;
        getsockname(fd, (struct sockaddr *)&where, &size);
        assert_true(addr_from_sockaddr((struct sockaddr *)&where, &a, port));
        return fd;
}

static void run(struct loop *l, struct result *r) {
        uint64_t limit = clock_ns() + 60 * NS_PER_SECOND;
        while (!r->calls && clock_ns() < limit)
                loop_turn(l, true);
        assert_int_equal(r->calls, 1);
}

static int set_up(void **state) {
        return loop_new((struct loop **)state, NULL);
}

static int tear_down(void **state) {
        loop_turn(*state, false);
        loop_free(*state);
        return 0;
}

static void connects(void **state) {
        struct result r = { 0 };
        struct dial *d;
        uint16_t port = 0;
        int listener = listen_on("127.0.0.1", &port, 8);
        struct addr a = addr_of("127.0.0.1");
        assert_int_equal(dial_start(*state, &a, 1, port, NS_PER_SECOND, on_dialled, &r, &d), 0);
        assert_int_equal(r.calls, 0); /* never from inside */
        run(*state, &r);
        assert_int_equal(r.error, 0);
        assert_true(addr_equal(&r.addr, &a));
        assert_int_equal(stream_write(r.stream, STR("x")), 1);
        stream_close(r.stream);
        close(listener);
}

/* The refused ones are passed over at once, without waiting for the stagger. */
static void tries_all_addresses(void **state) {
        struct result r = { 0 };
        struct dial *d;
        uint16_t port = 0;
        int listener = listen_on("127.0.0.9", &port, 8);
        struct addr a[] = { addr_of("127.0.0.2"), addr_of("::1"), addr_of("127.0.0.3"), addr_of("127.0.0.9") };
        uint64_t begin = clock_ns();
        assert_int_equal(dial_start(*state, a, 4, port, NS_PER_SECOND, on_dialled, &r, &d), 0);
        run(*state, &r);
        assert_int_equal(r.error, 0);
        assert_true(addr_equal(&r.addr, &a[3]));
        assert_true(clock_ns() - begin < 200 * NS_PER_MS);
        stream_close(r.stream);
        close(listener);
}

static void reports_the_most_telling_error(void **state) {
        struct result r = { 0 };
        struct dial *d;
        uint16_t port = 0;
        close(listen_on("127.0.0.1", &port, 8)); /* a port that nobody listens on now */
        struct addr a[] = { addr_of("255.255.255.255"), addr_of("127.0.0.1") };
        assert_int_equal(dial_start(*state, a, 2, port, NS_PER_SECOND, on_dialled, &r, &d), 0);
        run(*state, &r);
        assert_int_equal(r.error, -ECONNREFUSED);
        assert_null(r.stream);
        assert_int_equal(dial_start(*state, a, 0, port, NS_PER_SECOND, on_dialled, &r, &d), -EINVAL);
}

/* A listener whose queue is full does not answer: after the stagger the next address is tried beside it. */
static void staggers_past_a_silent_one(void **state) {
        struct result r = { 0 };
        struct dial *d;
        uint16_t port = 0;
        int silent = listen_on("127.0.0.5", &port, 0), good = listen_on("127.0.0.6", &port, 8);
        assert_true(silent >= 0 && good >= 0);
        int fill[8];
        for (int i = 0; i < 8; i++) {
                struct addr s = addr_of("127.0.0.5");
                struct sockaddr_storage where;
                socklen_t size = addr_to_sockaddr(&s, port, &where);
                fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                assert_true(connect(fill[i], (struct sockaddr *)&where, size) == 0 || errno == EINPROGRESS);
        }
        struct addr a[] = { addr_of("127.0.0.5"), addr_of("127.0.0.6") };
        uint64_t begin = clock_ns();
        assert_int_equal(dial_start(*state, a, 2, port, 3 * NS_PER_SECOND, on_dialled, &r, &d), 0);
        run(*state, &r);
        assert_int_equal(r.error, 0);
        assert_true(addr_equal(&r.addr, &a[1]));
        assert_true(clock_ns() - begin >= DIAL_STAGGER_NS);
        stream_close(r.stream);
        r = (struct result){ 0 };
        assert_int_equal(dial_start(*state, a, 1, port, 300 * NS_PER_MS, on_dialled, &r, &d), 0);
        run(*state, &r);
        assert_int_equal(r.error, -ETIMEDOUT);
        for (int i = 0; i < 8; i++)
                close(fill[i]);
        close(silent);
        close(good);
}

static void cancelled_is_silent(void **state) {
        struct result r = { 0 };
        struct dial *d;
        uint16_t port = 0;
        int listener = listen_on("127.0.0.1", &port, 8);
        struct addr a = addr_of("127.0.0.1");
        assert_int_equal(dial_start(*state, &a, 1, port, NS_PER_SECOND, on_dialled, &r, &d), 0);
        dial_cancel(d);
        for (int i = 0; i < 5; i++)
                loop_turn(*state, false);
        assert_int_equal(r.calls, 0);
        close(listener);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(connects, set_up, tear_down),
                cmocka_unit_test_setup_teardown(tries_all_addresses, set_up, tear_down),
                cmocka_unit_test_setup_teardown(reports_the_most_telling_error, set_up, tear_down),
                cmocka_unit_test_setup_teardown(staggers_past_a_silent_one, set_up, tear_down),
                cmocka_unit_test_setup_teardown(cancelled_is_silent, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
