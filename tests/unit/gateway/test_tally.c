/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/tally.h"

#include "../cmocka_all.h"

#include <stdio.h>

struct line {
        struct loop *loop;
        struct tally_rate rate;
        struct tally tally;
        uint64_t records, attempts, counted, many; /* many: those not told apart */
        uint16_t last_reason;
};

static void on_record(struct tally *t, const struct event *ev) {
        struct line *l = link_owner(t, struct line, tally);
        l->records++;
        l->attempts += ev->count ? ev->count : 1;
        l->counted += ev->count;
        if (ev->domain.n == 0)
                l->many += ev->count;
        l->last_reason = ev->reason;
}

static int set_up(void **state) {
        struct line *l = calloc(1, sizeof *l);
        assert_int_equal(loop_new(&l->loop, NULL), 0);
        tally_init(&l->tally, l->loop, &l->rate, on_record);
        *state = l;
        return 0;
}

static int tear_down(void **state) {
        struct line *l = *state;
        tally_done(&l->tally);
        loop_free(l->loop);
        free(l);
        return 0;
}

static struct event refusal(const char *domain, uint64_t connection) {
        return (struct event){ .kind = EVENT_TUNNEL_OPEN,
                               .via = VIA_SOCKS5,
                               .connection = connection,
                               .duration_us = connection,
                               .rule = RULE_NONE,
                               .reason = REASON_NOT_ALLOWED,
                               .port = 443,
                               .domain = str_of(domain) };
}

/* The first few as they are, the rest as one, and what differs in anything but time is not mixed in. */
static void the_same_again(void **state) {
        struct line *l = *state;
        for (uint64_t i = 0; i < 1000; i++) {
                struct event ev = refusal("evil.test", i);
                tally_event(&l->tally, &ev);
        }
        assert_int_equal(l->records, TALLY_FIRST);
        struct event other = refusal("evil.test", 1);
        other.port = 80;
        tally_event(&l->tally, &other);
        other.reason = REASON_DENY_RULE;
        tally_event(&l->tally, &other);
        assert_int_equal(l->records, TALLY_FIRST + 2);
        tally_done(&l->tally);
        assert_int_equal(l->records, TALLY_FIRST + 3);
        assert_int_equal(l->attempts, 1002);
        assert_int_equal(l->counted, 1000 - TALLY_FIRST);
        assert_int_equal(l->many, 0);
        assert_int_equal(l->last_reason, REASON_NOT_ALLOWED);
}

/* Made-up names are held to the rate; all of them are in the sum. */
static void always_another(void **state) {
        struct line *l = *state;
        enum { ATTEMPTS = 20000 };
        for (uint64_t i = 0; i < ATTEMPTS; i++) {
                char name[32];
                snprintf(name, sizeof name, "x%llu.evil.test", (unsigned long long)i);
                struct event ev = refusal(name, i);
                tally_event(&l->tally, &ev);
        }
        assert_in_range(l->records, TALLY_BURST, TALLY_BURST + 1);
        tally_done(&l->tally);
        assert_in_range(l->records, TALLY_BURST + 1, TALLY_BURST + 2);
        assert_int_equal(l->attempts, ATTEMPTS);
        assert_in_range(l->many, ATTEMPTS - TALLY_BURST - 1, ATTEMPTS - TALLY_BURST);
}

/* Two workers of a sandbox have one rate. */
static void one_rate_for_all(void **state) {
        struct line *l = *state;
        struct line second = { .loop = l->loop };
        tally_init(&second.tally, l->loop, &l->rate, on_record);
        for (uint64_t i = 0; i < 4 * TALLY_BURST; i++) {
                char name[32];
                snprintf(name, sizeof name, "x%llu.evil.test", (unsigned long long)i);
                struct event ev = refusal(name, i);
                tally_event(i % 2 ? &second.tally : &l->tally, &ev);
        }
        assert_in_range(l->records + second.records, TALLY_BURST, TALLY_BURST + 1);
        tally_done(&second.tally);
        tally_done(&l->tally);
        assert_int_equal(l->attempts + second.attempts, 4 * TALLY_BURST);
}

/* What was let through is a record of its own, always; questions for names are not. */
static void what_counts(void **state) {
        (void)state;
        struct event ev = refusal("evil.test", 1);
        assert_true(tally_wants(&ev));
        ev.allowed = true;
        assert_false(tally_wants(&ev));
        ev.kind = EVENT_REQUEST;
        assert_false(tally_wants(&ev));
        ev.kind = EVENT_TUNNEL_CLOSE;
        ev.allowed = false;
        assert_false(tally_wants(&ev));
        ev.kind = EVENT_DNS;
        ev.allowed = true;
        assert_true(tally_wants(&ev));
        ev.kind = EVENT_NOTE;
        assert_false(tally_wants(&ev));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(the_same_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(always_another, set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_rate_for_all, set_up, tear_down),
                cmocka_unit_test(what_counts),
        };
        return cmocka_run_group_tests_name("gateway/tally", tests, NULL, NULL);
}
