/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor against a stand-in gateway (fake_gateway.c) that behaves well or badly. */
#include "roles/gateway_process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "roles/gateway_spawn.h"
#include "store/audit_read.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "../sanitizer.h"

static const char *stand_in;

struct world {
        char directory[64], file[96];
        struct audit *audit;
        int listener;
        struct sockaddr_in address;
        enum listener_kind kind;
        struct gateway_process *g;
        void *snapshot;
        size_t snapshot_n;
        unsigned notices[NOTICE_STOPPED + 1];
        char last_notice[300];
        uint64_t asked, events;
        char asked_host[300];
        bool answer;
};

static void on_notice(void *arg, enum gateway_notice n, const char *text) {
        struct world *w = arg;
        w->notices[n]++;
        snprintf(w->last_notice, sizeof w->last_notice, "%s", text);
}

static void on_ask(void *arg, uint64_t id, const struct authority *target, enum event_via via, const char *push) {
        (void)push;
        struct world *w = arg;
        w->asked = id;
        snprintf(w->asked_host, sizeof w->asked_host, "%s:%u/%d", target->host.name, target->port, (int)via);
        gateway_process_answer(w->g, id, DECISION_ALLOW);
}

static void on_event(void *arg, const struct event *ev, const struct snapshot_rule *rule) {
        struct world *w = arg;
        w->events++;
        if (ev->kind == EVENT_TUNNEL_OPEN)
                assert_true(rule && str_is(rule->text, "a.test"));
}

static void build_snapshot(const char *pattern, void **ret, size_t *ret_n) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        assert_non_null(b);
        assert_int_equal(snapshot_add(b, LIST_ALLOW, str_of(pattern), STR("test:1"), NULL), 0);
        assert_int_equal(snapshot_build(b, ret, ret_n, NULL), 0);
}

static int make_world(void **state) {
        struct world *w = calloc(1, sizeof *w);
        struct err e = { 0 };
        assert_non_null(w);
        snprintf(w->directory, sizeof w->directory, "/tmp/bailey-test-gateway-XXXXXX");
        assert_non_null(mkdtemp(w->directory));
        snprintf(w->file, sizeof w->file, "%s/audit.jsonl", w->directory);
        const struct audit_settings s = { w->file, "run", "box", 0, 0 };
        assert_int_equal(audit_open(&s, &w->audit, &e), 0);
        w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        w->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof w->address;
        assert_int_equal(bind(w->listener, (struct sockaddr *)&w->address, n), 0);
        assert_int_equal(listen(w->listener, 8), 0);
        assert_int_equal(getsockname(w->listener, (struct sockaddr *)&w->address, &n), 0);
        build_snapshot("a.test", &w->snapshot, &w->snapshot_n);
        *state = w;
        return 0;
}

static int end_world(void **state) {
        struct world *w = *state;
        gateway_process_free(w->g);
        audit_free(w->audit);
        close(w->listener);
        free(w->snapshot);
        unlink(w->file);
        int r = rmdir(w->directory);
        free(w);
        /* No child may be left, running or dead. */
        return r < 0 || waitpid(-1, NULL, WNOHANG) != -1 ? -1 : 0;
}

static void make_process(struct world *w, const char *act) {
        struct gateway_settings s = { .listeners = &w->listener,
                                      .n_listeners = 1,
                                      .audit = w->audit,
                                      .program = stand_in,
                                      .on_event = on_event,
                                      .on_ask = w->answer ? on_ask : NULL,
                                      .on_notice = on_notice,
                                      .arg = w };
        struct err e = { 0 };
        gateway_start_init(&s.start);
        s.start.listeners[0].kind = (uint16_t)w->kind;
        snprintf(s.start.sandbox_id, sizeof s.start.sandbox_id, "%s", act);
        if (gateway_process_new(&s, w->snapshot, w->snapshot_n, &w->g, &e) < 0)
                fail_msg("%s", err_text(&e));
}

/* Steps until the counter passes or the time is up. A sanitizer looks for leaks at the end of each process, for
 * seconds.
 */
struct stepper {
        struct world *w;
        uint64_t at_most_ms;
};

static void stepper_watch(void *arg, struct poller *poller) {
        const struct stepper *stepper = arg;
        gateway_process_watch(stepper->w->g, poller);
        poller_until(poller, clock_after_ms(stepper->at_most_ms));
}

static int stepper_step(void *arg, struct poller *poller, struct err *err) {
        (void)err;
        gateway_process_step(((struct stepper *)arg)->w->g, poller);
        return 0;
}

