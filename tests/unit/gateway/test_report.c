/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/event_report.h"

#include "../cmocka_all.h"

#include <sys/socket.h>
#include <unistd.h>

struct line {
        struct loop *loop;
        struct report report;
        struct tally_rate rate;
        int far;
        uint64_t next; /* the event number that must come next */
        unsigned notes;
};

static int set_up(void **state) {
        struct line *l = calloc(1, sizeof *l);
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
        assert_int_equal(loop_new(&l->loop, NULL), 0);
        assert_int_equal(report_init(&l->report, l->loop, pair[0], &l->rate), 0);
        l->far = pair[1];
        l->next = 1;
        *state = l;
        return 0;
}

static int tear_down(void **state) {
        struct line *l = *state;
        int near = l->report.fd;
        report_done(&l->report);
        loop_free(l->loop);
        close(near);
        if (l->far >= 0)
                close(l->far);
        free(l);
        return 0;
}

static void tell(struct line *l, uint64_t number, enum reason reason) {
        struct event ev = { .kind = EVENT_REQUEST,
                            .connection = number,
                            .rule = RULE_NONE,
                            .reason = (uint16_t)reason,
                            .allowed = true,
                            .domain = STR("api.ok.test"),
                            .path = STR("/some/path/that/makes/the/record/longer") };
        report_event(&l->report, &ev);
}

/* Reads what has arrived; events must be in order and none missing. */
static void drain(struct line *l) {
        static char batch[EVENT_BATCH_MAX];
        ssize_t got;
        while ((got = recv(l->far, batch, sizeof batch, 0)) > 0) {
                struct str rest = str_n(batch, (size_t)got);
                struct event ev;
                int r;
                while ((r = event_decode(&rest, &ev)) == 1) {
                        if (ev.kind == EVENT_NOTE) {
                                l->notes++;
                                continue;
                        }
                        assert_int_equal(ev.connection, l->next);
                        assert_true(ev.wall_us > 0);
                        l->next++;
                }
                assert_int_equal(r, 0);
        }
}

/* Events of one turn travel together, at its end. */
static void one_message_a_turn(void **state) {
        struct line *l = *state;
        for (uint64_t i = 1; i <= 10; i++)
                tell(l, i, REASON_ALLOWED);
        char byte;
        assert_int_equal(recv(l->far, &byte, 1, MSG_PEEK), -1);
        loop_turn(l->loop, false);
        static char batch[EVENT_BATCH_MAX];
        assert_true(recv(l->far, batch, sizeof batch, 0) > 0);
        assert_int_equal(recv(l->far, batch, sizeof batch, 0), -1);
}

/* A supervisor that does not read stops new work; nothing that was told is lost, and work goes on when it reads again.
 */
static void a_deaf_supervisor_stops_new_work(void **state) {
        struct line *l = *state;
        uint64_t told = 0;
        while (!report_is_stuck(&l->report) && told < 1000000) {
                tell(l, ++told, REASON_ALLOWED);
                if (told % 100 == 0)
                        loop_turn(l->loop, false);
        }
        assert_true(report_is_stuck(&l->report));
        assert_true(told < 200000);
        size_t held = l->report.waiting_bytes;
        for (int i = 0; i < 100000; i++)
                tell(l, 0, REASON_AUDIT); /* refusals meanwhile: counted, not kept */
        assert_int_equal(l->report.waiting_bytes, held);
        for (int i = 0; i < 1000 && l->next <= told; i++) {
                drain(l);
                loop_turn(l->loop, false);
        }
        loop_turn(l->loop, false);
        drain(l);
        assert_int_equal(l->next, told + 1);
        assert_false(report_is_stuck(&l->report));
        assert_int_equal(l->notes, 1);
}

static void a_gone_supervisor_is_stuck_for_good(void **state) {
        struct line *l = *state;
        close(l->far);
        l->far = -1;
        tell(l, 1, REASON_ALLOWED);
        loop_turn(l->loop, false);
        assert_true(report_is_stuck(&l->report));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(one_message_a_turn, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_deaf_supervisor_stops_new_work, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_gone_supervisor_is_stuck_for_good, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
