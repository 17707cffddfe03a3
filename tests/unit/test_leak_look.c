/* SPDX-License-Identifier: Apache-2.0 */
/* The look for leaks still finds them, whatever leak_look.c does to make it quick. */
#include "cmocka_all.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT = 64 };

static void *volatile kept[KEPT];

/* How a process ends that made this many allocations of a size, and then lost half of them. Not one alone: a trace of
 * it may be on the stack. */
static int status_of_child(size_t size, bool loses) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                for (size_t i = 0; i < KEPT; i++)
                        kept[i] = calloc(1, size);
                for (size_t i = 0; loses && i < KEPT / 2; i++)
                        kept[i] = NULL;
                exit(0);
        }

        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* Small, in each way in which sizes are rounded, and so large that a block is a mapping of its own. */
static void test_leaks_are_found(void **state) {
        static const size_t sizes[] = { 1, 16, 100, 300, 1000, 5000, 30000, 70000, 100000, 1 << 20 };
        (void)state;
        const char *options = getenv("ASAN_OPTIONS");
        if (!options || !strstr(options, "detect_leaks=1"))
                skip();

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                assert_int_equal(status_of_child(sizes[i], false), 0);
                assert_int_not_equal(status_of_child(sizes[i], true), 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_leaks_are_found) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
