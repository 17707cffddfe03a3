/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/loop.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static int order[16], n_order;

static void note(int what) {
        assert_true(n_order < 16);
        order[n_order++] = what;
}

static int set_up(void **state) {
        n_order = 0;
        return loop_new((struct loop **)state, NULL);
}

static int tear_down(void **state) {
        loop_free(*state);
        return 0;
}

struct named_timer {
        struct timer timer;
        int name;
};

static void on_timer(struct timer *t) {
        note(link_owner(t, struct named_timer, timer)->name);
}

struct four_timers {
        struct named_timer a, b, c, d;
};

/* Due times follow from durations only when all are started at nearly the same time. */
static uint64_t start_four(struct four_timers *four) {
        uint64_t start;

        do {
                start = clock_ns();
                timer_start(&four->a.timer, 60 * NS_PER_MS);
                timer_start(&four->b.timer, 20 * NS_PER_MS);
                timer_start(&four->c.timer, 20 * NS_PER_MS);
                timer_start(&four->d.timer, 10 * NS_PER_MS);
                timer_start(&four->b.timer, 40 * NS_PER_MS);
                timer_stop(&four->d.timer);
        } while (clock_ns() - start > 10 * NS_PER_MS);

        return start;
}

/* False: on a busy machine several were due in one turn, and those fire in any order. */
static bool fire_apart(struct loop *l, uint64_t start) {
        bool apart = true;

        n_order = 0;
        while (n_order < 3 && clock_ns() - start < 60 * NS_PER_SECOND) {
                int before = n_order;

                loop_turn(l, true);
                apart = apart && n_order - before <= 1;
        }

        return apart;
}

/* Timers of different durations fire by their due time, a restart moves one back, a stopped one never fires. */
static void timers_fire_in_order(void **state) {
        struct four_timers four = { { .name = 1 }, { .name = 2 }, { .name = 3 }, { .name = 4 } };
        struct named_timer *const all[] = { &four.a, &four.b, &four.c, &four.d };
        uint64_t start;

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                timer_init(&all[i]->timer, *state, on_timer);

        bool apart = false;
        for (int tries = 0; tries < 100 && !apart; tries++) {
                start = start_four(&four);
                assert_false(timer_is_running(&four.d.timer));
                apart = fire_apart(*state, start);
                assert_int_equal(n_order, 3);
                assert_true(clock_ns() - start >= 60 * NS_PER_MS);
        }

        assert_true(apart);
        assert_int_equal(order[0], 3);
        assert_int_equal(order[1], 2);
        assert_int_equal(order[2], 1);
}

struct named_task {
        struct task task;
        struct loop *loop;
        int name, again;
};

static void on_task(struct task *t) {
        struct named_task *k = link_owner(t, struct named_task, task);
        note(k->name);
        if (k->again-- > 0)
                loop_soon(k->loop, &k->task);
}

/* Deferred work runs at the end of the same turn, once; soon-work keeps the loop from sleeping, one round a turn. */
static void tasks_run_in_their_turn(void **state) {
        struct loop *l = *state;
        struct named_task a = { .loop = l, .name = 1 }, b = { .loop = l, .name = 2, .again = 2 };
        task_init(&a.task, on_task);
        task_init(&b.task, on_task);
        loop_defer(l, &a.task);
        loop_defer(l, &a.task);
        loop_soon(l, &b.task);
        loop_turn(l, true);
        assert_int_equal(n_order, 2);
        assert_int_equal(order[0], 2);
        assert_int_equal(order[1], 1);
        loop_turn(l, true);
        loop_turn(l, true);
        assert_int_equal(n_order, 4);
        loop_defer(l, &a.task);
        task_cancel(&a.task);
        loop_turn(l, false);
        assert_int_equal(n_order, 4);
}

static int posted, last_posted;

