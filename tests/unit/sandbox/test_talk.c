/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the broker to the supervisor, several at a time, against a supervisor that does what one should not. */
#include "sandbox/linux/broker/broker_talk.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct ends {
        struct talk *talk;
        int supervisor;
};

/* A talk lives as long as its process. Here they are kept, so that none counts as lost. */
static struct talk *kept[8];
static size_t kept_n;

static struct ends talk_between(void) {
        struct ends ends = { 0 };
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(talk_new(pair[0], &ends.talk), 0);
        assert_true(kept_n < sizeof kept / sizeof *kept);
        kept[kept_n++] = ends.talk;
        ends.supervisor = pair[1];
        return ends;
}

static uint32_t ask(struct talk *talk, enum event_kind kind) {
        struct event event = { .kind = (uint16_t)kind, .rule = RULE_NONE, .method = STR("read"), .path = STR("/x") };
        int r = talk_ask(talk, &event);

        return r < 0 ? 0 : event.generation;
}

static uint32_t heard(int supervisor, struct event *ret) {
        static char batch[EVENT_BATCH_MAX];
        ssize_t n = recv(supervisor, batch, sizeof batch, 0);
        struct str rest = str_n(batch, n > 0 ? (size_t)n : 0);

        assert_true(n > 0);
        assert_int_equal(event_decode(&rest, ret), 1);
        return ret->generation;
}

static void answer(int supervisor, uint32_t number, uint32_t value, int fd) {
        const struct broker_answer answer = { number, value };

        assert_int_equal(fd_send(supervisor, str_n((const char *)&answer, sizeof answer), &fd, fd >= 0), 0);
}

static void each_gets_its_own_answer(void **state) {
        (void)state;
        struct ends ends = talk_between();
        uint32_t numbers[8], value = 0;
        struct event event;

        for (size_t i = 0; i < 8; i++) {
                numbers[i] = ask(ends.talk, EVENT_HELD);
                assert_int_equal(heard(ends.supervisor, &event), numbers[i]);
                assert_true(str_is(event.path, "/x"));
        }

        for (size_t i = 8; i-- > 0;)
                answer(ends.supervisor, numbers[i], (uint32_t)i + 100, -1);

        for (size_t i = 0; i < 8; i++) {
                assert_int_equal(talk_await(ends.talk, numbers[i], NULL, &value, NULL), 0);
                assert_int_equal(value, i + 100);
        }

        close(ends.supervisor);
}

static void a_descriptor_comes_with_it(void **state) {
        (void)state;
        struct ends ends = talk_between();
        uint32_t number = ask(ends.talk, EVENT_HELD), value = 0;
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = -1;
        int pipe_ends[2];
        char byte;

        answer(ends.supervisor, number, HELD_OPENED, null);
        assert_int_equal(talk_await(ends.talk, number, NULL, &value, &fd), 0);
        assert_true(fd >= 0 && value == HELD_OPENED);
        close(fd);
        close(null);

        /* What nobody waits for is closed: the other end of a pipe says so. */
        assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
        answer(ends.supervisor, number, HELD_OPENED, pipe_ends[1]);
        close(pipe_ends[1]);
        assert_int_equal(read(pipe_ends[0], &byte, 1), 0);
        close(pipe_ends[0]);
        close(ends.supervisor);
}

static void a_ratchet_has_room_when_all_wait(void **state) {
        (void)state;
        struct ends ends = talk_between();
        uint32_t number, value = 0, first = 0;
        struct event event;

        for (int i = 0; i < TALK_HELD_MAX; i++) {
                number = ask(ends.talk, EVENT_HELD);
                assert_int_not_equal(number, 0);
                first = first ? first : number;
                (void)heard(ends.supervisor, &event);
        }

        assert_int_equal(ask(ends.talk, EVENT_HELD), 0);
        number = ask(ends.talk, EVENT_RATCHET);
        assert_int_not_equal(number, 0);

        /* So has what is named, and no ratchet takes that. */
        assert_int_equal(ask(ends.talk, EVENT_RATCHET), 0);
        assert_int_not_equal(ask(ends.talk, EVENT_NAMED), 0);
        answer(ends.supervisor, number, 5, -1);
        assert_int_equal(talk_await(ends.talk, number, NULL, &value, NULL), 0);
        assert_int_equal(value, 5);

        answer(ends.supervisor, first, HELD_NO, -1);
        assert_int_equal(talk_await(ends.talk, first, NULL, &value, NULL), 0);
        assert_int_not_equal(ask(ends.talk, EVENT_HELD), 0);
        close(ends.supervisor);
}

static void nobody_waits_for_who_is_gone(void **state) {
        (void)state;
        enum { CLOSED, MALFORMED, SHUT, KINDS };
        uint32_t value = 0;

        for (int kind = 0; kind < KINDS; kind++) {
                struct ends ends = talk_between();
                uint32_t number = ask(ends.talk, EVENT_NAMED);

                if (kind == MALFORMED)
                        assert_int_equal(send(ends.supervisor, "x", 1, 0), 1);
                else if (kind == SHUT)
                        assert_int_equal(shutdown(ends.supervisor, SHUT_WR), 0);
                else
                        close(ends.supervisor);

                assert_int_equal(talk_await(ends.talk, number, NULL, &value, NULL), -EPIPE);
                assert_int_equal(ask(ends.talk, EVENT_RATCHET), 0);
                if (kind != CLOSED)
                        close(ends.supervisor);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_gets_its_own_answer),
                cmocka_unit_test(a_descriptor_comes_with_it),
                cmocka_unit_test(a_ratchet_has_room_when_all_wait),
                cmocka_unit_test(nobody_waits_for_who_is_gone),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
