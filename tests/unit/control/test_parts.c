/* SPDX-License-Identifier: Apache-2.0 */
/* Questions, the monitor and the words of the prompt. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "control/control_place.h"
#include "control/monitor.h"
#include "control/prompt.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"

static struct authority target(const char *text) {
        struct authority a;
        assert_int_equal(authority_parse(str_of(text), 0, &a, NULL), 0);
        return a;
}

static void one_question_for_each_target(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        struct authority a = target("a.test:443"), b = target("a.test:80");
        bool fresh;
        for (uint64_t id = 1; id <= 1000; id++) {
                assert_non_null(questions_ask(&qs, id, &a, VIA_CONNECT, NS_PER_SECOND, &fresh));
                assert_int_equal(fresh, id == 1);
        }
        assert_non_null(questions_ask(&qs, 1001, &b, VIA_HTTP, NS_PER_SECOND, &fresh));
        assert_true(fresh);
        assert_int_equal(qs.list.n, 2);
        for (uint64_t id = 1; id < 1000; id++)
                assert_int_equal(questions_gone(&qs, id, false), 0);
        assert_int_equal(questions_gone(&qs, 1000, false), 1); /* the last one takes the question with it */
        assert_int_equal(questions_gone(&qs, 1000, false), 0);
        assert_null(questions_find(&qs, 1));
        assert_non_null(questions_find(&qs, 2));
}

static void questions_are_limited(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        bool fresh;
        for (unsigned i = 0; i < QUESTIONS_MAX + 10; i++) {
                char text[64];
                snprintf(text, sizeof text, "h%u.test:1", i);
                struct authority a = target(text);
                bool fits = questions_ask(&qs, i + 1, &a, VIA_HTTP, 1, &fresh) != NULL;
                assert_int_equal(fits, i < QUESTIONS_MAX);
        }
}

static void pattern_covers_questions(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        struct authority a = target("x.a.test:443");
        struct pattern p;
        bool fresh;
        questions_ask(&qs, 1, &a, VIA_HTTP, 1, &fresh);
        assert_int_equal(pattern_parse(STR("*.a.test"), &p, NULL), 0);
        assert_non_null(questions_covered(&qs, &p));
        assert_int_equal(pattern_parse(STR("x.a.test:80"), &p, NULL), 0);
        assert_null(questions_covered(&qs, &p));
}

static void question_as_object(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        cleanup(buf_done) struct buf out = BUF(4096);
        struct authority a = target("xn--bcher-kva.example:443");
        bool fresh;
        struct question *q = questions_ask(&qs, 1, &a, VIA_CONNECT, NS_PER_SECOND, &fresh);
        q->asked_us = q->expires_us = 0;
        struct emit j = emit_to(&out);
        question_emit(&j, q);
        assert_string_equal(buf_text(&out),
                            "{\"id\":1,\"kind\":\"host\",\"host\":\"xn--bcher-kva.example\",\"port\":443,\"via\":"
                            "\"connect\",\"waiting\":1,\"asked\":\"1970-01-01T00:00:00.000000Z\",\"expires\":"
                            "\"1970-01-01T00:00:00.000000Z\"}");
}

