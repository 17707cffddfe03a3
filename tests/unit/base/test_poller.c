/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/poller.h"

#include "../alloc_fail.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../cmocka_all.h"

/* A part that watches the reading end of a pipe, and writes down that it stepped. */
struct source {
        int ends[2];
        uint64_t due_ns;
        unsigned steps, ready;
        short got;
        int result;
        struct source *closes; /* when it is ready: closes and opens the other's descriptor */
        char *order, name;
};

static void source_watch(void *arg, struct poller *poller) {
        const struct source *source = arg;
        poller_watch(poller, source->ends[0], POLLIN);
        poller_until(poller, source->due_ns);
}

static int source_step(void *arg, struct poller *poller, struct err *err) {
        struct source *source = arg;

        source->steps++;
        source->got = poller_ready(poller, source->ends[0]);
        source->ready += source->got != 0;
        if (source->order)
                source->order[strlen(source->order)] = source->name;
        if (source->got && source->closes) {
                close(source->closes->ends[0]);
                assert_int_equal(dup2(source->ends[0], source->closes->ends[0]), source->closes->ends[0]);
        }
        return source->result < 0 ? err_set(err, -source->result, "this part failed") : 0;
}

static void source_open(struct source *source, struct poller *poller) {
        *source = (struct source){ .due_ns = CLOCK_NEVER };
        assert_int_equal(pipe2(source->ends, O_CLOEXEC | O_NONBLOCK), 0);
        poller_add(poller, &(struct poller_part){ source_watch, source_step, source });
}

static void source_close(struct source *source) {
        close_fd(&source->ends[0]);
        close_fd(&source->ends[1]);
}

static void every_part_steps_in_order(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a, b, c;
        char order[8] = "";

        source_open(&a, &poller);
        source_open(&b, &poller);
        source_open(&c, &poller);
        a.order = b.order = c.order = order;
        a.name = 'a', b.name = 'b', c.name = 'c';
        assert_int_equal(write(b.ends[1], "x", 1), 1);

        assert_int_equal(poller_round(&poller, NULL), 0);
        assert_string_equal(order, "abc");
        assert_int_equal(a.ready, 0);
        assert_int_equal(b.ready, 1);
        assert_true(b.got & POLLIN);
        assert_int_equal(c.ready, 0);
}

static void the_first_deadline_counts(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a, b;
        struct err err = { 0 };

        source_open(&a, &poller);
        source_open(&b, &poller);
        uint64_t before = clock_ns();
        a.due_ns = clock_after_ms(60000);
        b.due_ns = clock_after_ms(20);

        assert_int_equal(poller_round(&poller, &err), 0);
        assert_true(clock_ns() >= b.due_ns); /* not a moment too early: a step that looks at the clock finds it there */
        assert_true(clock_ns() - before < 30 * NS_PER_SECOND);
        assert_int_equal(a.steps, 1);
        assert_int_equal(a.ready + b.ready, 0);

        a.due_ns = 0; /* long ago */
        assert_int_equal(poller_round(&poller, &err), 0);
        assert_int_equal(a.steps, 2);
}

static void an_error_ends_the_round(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a, b, c;
        struct err err = { 0 };

        source_open(&a, &poller);
        source_open(&b, &poller);
        source_open(&c, &poller);
        a.due_ns = 0;
        b.result = -EPROTO;

        assert_int_equal(poller_round(&poller, &err), -EPROTO);
        assert_string_equal(err_text(&err), "this part failed");
        assert_int_equal(a.steps, 1);
        assert_int_equal(c.steps, 0);
}

/* The number of a descriptor that was closed and opened in this round belongs to another part's news. */
static void news_are_for_the_part_that_waited(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a, b;

        source_open(&a, &poller);
        source_open(&b, &poller);
        a.closes = &b;
        assert_int_equal(write(a.ends[1], "x", 1), 1);

        assert_int_equal(poller_round(&poller, NULL), 0);
        assert_int_equal(a.ready, 1);
        assert_int_equal(b.ready, 0); /* what it waits for now is readable, and is seen in the next round */
        assert_int_equal(poller_round(&poller, NULL), 0);
        assert_int_equal(b.ready, 1);
}

static void no_descriptor_is_none(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        struct source nothing = { .ends = { -1, -1 }, .due_ns = 0 };

        poller_add(&poller, &(struct poller_part){ source_watch, source_step, &nothing });
        assert_int_equal(poller_round(&poller, NULL), 0);
        assert_int_equal(nothing.steps, 1);
        assert_int_equal(nothing.ready, 0);
        assert_int_equal(poller.fds.n, 0);
}

static void an_end_is_news(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a;

        source_open(&a, &poller);
        close_fd(&a.ends[1]);
        assert_int_equal(poller_round(&poller, NULL), 0);
        assert_true(a.got & POLLHUP);
}

static void without_memory_nothing_steps(void **state) {
        (void)state;
        cleanup(poller_done) struct poller poller = { 0 };
        cleanup(source_close) struct source a;
        struct err err = { 0 };

        source_open(&a, &poller);
        a.due_ns = 0;
        alloc_fail_at(1);
        int r = poller_round(&poller, &err);
        alloc_fail_at(0);
        assert_int_equal(r, -ENOMEM);
        assert_int_equal(a.steps, 0);
        assert_int_equal(poller_round(&poller, &err), 0); /* the next round does */
        assert_int_equal(a.steps, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_part_steps_in_order),    cmocka_unit_test(the_first_deadline_counts),
                cmocka_unit_test(an_error_ends_the_round),      cmocka_unit_test(news_are_for_the_part_that_waited),
                cmocka_unit_test(no_descriptor_is_none),        cmocka_unit_test(an_end_is_news),
                cmocka_unit_test(without_memory_nothing_steps),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