static void step_until(struct world *w, const unsigned *counter, unsigned at_least, int ms) {
        cleanup(poller_done) struct poller poller = { 0 };
        struct stepper stepper = { w, 50 };
        uint64_t end = clock_after_ms((uint64_t)ms * (UNDER_SANITIZER ? 8 : 1));

        poller_add(&poller, &(struct poller_part){ stepper_watch, stepper_step, &stepper });
        while (*counter < at_least && clock_ns() < end)
                assert_int_equal(poller_round(&poller, NULL), 0);
        assert_true(*counter >= at_least);
}

/* How many rounds that took. */
static unsigned step_for(struct world *w, int ms) {
        cleanup(poller_done) struct poller poller = { 0 };
        struct stepper stepper = { w, 10 };
        uint64_t end = clock_after_ms((uint64_t)ms);
        unsigned rounds = 0;

        poller_add(&poller, &(struct poller_part){ stepper_watch, stepper_step, &stepper });
        for (; clock_ns() < end; rounds++)
                assert_int_equal(poller_round(&poller, NULL), 0);

        return rounds;
}

static int connect_client(const struct world *w) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&w->address, sizeof w->address), 0);
        return fd;
}

static bool log_has(struct world *w, const char *text) {
        cleanup(buf_done) struct buf b = BUF(1 << 20);
        assert_int_equal(audit_flush(w->audit, NULL), 0);
        assert_int_equal(path_read_file(w->file, 1 << 20, &b, NULL), 0);
        return strstr(buf_text(&b), text) != NULL;
}

static void starts_at_the_first_connection(void **state) {
        struct world *w = *state;
        make_process(w, "accept");
        step_for(w, 60);
        assert_int_equal(gateway_process_state(w->g), ROLE_IDLE);
        assert_int_equal(gateway_process_pid(w->g), 0);
        cleanup(close_fd) int client = connect_client(w);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        char c;
        step_for(w, 50);
        assert_int_equal(read(client, &c, 1), 0); /* accepted and closed by the stand-in */
        assert_true(log_has(w, "\"kind\":\"tunnel-open\""));
        assert_true(log_has(w, "\"rule\":\"a.test\",\"origin\":\"test:1\""));
        assert_false(log_has(w, "1970-01-01")); /* its clock is not believed */
        /* 0 1 2, start, control, events, snapshot, one listener */
        assert_true(log_has(w, "gateway: fds 8 highest 7 env 0 death 9 leader 1"));
}

static void death_is_reported_and_replaced(void **state) {
        struct world *w = *state;
        make_process(w, "accept");
        struct err e = { 0 };
        assert_int_equal(gateway_process_start(w->g, &e), 0);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        pid_t first = gateway_process_pid(w->g);
        kill(first, SIGKILL);
        step_until(w, &w->notices[NOTICE_DIED], 1, 5000);
        assert_non_null(strstr(w->last_notice, "signal 9"));
        assert_int_equal(gateway_process_state(w->g), ROLE_WAITING);
        cleanup(close_fd) int client = connect_client(w); /* waits in the listener's queue */
        assert_true(client >= 0);
        uint64_t before = clock_ns();
        step_until(w, &w->notices[NOTICE_READY], 2, 5000);
        assert_true(clock_ns() - before > 50 * NS_PER_MS); /* not at once */
        assert_int_not_equal(gateway_process_pid(w->g), first);
        assert_true(log_has(w, "gateway ended: it was killed by signal 9"));
}

static void dying_again_and_again_slows_down(void **state) {
        struct world *w = *state;
        make_process(w, "exit");
        cleanup(close_fd) int client = connect_client(w);
        assert_true(client >= 0);
        uint64_t before = clock_ns();
        step_until(w, &w->notices[NOTICE_CANNOT_START], 3, 20000);
        assert_true(clock_ns() - before >= 290 * NS_PER_MS); /* at once, after 100 ms, after another 200 ms */
        assert_int_equal(w->notices[NOTICE_READY], 0);

        /* From now on nobody waits: this one, and those who come before and after the next try. */
        struct pollfd refused = { .fd = client, .events = POLLIN };
        assert_int_equal(poll(&refused, 1, 0), 1);
        for (unsigned tries = 3; tries < 5; tries++) {
                cleanup(close_fd) int late = connect_client(w);
                char byte;

                if (tries == 3)
                        step_for(w, 20);
                step_until(w, &w->notices[NOTICE_CANNOT_START], tries, 20000);
                assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), 0);
                for (int i = 0; i < 2000 && gateway_process_state(w->g) != ROLE_IDLE; i++)
                        step_for(w, 10); /* the delay: the next one is tried after it */
        }
}

