/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a file names: told from others with the same number, and waited for. */
#include "base/processes/process.h"

#include "../cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void name_with_brackets_is_skipped(void **state) {
        (void)state;
        static const char *const names[] = { "(bailey)", "(a) R 1 (x)", "(()", "())", "() 1 2 3 4 5 6 7 8)" };
        uint64_t found = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                char line[256];
                snprintf(line, sizeof line, "12 %s S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n",
                         names[i]);
                assert_true(process_parse_start_time(str_of(line), &found));
                assert_int_equal(found, 987654);
        }
        static const char *const broken[] = { "", "1", "1 (x", "1 (x)", "1 (x) S 1 2 3", ")" };
        for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
                assert_false(process_parse_start_time(str_of(broken[i]), &found));
}

static void start_time_is_of_this_process(void **state) {
        (void)state;
        uint64_t first = 0, again = 0;

        assert_int_equal(process_start_time(getpid(), &first), 0);
        assert_int_equal(process_start_time(getpid(), &again), 0);
        assert_true(first > 0 && first == again);
}

static void process_is_waited_for(void **state) {
        (void)state;
        pid_t child = fork();
        uint64_t started = 0;

        if (child == 0) {
                pause();
                _exit(0);
        }

        assert_true(child > 0);
        assert_int_equal(process_start_time(child, &started), 0);
        assert_true(process_outlives(child, started, 10));
        assert_false(process_outlives(child, started + 1, 10)); /* one with the same number */

        kill(child, SIGKILL);
        assert_false(process_outlives(child, started, 10000)); /* ended, though nobody has asked for its status */
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_false(process_outlives(child, started, 0));
        assert_true(process_start_time(child, &started) < 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(name_with_brackets_is_skipped),
                cmocka_unit_test(start_time_is_of_this_process),
                cmocka_unit_test(process_is_waited_for),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
