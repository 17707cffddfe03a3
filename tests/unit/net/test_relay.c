/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/relay.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* A relay between two TCP connections on loopback; the test holds the outer ends. */
struct bench {
        struct loop *loop;
        struct pool pool;
        struct relay relay;
        int client, server; /* outer ends */
        int ended;          /* how many times done() was called */
        enum relay_end how;
        int error;
        uint64_t quota;
};

static void tcp_pair(int ret[2]) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof a;
        assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
        ret[0] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(ret[0], (struct sockaddr *)&a, sizeof a), 0);
        ret[1] = accept(listener, NULL, NULL);
        assert_true(ret[1] >= 0);
        close(listener);
        for (int i = 0; i < 2; i++)
                fcntl(ret[i], F_SETFL, O_NONBLOCK);
}

static void on_done(struct relay *r, enum relay_end how, int error) {
        struct bench *b = link_owner(r, struct bench, relay);
        b->ended++;
        b->how = how;
        b->error = error;
}

static void start(struct bench *b, uint64_t idle_ns) {
        int c[2], s[2];
        tcp_pair(c);
        tcp_pair(s);
        b->client = c[0];
        b->server = s[0];
        struct stream *client, *server;
        assert_int_equal(stream_socket_new(b->loop, c[1], &client), 0);
        assert_int_equal(stream_socket_new(b->loop, s[1], &server), 0);
        b->relay.done = on_done;
        relay_start(&b->relay, &b->pool, client, server, idle_ns);
}

static int set_up(void **state) {
        struct bench *b = calloc(1, sizeof *b);
        b->client = b->server = -1;
        assert_int_equal(loop_new(&b->loop, NULL), 0);
        assert_int_equal(pool_init(&b->pool), 0);
        *state = b;
        return 0;
}

static int tear_down(void **state) {
        struct bench *b = *state;
        if (!b->ended && b->relay.side[0])
                relay_stop(&b->relay, false);
        loop_turn(b->loop, false);
        if (b->client >= 0)
                close(b->client);
        if (b->server >= 0)
                close(b->server);
        pool_done(&b->pool);
        loop_free(b->loop);
        free(b);
        return 0;
}

/* Turns until fd has n bytes (or ends, or two seconds pass); returns what was read. */
static size_t take(struct bench *b, int fd, char *into, size_t n) {
        size_t have = 0;
        uint64_t limit = clock_ns() + 60 * NS_PER_SECOND;
        while (have < n && clock_ns() < limit) {
                loop_turn(b->loop, false);
                ssize_t got = recv(fd, into + have, n - have, 0);
                if (got == 0)
                        break;
                if (got > 0)
                        have += (size_t)got;
        }
        return have;
}

static void turn_until_ended(struct bench *b) {
        uint64_t limit = clock_ns() + 60 * NS_PER_SECOND;
        while (!b->ended && clock_ns() < limit)
                loop_turn(b->loop, false);
        assert_int_equal(b->ended, 1);
}

static void bytes_go_both_ways(void **state) {
        struct bench *b = *state;
        char in[16];
        start(b, 0);
        assert_int_equal(write(b->client, "question", 8), 8);
        assert_int_equal(take(b, b->server, in, 8), 8);
        assert_memory_equal(in, "question", 8);
        assert_int_equal(write(b->server, "answer", 6), 6);
        assert_int_equal(take(b, b->client, in, 6), 6);
        assert_memory_equal(in, "answer", 6);
        assert_int_equal(b->relay.flow[RELAY_CLIENT].bytes, 8);
        assert_int_equal(b->relay.flow[RELAY_SERVER].bytes, 6);
        assert_null(b->relay.flow[0].rest);
        assert_null(b->relay.flow[1].pipe);
}

/* Each direction ends on its own; the relay is over when both have. */
static void half_close_is_passed_on(void **state) {
        struct bench *b = *state;
        char in[16];
        start(b, 0);
        assert_int_equal(write(b->client, "last", 4), 4);
        shutdown(b->client, SHUT_WR);
        assert_int_equal(take(b, b->server, in, 16), 4);
        assert_int_equal(b->ended, 0);
        assert_int_equal(write(b->server, "late", 4), 4);
        assert_int_equal(take(b, b->client, in, 4), 4);
        shutdown(b->server, SHUT_WR);
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_CLOSED);
}

/* Much more than any buffer, against a reader that stops: nothing is lost, and at rest nothing is held. */
static void backpressure_and_splice_keep_the_bytes(void **state) {
        struct bench *b = *state;
        enum { TOTAL = 24 << 20 };
        start(b, 0);
        char *out = malloc(1 << 20), *in = malloc(1 << 20);
        size_t sent = 0, got = 0;
        uint64_t limit = clock_ns() + 120 * NS_PER_SECOND;
        while (got < TOTAL && clock_ns() < limit) {
                size_t before = sent;
                while (sent < TOTAL) {
                        size_t n = TOTAL - sent < 65536 ? TOTAL - sent : 65536;
                        for (size_t i = 0; i < n; i++)
                                out[i] = (char)((sent + i) * 31 >> 3);
                        ssize_t put = write(b->server, out, n);
                        if (put <= 0)
                                break;
                        sent += (size_t)put;
                }
                loop_turn(b->loop, false);
                if (sent > before && got + (8 << 20) > sent)
                        continue; /* let it pile up first, as far as the kernel's buffers go: a busy machine has smaller
                                     ones */
                ssize_t n = recv(b->client, in, 300001, 0);
                for (ssize_t i = 0; i < n; i++)
                        if (in[i] != (char)((got + (size_t)i) * 31 >> 3))
                                fail_msg("byte %zu differs", got + (size_t)i);
                got += n > 0 ? (size_t)n : 0;
                if (sent < TOTAL && n < 0)
                        continue;
        }
        assert_int_equal(got, TOTAL);
        loop_turn(b->loop, false);
        assert_null(b->relay.flow[1].rest);
        assert_null(b->relay.flow[1].pipe);
        assert_true(b->pool.n_pipes > 0); /* the pipe was used, and is back */
        free(out);
        free(in);
}