/* Its listener stays ready all the time: nobody turns in circles, and it is refused once that is possible. */
static void what_cannot_be_refused_is_left_alone(void **state) {
        struct world *w = *state;
        struct rlimit limit, none;
        char byte;

        make_process(w, "exit");
        cleanup(close_fd) int first = connect_client(w);
        step_until(w, &w->notices[NOTICE_CANNOT_START], 3, 20000);
        assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), 0);

        cleanup(close_fd) int late = connect_client(w);
        int free_fd = dup(late);
        assert_true(free_fd > 0);
        close(free_fd);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = (struct rlimit){ (rlim_t)free_fd, limit.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        unsigned rounds = step_for(w, 100);
        unsigned tries = w->notices[NOTICE_CANNOT_START];
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);

        assert_in_range(rounds, 1, 60); /* of 10 ms each, and those of events */
        assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), -1);
        step_until(w, &w->notices[NOTICE_CANNOT_START], tries + 1, 20000);
        assert_int_equal(recv(late, &byte, 1, MSG_DONTWAIT), 0);
}

static void a_question_for_a_name_is_answered(void **state) {
        struct world *w = *state;
        const unsigned char question[] = { 0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1 };
        unsigned char answer[64];
        cleanup(close_fd) int client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t n = sizeof w->address;

        close(w->listener);
        w->listener = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        w->address.sin_port = 0;
        assert_int_equal(bind(w->listener, (struct sockaddr *)&w->address, n), 0);
        assert_int_equal(getsockname(w->listener, (struct sockaddr *)&w->address, &n), 0);
        w->kind = LISTENER_DNS_UDP;
        make_process(w, "exit");
        assert_int_equal(sendto(client, question, sizeof question, 0, (struct sockaddr *)&w->address, n),
                         sizeof question);
        step_until(w, &w->notices[NOTICE_CANNOT_START], 3, 20000);
        assert_int_equal(recv(client, answer, sizeof answer, MSG_DONTWAIT), sizeof question);
        assert_true(answer[0] == 0x12 && answer[1] == 0x34 && answer[2] == 0x81 && answer[3] == 2);
        assert_memory_equal(answer + 4, question + 4, sizeof question - 4);
}

static void bad_bytes_end_it(void **state) {
        struct world *w = *state;
        static const char *const acts[] = { "bad-event", "bad-message" };
        for (size_t i = 0; i < 2; i++) {
                make_process(w, acts[i]);
                assert_int_equal(gateway_process_start(w->g, NULL), 0);
                step_until(w, &w->notices[NOTICE_DIED], (unsigned)i + 1, 5000);
                step_for(w, 20);
                assert_int_equal(gateway_process_pid(w->g), 0);
                gateway_process_free(w->g);
                w->g = NULL;
        }
        assert_true(log_has(w, "the gateway is ended: it sent a malformed event"));
        assert_true(log_has(w, "the gateway is ended: it sent a malformed message"));
}

/* What it says is read after it was waited for, too. By then its number may be another process's: nothing is ended. */
static void nobody_is_ended_for_the_words_of_the_dead(void **state) {
        struct world *w = *state;
        siginfo_t info;

        make_process(w, "last-words");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        assert_int_equal(waitid(P_PID, (id_t)gateway_process_pid(w->g), &info, WEXITED | WNOWAIT), 0);
        step_until(w, &w->notices[NOTICE_DIED], 1, 5000);
        step_for(w, 20);
        assert_int_equal(w->notices[NOTICE_DIED], 1);
        assert_string_equal(w->last_notice, "it ended with status 4");
        assert_false(log_has(w, "the gateway is ended:"));
        assert_int_equal(w->events, 81);
}

static void own_failure_is_told(void **state) {
        struct world *w = *state;
        make_process(w, "failed");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_CANNOT_START], 1, 5000);
        assert_string_equal(w->last_notice, "no roots");
        step_for(w, 50);
        assert_int_equal(w->notices[NOTICE_DIED], 0);
        assert_int_equal(gateway_process_pid(w->g), 0);
}

static void questions_are_answered_or_denied(void **state) {
        struct world *w = *state;
        make_process(w, "ask");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        step_for(w, 100);
        assert_true(log_has(w, "gateway: answer deny"));
        gateway_process_free(w->g);
        w->g = NULL;

        w->answer = true;
        make_process(w, "ask");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_READY], 2, 5000);
        step_for(w, 100);
        assert_int_equal(w->asked, 77);
        assert_string_equal(w->asked_host, "ask.test:443/2");
        assert_true(log_has(w, "gateway: answer allow"));
}

