/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Against a model that cannot be wrong: an array with one place for every key. */
enum { KEYS = 300, STEPS = 200000 };

static uint32_t random_state = 1;
static uint32_t next_random(uint32_t below) {
        random_state = random_state * 1664525 + 1013904223;
        return (random_state >> 8) % below;
}

static void key_text(unsigned key, char text[static 16]) {
        snprintf(text, 16, key % 2 ? "key-%u" : "k%u", key);
}

static void same_as_model(const struct map *m, void *const model[static KEYS]) {
        size_t live = 0, seen = 0;
        for (unsigned key = 0; key < KEYS; key++)
                live += model[key] != NULL;
        assert_int_equal(m->n, live);
        struct str name;
        void *value;
        for (size_t i = 0; map_next(m, &i, &name, &value); seen++) {
                unsigned key = (unsigned)((void **)value - model); /* values point at the model's own places */
                char text[16];
                key_text(key, text);
                assert_true(str_is(name, text));
                assert_ptr_equal(model[key], value);
        }
        assert_int_equal(seen, live);
}

static void random_operations(void **state) {
        (void)state;
        struct map m = { 0 };
        static void *model[KEYS];
        for (unsigned step = 0; step < STEPS; step++) {
                /* The range of keys wanders, so that the table fills, empties and fills with tombstones. */
                unsigned key = next_random(1 + (step / 1000 * 37) % KEYS);
                char text[16];
                key_text(key, text);
                struct str name = str_of(text);
                void *here = &model[key], *old = NULL;
                switch (next_random(4)) {
                case 0:
                        assert_int_equal(map_add(&m, name, here), model[key] ? -EEXIST : 0);
                        model[key] = here;
                        break;
                case 1:
                        assert_int_equal(map_set(&m, name, here, &old), 0);
                        assert_ptr_equal(old, model[key]);
                        model[key] = here;
                        break;
                case 2:
                        assert_ptr_equal(map_remove(&m, name), model[key]);
                        model[key] = NULL;
                        break;
                default:
                        assert_ptr_equal(map_get(&m, name), model[key]);
                }
                if (step % 5000 == 0)
                        same_as_model(&m, model);
        }
        same_as_model(&m, model);
        assert_true(m.cap <= 1024); /* removed entries do not make it grow */
        map_done(&m, NULL);
}

static void keys_are_bytes_and_copied(void **state) {
        (void)state;
        struct map m = { 0 };
        int a, b, c;
        char key[] = "abc";
        assert_int_equal(map_add(&m, str_of(key), &a), 0);
        key[0] = 'X';
        assert_int_equal(map_add(&m, STR(""), &b), 0);
        assert_int_equal(map_add(&m, STR("abc\0d"), &c), 0);
        assert_ptr_equal(map_get(&m, STR("abc")), &a);
        assert_ptr_equal(map_get(&m, (struct str){ NULL, 0 }), &b);
        assert_ptr_equal(map_get(&m, STR("abc\0d")), &c);
        assert_null(map_get(&m, STR("abc\0e")));
        assert_null(map_get(&m, STR("Xbc")));
        map_done(&m, NULL);
        assert_null(map_get(&m, STR("abc")));
        map_done(&m, NULL);
}

static void entry_shown_may_be_removed(void **state) {
        (void)state;
        struct map m = { 0 };
        int value;
        for (unsigned i = 0; i < 100; i++) {
                char text[16];
                key_text(i, text);
                assert_int_equal(map_add(&m, str_of(text), &value), 0);
        }
        struct str name;
        size_t removed = 0;
        for (size_t i = 0; map_next(&m, &i, &name, NULL); removed++) {
                char copy[16];
                snprintf(copy, sizeof copy, "%.*s", STR_FMT(name));
                assert_ptr_equal(map_remove(&m, str_of(copy)), &value);
        }
        assert_int_equal(removed, 100);
        assert_int_equal(m.n, 0);
        map_done(&m, NULL);
}

static unsigned freed;
static void count_free(void *value) {
        freed++;
        free(value);
}

static int fill(void *unused) {
        (void)unused;
        struct map m = { 0 };
        int r = 0;
        for (unsigned i = 0; i < 40 && r == 0; i++) {
                char text[16];
                key_text(i, text);
                char *value = malloc(8);
                if (!value) {
                        r = -ENOMEM;
                        break;
                }
                size_t before = m.n;
                r = map_add(&m, str_of(text), value);
                if (r < 0) {
                        free(value);
                        assert_int_equal(m.n, before);
                        assert_null(map_get(&m, str_of(text)));
                }
        }
        size_t live = m.n;
        freed = 0;
        map_done(&m, count_free);
        assert_int_equal(freed, live);
        return r;
}

static void every_allocation_may_fail(void **state) {
        (void)state;
        assert_true(alloc_fail_each(fill, NULL) > 80);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(random_operations),
                cmocka_unit_test(keys_are_bytes_and_copied),
                cmocka_unit_test(entry_shown_may_be_removed),
                cmocka_unit_test(every_allocation_may_fail),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
