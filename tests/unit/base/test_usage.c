/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/usage.h"

#include "../cmocka_all.h"

#include <pthread.h>
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

static void *begin_child(void *child) {
        *(pid_t *)child = fork();
        if (*(pid_t *)child == 0)
                for (;;)
                        pause();

        pause(); /* its children become the process's own when it ends */
        return NULL;
}

/* As many programs do: what other threads began is below the process as well. */
static void counts_children_of_threads(void **state) {
        struct usage before, now = { 0 };
        volatile pid_t child = 0;
        pthread_t thread;

        (void)state;
        assert_true(usage_of_tree(getpid(), &before));
        assert_int_equal(pthread_create(&thread, NULL, begin_child, (void *)&child), 0);
        for (unsigned i = 0; i < 500 && now.processes != before.processes + 1; i++) {
                usleep(10000);
                assert_true(usage_of_tree(getpid(), &now));
        }

        assert_int_equal(now.processes, before.processes + 1);
        pid_t ended = child;
        kill(ended, SIGKILL);
        assert_int_equal(waitpid(ended, NULL, 0), ended);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(counts_everything_below),
                                            cmocka_unit_test(counts_children_of_threads) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