static void question_about_a_command(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        cleanup(buf_done) struct buf out = BUF(8192), shown = BUF(8192);
        static char text[] = "ls; sudo '\033[2J\n'", segment[] = "sudo '\033[2J\n'", rule[] = "elevate",
                    reason[] = "why";
        const struct question_command c = { .text = text, .segment = segment, .rule = rule, .reason = reason };
        struct authority a = target("a.test:443");
        struct pattern p;
        bool fresh;
        struct question *q = questions_ask_command(&qs, &c, NS_PER_SECOND);
        assert_non_null(q);
        q->asked_us = q->expires_us = 0;
        struct emit j = emit_to(&out);
        question_emit(&j, q);
        assert_string_equal(buf_text(&out),
                            "{\"id\":1,\"kind\":\"command\",\"command\":\"ls; sudo '\\u001b[2J\\n'\",\"segment\":"
                            "\"sudo '\\u001b[2J\\n'\",\"rule\":\"elevate\",\"reason\":\"why\",\"asked\":"
                            "\"1970-01-01T00:00:00.000000Z\",\"expires\":\"1970-01-01T00:00:00.000000Z\"}");
        assert_int_equal(prompt_text(&shown, q, "id"), 0);
        assert_non_null(strstr(buf_text(&shown), "ls; sudo '\\x1b[2J\\x0a'"));
        assert_null(strchr(buf_text(&shown), '\033'));
        /* It is no host: no pattern covers it, and a host's question is another. */
        assert_int_equal(pattern_parse(STR("0.0.0.0/0"), &p, NULL), 0);
        assert_null(questions_covered(&qs, &p));
        assert_int_equal(questions_ask(&qs, 7, &a, VIA_HTTP, 1, &fresh)->number, 2);
        questions_remove(&qs, 1);
        assert_int_equal(qs.list.n, 1);
}

static void question_about_a_call(void **state) {
        (void)state;
        cleanup(questions_done) struct questions qs = { 0 };
        cleanup(buf_done) struct buf out = BUF(8192), shown = BUF(8192);
        struct authority none = { 0 }, other = target("a.test:443");
        bool fresh;
        struct question *q = questions_ask_push(&qs, 5, &none, VIA_NONE, "/usr/bin/gh '\033[2J\n'", NS_PER_SECOND);
        assert_non_null(q);
        q->call = true;
        q->tool = str_dup(STR("gh"));
        q->directory = str_dup(STR("/srv/\033x"));
        q->asked_us = q->expires_us = 0;
        struct emit j = emit_to(&out);
        question_emit(&j, q);
        assert_string_equal(
            buf_text(&out),
            "{\"id\":1,\"kind\":\"call\",\"tool\":\"gh\",\"call\":\"/usr/bin/gh '\\u001b[2J\\n'\",\"directory\":"
            "\"/srv/\\u001bx\",\"asked\":\"1970-01-01T00:00:00.000000Z\",\"expires\":"
            "\"1970-01-01T00:00:00.000000Z\"}");
        assert_int_equal(prompt_text(&shown, q, "id"), 0);
        assert_non_null(strstr(buf_text(&shown), "/usr/bin/gh '\\x1b[2J\\x0a'\r\n  in /srv/\\x1bx\r\n"));
        assert_null(strchr(buf_text(&shown), '\033'));
        /* Its number is none of the gateway's, and the same words elsewhere are another call. */
        assert_non_null(questions_ask(&qs, 5, &other, VIA_HTTP, 1, &fresh));
        assert_int_equal(questions_gone(&qs, 5, false), 2);
        const char *words = "/usr/bin/gh '\033[2J\n'";
        assert_non_null(questions_same_call(&qs, &(struct question_call){ "gh", words, "/srv/\033x" }));
        assert_null(questions_same_call(&qs, &(struct question_call){ "gh", words, "/srv" }));
        assert_null(questions_same_call(&qs, &(struct question_call){ "gh2", words, "/srv/\033x" }));
        assert_int_equal(questions_gone(&qs, 5, true), 1);
        assert_int_equal(qs.list.n, 0);
}

/* First what was begun is ended, then the colours are named: nothing that the program left decides what is seen. */
static void terminal_before_a_question(void **state) {
        (void)state;
        const char *before = prompt_uncover("xterm");
        assert_memory_equal(before, "\x18\x1b\\", 3);
        assert_non_null(strstr(before, "\x1b[!p"));
        assert_non_null(strstr(before, "\x1b(B"));
        assert_string_equal(strrchr(before, '\x1b'), "\x1b[38;2;255;255;255;48;2;0;0;0m");
        assert_string_equal(prompt_leave("xterm"), "\x1b[0m");
        static const char *const plain[] = { NULL, "", "dumb" };
        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
                assert_string_equal(prompt_uncover(plain[i]), "");
                assert_string_equal(prompt_leave(plain[i]), "");
        }
}

