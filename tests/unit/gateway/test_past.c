/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/old_secrets.h"

#include "base/clock.h"

#include <stdio.h>

#include "../cmocka_all.h"

enum { MINUTES = 60 };

static struct past *make(void) {
        struct past *p = NULL;
        assert_int_equal(past_new(&p), 0);
        assert_int_equal(past_generation(p), 0);
        return p;
}

/* The values of a mapping, the oldest first, with commas. */
static void expect(struct past *p, uint32_t mapping, uint64_t seconds, const char *expected) {
        char text[256] = "";
        enum vault_part part;
        struct str value;
        past_lock(p, seconds * NS_PER_SECOND);
        for (size_t at = 0; past_next(p, mapping, &at, &part, &value);) {
                size_t n = strlen(text);
                (void)snprintf(text + n, sizeof text - n, "%s%.*s", n > 0 ? "," : "", STR_FMT(value));
        }
        past_unlock(p);
        assert_string_equal(text, expected);
}

static void add(struct past *p, uint32_t mapping, const char *value, uint64_t seconds) {
        past_add(p, mapping, PART_VALUE, str_of(value), seconds * NS_PER_SECOND);
}

static void test_a_value_stays_for_a_while(void **state) {
        (void)state;
        struct past *p = make();
        add(p, 1, "one", 1);
        add(p, 2, "other", 1);
        uint64_t generation = past_generation(p);
        add(p, 1, "one", 2); /* another worker asked as well */
        assert_int_equal(past_generation(p), generation);
        add(p, 1, "two", 5);
        assert_int_not_equal(past_generation(p), generation);
        expect(p, 1, 5, "one,two");
        expect(p, 1, 5 + 9 * MINUTES, "one,two");
        expect(p, 1, 6 + 10 * MINUTES, "two");
        expect(p, 2, 100 * MINUTES, "other"); /* a current one stays */
        add(p, 1, "one", 200 * MINUTES);      /* back again */
        add(p, 1, "two", 200 * MINUTES);
        expect(p, 1, 200 * MINUTES, "one,two");
        past_add(p, 1, PART_KEY_ID, STR("id"), 0);
        expect(p, 1, 200 * MINUTES, "one,two,id"); /* parts do not replace each other */
        past_free(p);
}

static void test_limits(void **state) {
        (void)state;
        struct past *p = make();
        char value[VAULT_SECRET_MAX + 1];
        for (unsigned i = 0; i < 100; i++) { /* of one mapping, a few */
                (void)snprintf(value, sizeof value, "v%u", i);
                add(p, 1, value, i);
        }
        expect(p, 1, 100, "v95,v96,v97,v98,v99");
        memset(value, 'x', sizeof value);
        for (uint32_t i = 0; i < 20; i++) { /* those that were replaced give way first */
                value[0] = (char)('a' + i);
                past_add(p, 10 + i, PART_VALUE, str_n(value, VAULT_SECRET_MAX), 200);
        }
        expect(p, 10, 200, "");
        past_add(p, 3, PART_VALUE, str_n(value, sizeof value), 200); /* no value is as long */
        past_add(p, 3, PART_VALUE, STR(""), 200);
        expect(p, 3, 200, "");
        past_add(NULL, 3, PART_VALUE, STR("x"), 200);
        assert_int_equal(past_generation(NULL), 0);
        for (uint32_t i = 0; i < 5000; i++)
                add(p, i % 256, i % 2 ? "some value" : "another", 300);
        expect(p, 255, 300, "some value");
        past_free(p);
        past_free(NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_value_stays_for_a_while),
                cmocka_unit_test(test_limits),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
