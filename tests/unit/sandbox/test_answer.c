/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to a broker that does not read them for a while, or never again. */
#include "sandbox/answer.h"

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/marks.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct ends {
        int supervisor, broker;
};

/* No more fits. Returns how many answers are on their way. */
static unsigned ends_fill(struct ends *ends) {
        const struct broker_answer answer = { 1, 1 };
        unsigned n = 0;
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        *ends = (struct ends){ pair[0], pair[1] };

        while (send(ends->supervisor, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                n++;

        assert_true(n > 0);
        return n;
}

static void ends_close(struct ends *ends) {
        close_fd(&ends->supervisor);
        close_fd(&ends->broker);
}

struct late {
        int broker;
        uint32_t value; /* of the answer 77 */
};

static void *reads_late(void *arg) {
        const struct timespec moment = { .tv_nsec = 50000000 };
        struct broker_answer answer = { 0 };
        struct late *late = arg;

        nanosleep(&moment, NULL);
        while (answer.number != 77 && recv(late->broker, &answer, sizeof answer, 0) == sizeof answer)
                ;

        late->value = answer.number == 77 ? answer.value : 0;
        return NULL;
}

/* How many there are. */
static unsigned count_answers(int broker) {
        struct broker_answer answer;
        unsigned n = 0;

        while (recv(broker, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer)
                n++;

        return n;
}

static void room_is_waited_for(void **state) {
        struct ends ends;
        struct late late;
        pthread_t thread;

        (void)state;
        ends_fill(&ends);
        late = (struct late){ .broker = ends.broker };
        assert_int_equal(pthread_create(&thread, NULL, reads_late, &late), 0);
        broker_answer_last(ends.supervisor, 77, 5);
        pthread_join(thread, NULL);
        assert_int_equal(late.value, 5);
        ends_close(&ends);
}

static void who_never_reads_is_told_the_end(void **state) {
        struct ends ends;
        struct broker_answer answer;
        unsigned filled;

        (void)state;
        filled = ends_fill(&ends);
        broker_answer_last(ends.supervisor, 77, 5);
        assert_int_equal(count_answers(ends.broker), filled);
        assert_int_equal(recv(ends.broker, &answer, sizeof answer, MSG_DONTWAIT), 0);
        ends_close(&ends);
}

static void who_is_gone_is_no_reason_to_die(void **state) {
        struct ends ends;

        (void)state;
        ends_fill(&ends);
        close_fd(&ends.broker);
        assert_true(broker_answer_send(ends.supervisor, 1, 1, -1) < 0);
        broker_answer_last(ends.supervisor, 1, 1);
        ends_close(&ends);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(room_is_waited_for),
                cmocka_unit_test(who_never_reads_is_told_the_end),
                cmocka_unit_test(who_is_gone_is_no_reason_to_die),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