static void words_of_the_prompt(void **state) {
        (void)state;
        static const struct {
                const char *line;
                enum prompt_reading reading;
                enum control_answer answer;
                enum control_scope scope;
        } cases[] = {
                { "once", PROMPT_ANSWER, ANSWER_ALLOW, SCOPE_ONCE },
                { " sandbox ", PROMPT_ANSWER, ANSWER_ALLOW, SCOPE_SANDBOX },
                { "workspace", PROMPT_ANSWER, ANSWER_ALLOW, SCOPE_WORKSPACE },
                { "always", PROMPT_ANSWER, ANSWER_ALLOW, SCOPE_ALWAYS },
                { "no", PROMPT_ANSWER, ANSWER_DENY, SCOPE_SANDBOX },
                { "", PROMPT_AGAIN, 0, 0 },
                { "y", PROMPT_AGAIN, 0, 0 },
                { "\033[24;80R", PROMPT_AGAIN, 0, 0 },
                { "\033]lonce\033\\once", PROMPT_AGAIN, 0, 0 },
                { "once once", PROMPT_AGAIN, 0, 0 },
                { "ALWAYS", PROMPT_AGAIN, 0, 0 },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                enum control_answer answer = 0;
                enum control_scope scope = 0;
                assert_int_equal(prompt_read(str_of(cases[i].line), &answer, &scope), cases[i].reading);
                assert_int_equal(answer, cases[i].answer);
                assert_int_equal(scope, cases[i].scope);
        }
}

/*
 * The monitor.
 */
static void rule(struct policy *p, uint32_t violations, uint64_t within, const char *action) {
        struct monitor_rule r = {
                .violations = violations, .within_ns = within, .action = (char *)action, .origin = (char *)"test"
        };
        assert_int_equal(vec_push(&p->monitor, r), 0);
}

