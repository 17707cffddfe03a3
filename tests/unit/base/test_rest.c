/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/rest.h"

#include "../cmocka_all.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int changed = 1;
static const char *const relocated[] = { "one", "two" };

/* KiB of code that is mapped in this process. */
static unsigned long code_resident(void) {
        FILE *file = fopen("/proc/self/smaps", "re");
        unsigned long sum = 0, kib;
        bool code = false;
        char line[4096];

        assert_non_null(file);
        while (fgets(line, sizeof line, file)) {
                if (strstr(line, " r-xp "))
                        code = strchr(line, '/') != NULL;
                else if (strstr(line, "-p ") || strstr(line, "-s ") || strstr(line, "xp "))
                        code = false;
                else if (code && sscanf(line, "Rss: %lu kB", &kib) == 1)
                        sum += kib;
        }
        (void)fclose(file);
        return sum;
}

static void gives_back_code_and_keeps_data(void **state) {
        unsigned long before = code_resident();
        char *heap = malloc(100);

        (void)state;
        assert_non_null(heap);
        snprintf(heap, 100, "kept");
        changed = 2;
        process_rest();

        unsigned long after = code_resident();
        assert_true(before > 0 && after < before);
        assert_int_equal(changed, 2);
        assert_string_equal(heap, "kept");
        assert_string_equal(relocated[changed - 1], "two");
        free(heap);
}

/* Once, and not before its time. */
static void rests_once(void **state) {
        struct rest rest = rest_begin();
        struct poller poller = { 0 };
        struct err err = { 0 };

        (void)state;
        assert_true(rest.due_ns > clock_ns());
        assert_int_equal(rest_step(&rest, &poller, &err), 0);
        assert_true(rest.due_ns != CLOCK_NEVER);
        rest.due_ns = clock_ns();
        poller_add(&poller, &(struct poller_part){ rest_watch, rest_step, &rest });
        assert_int_equal(poller_round(&poller, &err), 0);
        assert_true(rest.due_ns == CLOCK_NEVER);
        poller_done(&poller);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(gives_back_code_and_keeps_data),
                cmocka_unit_test(rests_once),
        };
        return cmocka_run_group_tests_name("rest", tests, NULL, NULL);
}