static void on_posted(struct task *t) {
        struct named_task *k = link_owner(t, struct named_task, task);
        assert_int_equal(k->name, posted);
        posted++;
        last_posted = k->name;
        if (k->name == 999)
                loop_stop(k->loop);
        free(k);
}

static void *post_in_order(void *argument) {
        struct loop *l = argument;
        for (int i = 0; i < 1000; i++) {
                struct named_task *k = calloc(1, sizeof *k);
                k->loop = l;
                k->name = i;
                task_init(&k->task, on_posted);
                loop_post(l, &k->task);
        }
        return NULL;
}

/* What another thread posts arrives on the loop's thread, all of it and in order. */
static void posts_arrive(void **state) {
        struct loop *l = *state;
        pthread_t thread;
        posted = 0;
        assert_int_equal(pthread_create(&thread, NULL, post_in_order, l), 0);
        loop_run(l);
        pthread_join(thread, NULL);
        assert_int_equal(posted, 1000);
        assert_int_equal(last_posted, 999);
}

static unsigned seen;

static void on_watch(struct watch *w, unsigned ready) {
        (void)w;
        seen |= ready;
}

/* An edge is told once, the peer's end is told as such, and a stopped watch is silent. */
static void watches_tell_edges(void **state) {
        struct loop *l = *state;
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        struct watch w = { 0 };
        assert_int_equal(watch_start_edge(l, &w, pair[0], on_watch), 0);
        seen = 0;
        loop_turn(l, false);
        assert_int_equal(seen, WATCH_WRITE);
        assert_int_equal(write(pair[1], "x", 1), 1);
        seen = 0;
        loop_turn(l, false);
        assert_true(seen & WATCH_READ);
        assert_false(seen & WATCH_CLOSED);
        seen = 0;
        loop_turn(l, false);
        assert_int_equal(seen, 0);
        close(pair[1]);
        loop_turn(l, false);
        assert_true(seen & WATCH_CLOSED);
        watch_stop(&w);
        watch_stop(&w);
        close(pair[0]);
}

static void count_idle(void *arg) {
        ++*(int *)arg;
}

static void on_watchdog(struct timer *timer) {
        (void)timer;
}

static void nothing_to_do(struct task *task) {
        (void)task;
}

/* Turns until somebody calls, or for so long. */
static void turn_until(struct loop *loop, const int *count, int wanted, uint64_t ms) {
        uint64_t end = clock_after_ms(ms);
        struct timer watchdog;

        timer_init(&watchdog, loop, on_watchdog);
        timer_start(&watchdog, ms * NS_PER_MS);
        while (*count < wanted && clock_ns() < end)
                loop_turn(loop, true);
        timer_stop(&watchdog);
}

/* Once for each time that nothing comes, and not while something does. */
static void idleness_is_told(void **state) {
        struct loop *loop = *state;
        struct task task;
        int idle = 0;

        task_init(&task, nothing_to_do);
        loop_when_idle(loop, count_idle, &idle);
        assert_false(loop_is_idle(loop));

        for (uint64_t end = clock_after_ms(LOOP_IDLE_MS * 2); clock_ns() < end;) {
                loop_post(loop, &task);
                loop_turn(loop, true);
        }
        assert_int_equal(idle, 0);

        turn_until(loop, &idle, 1, LOOP_IDLE_MS * 20);
        assert_int_equal(idle, 1);
        assert_true(loop_is_idle(loop));

        loop_post(loop, &task);
        loop_turn(loop, true);
        assert_false(loop_is_idle(loop));
        turn_until(loop, &idle, 2, LOOP_IDLE_MS * 20);
        assert_int_equal(idle, 2);
        assert_true(loop_is_idle(loop));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(idleness_is_told, set_up, tear_down),
                cmocka_unit_test_setup_teardown(timers_fire_in_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(tasks_run_in_their_turn, set_up, tear_down),
                cmocka_unit_test_setup_teardown(posts_arrive, set_up, tear_down),
                cmocka_unit_test_setup_teardown(watches_tell_edges, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