static void monitor_counts_within_its_time(void **state) {
        (void)state;
        struct policy p = { 0 };
        struct monitor m;
        const struct monitor_counter *reached = NULL;
        rule(&p, 3, 10 * NS_PER_SECOND, "pause");
        rule(&p, 5, 100 * NS_PER_SECOND, "kill");
        assert_int_equal(monitor_init(&m, &p, NULL), 0);
        assert_int_equal(monitor_count(&m, 1 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        assert_int_equal(monitor_count(&m, 2 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        /* too late for the first rule */
        assert_int_equal(monitor_count(&m, 20 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        assert_int_equal(monitor_count(&m, 21 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        /* both rules now: the stronger one counts */
        assert_int_equal(monitor_count(&m, 22 * NS_PER_SECOND, &reached), MONITOR_KILL);
        /* and both begin anew */
        assert_int_equal(monitor_count(&m, 23 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        assert_int_equal(monitor_count(&m, 24 * NS_PER_SECOND, &reached), MONITOR_NOTHING);
        assert_int_equal(monitor_count(&m, 25 * NS_PER_SECOND, &reached), MONITOR_PAUSE);
        assert_int_equal(reached->violations, 3);
        monitor_done(&m);
        vec_done(&p.monitor);
}

static void roles_decide_over_the_monitor(void **state) {
        (void)state;
        static const struct {
                bool enabled, kills, has_rule;
                size_t counters;
                enum monitor_action action;
        } cases[] = {
                { false, false, true, 0, MONITOR_NOTHING }, { true, false, true, 1, MONITOR_WARN },
                { true, false, false, 1, MONITOR_WARN }, /* the built-in rule */
                { true, true, true, 1, MONITOR_KILL },      { false, true, false, 1, MONITOR_KILL },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct policy p = { .agent = (char *)"builder" };
                struct agent_role role = { .name = (char *)"builder",
                                           .origin = (char *)"test",
                                           .monitor_enabled = cases[i].enabled,
                                           .auto_kill_on_threat = cases[i].kills };
                struct monitor m;
                assert_int_equal(vec_push(&p.agents, role), 0);
                if (cases[i].has_rule)
                        rule(&p, 1, NS_PER_SECOND, "warn");
                assert_int_equal(monitor_init(&m, &p, NULL), 0);
                assert_int_equal(m.counters.n, cases[i].counters);
                if (m.counters.n)
                        assert_int_equal(m.counters.p[0].action, cases[i].action);
                monitor_done(&m);
                vec_done(&p.agents);
                vec_done(&p.monitor);
        }
}

static void only_policy_makes_violations(void **state) {
        (void)state;
        struct event ev = { .kind = EVENT_TUNNEL_OPEN, .reason = REASON_NOT_ALLOWED };
        assert_true(monitor_is_violation(&ev));
        ev.reason = REASON_UPSTREAM;
        assert_false(monitor_is_violation(&ev));
        ev.reason = REASON_NOT_ALLOWED;
        ev.allowed = true;
        assert_false(monitor_is_violation(&ev));
        ev = (struct event){ .kind = EVENT_NOTE };
        assert_false(monitor_is_violation(&ev));
}

/* A listener with a name of the kernel's choice, and the connection of a child that runs `after` when it has
 * connected. */
static int accept_from_child(pid_t *ret, void (*after)(void)) {
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        socklen_t n = sizeof at;
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(listener >= 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at.sun_family), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
        assert_int_equal(listen(listener, 1), 0);
        *ret = fork();
        if (*ret == 0) {
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd < 0 || connect(fd, (struct sockaddr *)&at, n) < 0)
                        _exit(1);
                after();
                _exit(0);
        }
        assert_true(*ret > 0);
        int fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        close(listener);
        return fd;
}

static void wait_for_signal(void) {
        alarm(60);
        pause();
}

static void stop_child(pid_t child) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
}

static void peer_is_known_while_it_lives(void **state) {
        (void)state;
        pid_t child;
        int fd = accept_from_child(&child, wait_for_signal);
        assert_int_equal(control_check_peer(fd, NULL), 0);
        stop_child(child);
        assert_true(control_check_peer(fd, NULL) < 0);
        close(fd);
}

static void end_now(void) {
}

/* Who connects, ends, and has somebody harmless take its number, is not taken for that one. */
static void number_of_the_peer_is_taken_again(void **state) {
        (void)state;
        pid_t child;
        int fd = accept_from_child(&child, end_now);
        waitpid(child, NULL, 0);
        struct clone_args like = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&child, .set_tid_size = 1 };
        long other = control_peer_is_certain() ? syscall(SYS_clone3, &like, sizeof like) : -1;
        if (other == 0) {
                wait_for_signal();
                _exit(0);
        }
        if (other > 0) {
                assert_int_equal(other, child);
                assert_true(control_check_peer(fd, NULL) < 0);
                stop_child((pid_t)other);
        }
        close(fd);
        if (other < 0)
                skip(); /* only root chooses numbers, and only since 6.5 a process can be told from its number */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_question_for_each_target),      cmocka_unit_test(questions_are_limited),
                cmocka_unit_test(pattern_covers_questions),          cmocka_unit_test(question_as_object),
                cmocka_unit_test(question_about_a_command),          cmocka_unit_test(question_about_a_call),
                cmocka_unit_test(terminal_before_a_question),        cmocka_unit_test(words_of_the_prompt),
                cmocka_unit_test(monitor_counts_within_its_time),    cmocka_unit_test(roles_decide_over_the_monitor),
                cmocka_unit_test(only_policy_makes_violations),      cmocka_unit_test(peer_is_known_while_it_lives),
                cmocka_unit_test(number_of_the_peer_is_taken_again),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
