/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dns/synthetic.h"

#include "base/cleanup.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static struct host named(unsigned i) {
        struct host h = { .kind = HOST_NAME };
        h.name_n = (uint8_t)snprintf(h.name, sizeof h.name, "name-%u.test", i);
        return h;
}

static int bind_name(struct synthetic *s, unsigned i, uint64_t now, struct addr *v4, struct addr *v6) {
        struct host h = named(i);
        return synthetic_bind(s, &h, now, v4, v6);
}

static struct synthetic *pool_of(uint32_t size, uint64_t grace) {
        struct synthetic *s = NULL;
        assert_int_equal(synthetic_new(&(struct synthetic_settings){ .size = size, .grace_ns = grace }, &s, NULL), 0);
        return s;
}

static void binds(void **state) {
        (void)state;
        cleanup(synthetic_freep) struct synthetic *s = pool_of(0, 0);
        struct addr v4, v6, again4, again6;
        struct host h;
        struct synthetic_hold hold = { 0 };
        assert_int_equal(bind_name(s, 1, 0, &v4, &v6), 0);
        assert_int_equal(bind_name(s, 1, 5, &again4, &again6), 0);
        assert_true(addr_equal(&v4, &again4) && addr_equal(&v6, &again6));
        assert_true(synthetic_contains(&v4) && synthetic_contains(&v6));
        assert_int_equal(synthetic_acquire(s, &v4, 1, &h, &hold), 0);
        assert_string_equal(h.name, "name-1.test");
        synthetic_release(s, &hold, 2);
        assert_int_equal(hold.index, 0);
        assert_true(synthetic_lookup(s, &v6, &h));
        assert_string_equal(h.name, "name-1.test");
        const struct addr outside[] = {
                { ADDR_V4, { 198, 18, 0, 1 } },
                { ADDR_V4, { 198, 19, 255, 255 } },
                { ADDR_V4, { 198, 18, 1, 1 } },
                { ADDR_V4, { 198, 17, 1, 0 } },
                { ADDR_V6, { 0xfd, 0, 0xba, 0x11, [15] = 1 } },
                { ADDR_V6, { 0xfd, 0, 0xba, 0x11, [8] = 1, [14] = 1 } },
                { ADDR_V6, { 0xfd, 0, 0xba, 0x12, [14] = 1 } },
                { ADDR_V6, { 0xfd, 0, 0xba, 0x11, [12] = 0xff, [14] = 1 } },
                { ADDR_NONE, { 0 } },
        };
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
                assert_false(synthetic_lookup(s, &outside[i], &h));
        assert_true(synthetic_contains(&outside[0]) && synthetic_contains(&outside[5]));
        assert_false(synthetic_contains(&outside[3]) || synthetic_contains(&outside[6]) ||
                     synthetic_contains(&outside[8]));
}

static void never_a_wrong_name(void **state) {
        (void)state;
        cleanup(synthetic_freep) struct synthetic *s = pool_of(3, 100);
        struct addr v4[5], v6[5];
        struct host h;
        struct synthetic_hold hold = { 0 };
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(bind_name(s, i, i, &v4[i], &v6[i]), 0);
        assert_int_equal(bind_name(s, 3, 50, &v4[3], &v6[3]), -ENOSPC); /* all within their grace */
        assert_int_equal(bind_name(s, 0, 60, &v4[0], &v6[0]), 0);       /* known ones still answer, and are renewed */
        assert_int_equal(synthetic_acquire(s, &v4[1], 70, &h, &hold), 0);
        assert_int_equal(bind_name(s, 3, 102, &v4[3], &v6[3]), 0); /* the place of 2: 0 is newer, 1 is in use */
        assert_true(addr_equal(&v4[3], &v4[2]));
        assert_true(synthetic_lookup(s, &v4[2], &h));
        assert_string_equal(h.name, "name-3.test");
        assert_int_equal(bind_name(s, 4, 120, &v4[4], &v6[4]), -ENOSPC);
        synthetic_release(s, &hold, 1000);
        assert_int_equal(bind_name(s, 4, 170, &v4[4], &v6[4]), 0);
        assert_true(addr_equal(&v4[4], &v4[0]));
        assert_true(synthetic_lookup(s, &v6[1], &h));
        assert_string_equal(h.name, "name-1.test");
}

static void a_late_release_is_harmless(void **state) {
        (void)state;
        cleanup(synthetic_freep) struct synthetic *s = pool_of(1, 10);
        struct addr v4, v6;
        struct host h;
        struct synthetic_hold one = { 0 }, copy;
        assert_int_equal(bind_name(s, 0, 0, &v4, &v6), 0);
        assert_int_equal(synthetic_acquire(s, &v4, 0, &h, &one), 0);
        copy = one;
        synthetic_release(s, &one, 1);
        assert_int_equal(bind_name(s, 1, 100, &v4, &v6), 0);
        synthetic_release(s, &copy, 100); /* of the binding before */
        assert_int_equal(bind_name(s, 2, 105, &v4, &v6), -ENOSPC);
        assert_int_equal(bind_name(s, 2, 200, &v4, &v6), 0);
}

static void settings_are_checked(void **state) {
        (void)state;
        struct synthetic *s = NULL;
        struct err e = { 0 };
        assert_int_equal(synthetic_new(&(struct synthetic_settings){ .size = 131072 }, &s, &e), -EINVAL);
        assert_null(s);
        assert_non_null(strstr(err_text(&e), "131072"));
}

static void *churn(void *arg) {
        struct synthetic *s = arg;
        for (unsigned i = 0; i < 20000; i++) {
                struct addr v4, v6;
                struct host h, wanted = named(i % 97);
                struct synthetic_hold hold = { 0 };
                if (synthetic_bind(s, &wanted, i, &v4, &v6) < 0)
                        continue;
                if (synthetic_acquire(s, i % 2 ? &v4 : &v6, i, &h, &hold) < 0)
                        return s; /* what was just bound has no name */
                synthetic_release(s, &hold, i);
        }
        return NULL;
}

static void threads(void **state) {
        (void)state;
        cleanup(synthetic_freep) struct synthetic *s = pool_of(64, 1ULL << 60);
        pthread_t t[4];
        void *result[4];
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&t[i], NULL, churn, s), 0);
        for (size_t i = 0; i < 4; i++) {
                pthread_join(t[i], &result[i]);
                assert_null(result[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(binds),
                cmocka_unit_test(never_a_wrong_name),
                cmocka_unit_test(a_late_release_is_harmless),
                cmocka_unit_test(settings_are_checked),
                cmocka_unit_test(threads),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
