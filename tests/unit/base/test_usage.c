/* SPDX-License-Identifier: Apache-2.0 */
#include "base/usage.h"

#include "../cmocka_all.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 32 << 20 };

/* A name with everything in it that could be taken for a field. */
static void work(int ready) {
        char *room = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        prctl(PR_SET_NAME, "a) S 9 9 9 (b", 0, 0, 0);
        if (room == MAP_FAILED)
                _exit(1);
        memset(room, 1, BYTES);
        if (write(ready, "x", 1) != 1)
                _exit(1);
        for (volatile unsigned i = 0;; i++)
                ;
}

static void counts_everything_below(void **state) {
        int ends[2];
        char byte;
        struct usage before, now;

        (void)state;
        assert_true(usage_of_tree(getpid(), &before));
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0)
                work(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        for (unsigned i = 0; i < 500; i++) {
                assert_true(usage_of_tree(getpid(), &now));
                if (now.cpu_us >= before.cpu_us + 50000)
                        break;
                usleep(20000);
        }
        assert_true(now.cpu_us >= before.cpu_us + 50000 && now.memory >= before.memory + BYTES);
        assert_int_equal(now.processes, before.processes + 1);
        assert_true(usage_of_tree(child, &now));
        assert_int_equal(now.processes, 1);

        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_false(usage_of_tree(child, &now));
        assert_false(usage_of_tree(0, &now));
        assert_true(usage_of_tree(getpid(), &now));
        assert_true(now.cpu_us >= before.cpu_us + 50000); /* its time stays with whoever waited for it */
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(counts_everything_below) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