/* A reset at one end is a reset at the other, never a clean end that would hide lost bytes. */
static void reset_is_a_reset(void **state) {
        struct bench *b = *state;
        char in[4];
        start(b, 0);
        assert_int_equal(write(b->server, "x", 1), 1);
        assert_int_equal(take(b, b->client, in, 1), 1);
        struct linger now = { .l_onoff = 1 };
        setsockopt(b->server, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(b->server);
        b->server = -1;
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_RESET);
        assert_int_equal(b->error, -ECONNRESET);
        assert_int_equal(recv(b->client, in, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
}

/* The same when the reset follows the last bytes at once, so that one look at the socket finds both. */
static void reset_behind_bytes_is_heard(void **state) {
        struct bench *b = *state;
        char in[4];
        start(b, 0);
        assert_int_equal(write(b->server, "x", 1), 1);
        assert_int_equal(take(b, b->client, in, 1), 1);
        struct linger now = { .l_onoff = 1 };
        setsockopt(b->server, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        assert_int_equal(write(b->server, "last", 4), 4);
        close(b->server);
        b->server = -1;
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_RESET);
        assert_int_equal(b->error, -ECONNRESET);
}

static void idle_ends_it(void **state) {
        struct bench *b = *state;
        char in[4];
        start(b, 1000 * NS_PER_MS); /* long enough for a machine that stands still for a while */
        uint64_t begin = clock_ns();
        while (clock_ns() - begin < 100 * NS_PER_MS)
                loop_turn(b->loop, false);
        assert_int_equal(write(b->client, "x", 1), 1);
        assert_int_equal(take(b, b->server, in, 1), 1);
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_IDLE);
        assert_true(clock_ns() - begin >= 1095 * NS_PER_MS); /* the byte gave it more time */
}

static bool account(struct relay *r, size_t n) {
        struct bench *b = link_owner(r, struct bench, relay);
        if (n > b->quota)
                return false;
        b->quota -= n;
        return true;
}

static void quota_ends_it(void **state) {
        struct bench *b = *state;
        char in[16];
        b->relay.account = account;
        b->quota = 4;
        start(b, 0);
        assert_int_equal(write(b->client, "1234", 4), 4);
        assert_int_equal(take(b, b->server, in, 4), 4);
        assert_int_equal(write(b->client, "5", 1), 1);
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_REFUSED);
}

/* Lets "a" records of three bytes through, one after another, and stops at anything else. */
static enum relay_look only_a(struct relay *r, struct str bytes, bool ended) {
        (void)ended;
        if (bytes.p[0] != 'a')
                return RELAY_STOP;
        if (bytes.n < 3)
                return RELAY_HOLD;
        r->pass_left = 3;
        return RELAY_PASS;
}

/* Not one byte leaves before it was looked at, however the bytes are cut; the server's bytes pass meanwhile. */
static void inspection_holds_bytes_back(void **state) {
        struct bench *b = *state;
        char in[16];
        b->relay.inspect = only_a;
        start(b, 0);
        assert_int_equal(write(b->client, "a", 1), 1);
        assert_int_equal(write(b->server, "hello", 5), 5);
        assert_int_equal(take(b, b->client, in, 5), 5);
        assert_int_equal(recv(b->server, in, 16, 0), -1);
        assert_int_equal(write(b->client, "12a34a", 6), 6);
        assert_int_equal(take(b, b->server, in, 6), 6);
        assert_memory_equal(in, "a12a34", 6);
        for (int i = 0; i < 5; i++)
                loop_turn(b->loop, false);
        assert_int_equal(recv(b->server, in, 16, 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(write(b->client, "56b78", 5), 5);
        turn_until_ended(b);
        assert_int_equal(b->how, RELAY_REFUSED);
        assert_int_equal(b->relay.flow[RELAY_CLIENT].bytes, 9);
}

/* Bytes that were given back to a stream come first. */
static void pushed_back_bytes_come_first(void **state) {
        struct bench *b = *state;
        char in[16];
        int c[2], s[2];
        tcp_pair(c);
        tcp_pair(s);
        struct stream *client, *server;
        assert_int_equal(stream_socket_new(b->loop, c[1], &client), 0);
        assert_int_equal(stream_socket_new(b->loop, s[1], &server), 0);
        b->client = c[0];
        b->server = s[0];
        assert_int_equal(write(b->client, "three", 5), 5);
        assert_int_equal(stream_unread(client, STR("two ")), 0);
        assert_int_equal(stream_unread(client, STR("one ")), 0);
        b->relay.done = on_done;
        relay_start(&b->relay, &b->pool, client, server, 0);
        assert_int_equal(take(b, b->server, in, 13), 13);
        assert_memory_equal(in, "one two three", 13);
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_BENCH(bytes_go_both_ways),
                WITH_BENCH(half_close_is_passed_on),
                WITH_BENCH(reset_is_a_reset),
                WITH_BENCH(reset_behind_bytes_is_heard),
                WITH_BENCH(backpressure_and_splice_keep_the_bytes),
                WITH_BENCH(idle_ends_it),
                WITH_BENCH(quota_ends_it),
                WITH_BENCH(inspection_holds_bytes_back),
                WITH_BENCH(pushed_back_bytes_come_first),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