static void reload_is_whole_or_not_at_all(void **state) {
        struct world *w = *state;
        make_process(w, "good");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        struct err e = { 0 };
        struct gateway_start defaults;
        gateway_start_init(&defaults);
        struct policy limits = { .network.limits = gateway_start_limits(&defaults),
                                 .network.ask_timeout_ns = defaults.ask_timeout_ns };
        limits.network.limits.connections = 77;
        assert_true(gateway_process_reload(w->g, &limits, "garbage", 7, &e) < 0); /* good limits, bad rules */
        assert_non_null(strstr(e.text, "not used"));
        step_for(w, 50);
        assert_int_equal(w->notices[NOTICE_RELOADED], 0);
        cleanup(free_ptr) void *good = NULL;
        size_t good_n = 0;
        build_snapshot("b.test", &good, &good_n);
        struct policy bad = limits;
        bad.network.limits.idle_ns = 0;
        assert_true(gateway_process_reload(w->g, &bad, good, good_n, &e) < 0); /* good rules, bad limits */
        step_for(w, 50);
        assert_int_equal(w->notices[NOTICE_RELOADED], 0);
        assert_false(log_has(w, "gateway: limits"));
        for (unsigned i = 1; i <= 6; i++) { /* more than are kept */
                cleanup(free_ptr) void *next = NULL;
                size_t n = 0;
                build_snapshot("b.test", &next, &n);
                assert_int_equal(gateway_process_reload(w->g, i == 1 ? NULL : &limits, next, n, &e), 0);
                step_until(w, &w->notices[NOTICE_RELOADED], i, 5000);
                assert_int_equal(log_has(w, "gateway: limits 77"), i > 1);
        }
        assert_string_equal(w->last_notice, "policy 7 judges");
}

static void stops_in_time(void **state) {
        struct world *w = *state;
        static const char *const acts[] = { "good", "deaf" };
        for (unsigned i = 0; i < 2; i++) {
                make_process(w, acts[i]);
                assert_int_equal(gateway_process_start(w->g, NULL), 0);
                step_until(w, &w->notices[NOTICE_READY], i + 1, 5000);
                uint64_t before = clock_ns();
                gateway_process_stop(w->g);
                step_until(w, &w->notices[NOTICE_STOPPED], i + 1, GATEWAY_STOP_MS + 2000);
                bool slow = clock_ns() - before > GATEWAY_STOP_MS * NS_PER_MS / 2;
                assert_int_equal(slow, i == 1);
                assert_int_equal(gateway_process_state(w->g), ROLE_STOPPED);
                gateway_process_free(w->g);
                w->g = NULL;
        }
}

static void full_disk_reaches_the_gateway(void **state) {
        struct world *w = *state;
        make_process(w, "good");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        step_for(w, 50);
        struct rlimit old, low;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        low = old;
        low.rlim_cur = 100;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        assert_int_equal(audit_note(w->audit, "does not fit"), 0);
        step_until(w, &w->notices[NOTICE_AUDIT_FAILED], 1, 2000);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        step_until(w, &w->notices[NOTICE_AUDIT_RESTORED], 1, 3000);
        step_for(w, 50);
        assert_true(log_has(w, "gateway: audit no"));
        assert_true(log_has(w, "gateway: audit yes"));
        struct audit_report report;
        assert_int_equal(audit_verify(w->file, &report, NULL), 0);
}

/* What the gateway says is marked as its own: it cannot write the supervisor's notes. */
static void notes_cannot_be_forged(void **state) {
        struct world *w = *state;
        make_process(w, "forger");
        assert_int_equal(gateway_process_start(w->g, NULL), 0);
        step_until(w, &w->notices[NOTICE_READY], 1, 5000);
        step_for(w, 50);
        assert_true(log_has(w, "\"gateway: rotation dropped"));
        assert_false(log_has(w, "\"detail\":\"rotation dropped"));
}

static void missing_program_is_an_error(void **state) {
        struct world *w = *state;
        struct gateway_child child;
        struct err e = { 0 };
        assert_int_equal(gateway_spawn("/nonexistent/bailey-gateway", 0, 0, &w->listener, 1, &child, &e), -ENOENT);
        assert_non_null(strstr(e.text, "/nonexistent/bailey-gateway"));
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(int argc, char **argv) {
        unsetenv("SSL_CERT_FILE"); /* what is handed on where it is set */
        unsetenv("SSL_CERT_DIR");
#define T(f) cmocka_unit_test_setup_teardown(f, make_world, end_world)
        const struct CMUnitTest tests[] = {
                T(starts_at_the_first_connection),
                T(death_is_reported_and_replaced),
                T(dying_again_and_again_slows_down),
                T(what_cannot_be_refused_is_left_alone),
                T(a_question_for_a_name_is_answered),
                T(bad_bytes_end_it),
                T(nobody_is_ended_for_the_words_of_the_dead),
                T(own_failure_is_told),
                T(questions_are_answered_or_denied),
                T(reload_is_whole_or_not_at_all),
                T(stops_in_time),
                T(full_disk_reaches_the_gateway),
                T(notes_cannot_be_forged),
                T(missing_program_is_an_error),
        };
        if (argc != 2)
                return 2;
        stand_in = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
