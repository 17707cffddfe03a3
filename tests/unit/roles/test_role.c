/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a supervised process, with shells in place of Bailey's own programs. */
#include "roles/role.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"

/* A child that ends with this status, or lives until it is killed (-1); *ret_end is the reading end of what it says. */
static struct helper start_child(int status, int *ret_end) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                while (status < 0)
                        pause();
                _exit(status);
        }
        close(ends[1]);
        *ret_end = ends[0];
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        assert_true(pidfd >= 0);
        return (struct helper){ pid, pidfd };
}

static void role_begin(struct role *role, int status, uint64_t limit_ms) {
        int control;
        struct helper process = start_child(status, &control);
        role_started(role, &process, control, limit_ms);
}

struct seen {
        struct role *role;
        short death;
};

static void seen_watch(void *arg, struct poller *poller) {
        role_watch(((struct seen *)arg)->role, poller);
}

static int seen_step(void *arg, struct poller *poller, struct err *err) {
        struct seen *seen = arg;
        (void)err;
        seen->death = poller_ready(poller, seen->role->pidfd);
        return 0;
}

/* Rounds until the process has ended; the deadline of the state may come first. */
static bool wait_for_death(struct role *role, unsigned rounds) {
        cleanup(poller_done) struct poller poller = { 0 };
        struct seen seen = { .role = role };

        close_fd(&role->control); /* its end is no news here */
        poller_add(&poller, &(struct poller_part){ seen_watch, seen_step, &seen });
        while (!seen.death && rounds-- > 0)
                assert_int_equal(poller_round(&poller, NULL), 0);
        return seen.death != 0;
}

static void a_role_starts_and_its_end_is_seen(void **state) {
        (void)state;
        struct role role = ROLE_NONE("test");
        char how[ROLE_END_TEXT_MAX];

        assert_int_equal(role.state, ROLE_IDLE);
        assert_false(role_is_due(&role));
        assert_false(role_reap(&role, how));

        role_begin(&role, 7, 60000);
        assert_int_equal(role.state, ROLE_STARTING);
        assert_true(role.pid > 0);
        assert_false(role_is_due(&role));

        assert_true(wait_for_death(&role, 100));
        assert_true(role_reap(&role, how));
        assert_string_equal(how, "it ended with status 7");
        role_forget(&role);
        assert_int_equal(role.pid, 0);
        assert_int_equal(role.pidfd, -1);
        assert_false(role_reap(&role, how));
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
}

static void a_state_has_a_limit(void **state) {
        (void)state;
        struct role role = ROLE_NONE("test");

        role_begin(&role, -1, 10);
        assert_false(wait_for_death(&role, 1)); /* the round ends by the deadline */
        assert_true(role_is_due(&role));
        role_set(&role, ROLE_SERVING, 0);
        assert_false(role_is_due(&role));
        assert_int_equal(role.due_ns, CLOCK_NEVER);
        role_end(&role);
}

static void a_killed_one_says_so(void **state) {
        (void)state;
        struct role role = ROLE_NONE("test");
        char how[ROLE_END_TEXT_MAX];

        role_begin(&role, -1, 60000);
        assert_false(role_reap(&role, how)); /* it lives */
        role_kill(&role);
        assert_true(wait_for_death(&role, 100));
        assert_true(role_reap(&role, how));
        assert_non_null(strstr(how, "signal 9"));
        assert_int_equal(role.pid, 0); /* the number may be another process's by now */
        role_forget(&role);
        role_kill(&role); /* nobody is there: nobody is hit */
}

static void delays_double_up_to_a_limit(void **state) {
        (void)state;
        static const unsigned expected[] = { 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000 };
        struct role role = ROLE_NONE("test");

        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
                role.started_ns = clock_ns();
                role_delay(&role);
                assert_int_equal(role.state, ROLE_WAITING);
                assert_int_equal(role.delay_ms, expected[i]);
                assert_true(role.due_ns > clock_ns() + (expected[i] / 2) * NS_PER_MS);
        }
}

static void a_steady_one_starts_the_delays_anew(void **state) {
        (void)state;
        struct role role = ROLE_NONE("test");

        role.started_ns = clock_ns();
        role_delay(&role);
        role_delay(&role);
        assert_int_equal(role.delay_ms, 200);
        role.started_ns = clock_ns() - (ROLE_STEADY_MS + 1000) * NS_PER_MS;
        role_delay(&role);
        assert_int_equal(role.delay_ms, ROLE_DELAY_FIRST_MS);
}

static void the_end_leaves_nothing(void **state) {
        (void)state;
        struct role role = ROLE_NONE("test");

        role_end(&role); /* none is no error */
        role_begin(&role, -1, 0);
        role.condemned = true;
        pid_t pid = role.pid;
        role_end(&role);
        assert_int_equal(kill(pid, 0), -1);
        assert_int_equal(errno, ESRCH);
        assert_int_equal(role.control, -1);
        role_begin(&role, 0, 0);
        assert_false(role.condemned); /* the next one is judged by itself */
        assert_int_equal(role.due_ns, CLOCK_NEVER);
        role_end(&role);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void states_have_names(void **state) {
        (void)state;
        for (int i = 0; i < ROLE_STATES; i++)
                assert_string_not_equal(role_state_name((enum role_state)i), "?");
        assert_string_equal(role_state_name(ROLE_STATES), "?");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_role_starts_and_its_end_is_seen),
                cmocka_unit_test(a_state_has_a_limit),
                cmocka_unit_test(a_killed_one_says_so),
                cmocka_unit_test(delays_double_up_to_a_limit),
                cmocka_unit_test(a_steady_one_starts_the_delays_anew),
                cmocka_unit_test(the_end_leaves_nothing),
                cmocka_unit_test(states_have_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
