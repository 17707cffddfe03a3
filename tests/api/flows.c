/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a manager, step by step, from outside: only <bailey/bailey.h>, but for a time limit that nobody waits
 * for. */
#include "fixture.h"

#include "api/manager.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Initialisation.
 */
static void presets(void **state) {
        struct fixture *f = *state;
        static const char *const names[] = { "default", "development", "ci" };
        for (size_t i = 0; i < 3; i++) {
                bailey_config *c = NULL;
                assert_ok(bailey_config_new(names[i], &c, &f->e));
                assert_ok(bailey_config_validate(c, &f->e));
                bailey_config_free(c);
        }
        bailey_config *c = NULL;
        assert_code(bailey_config_new("developement", &c, &f->e), BAILEY_E_ARGUMENT);
        assert_non_null(strstr(f->e.message, "development"));
        assert_null(c);
}

static void settings_are_checked_at_once(void **state) {
        struct fixture *f = *state;
        assert_code(bailey_config_set(f->config, "network.alow", "a.test", &f->e), BAILEY_E_CONFIG);
        assert_non_null(strstr(f->e.message, "network.allow"));
        assert_int_equal(f->e.code, BAILEY_E_CONFIG);
        assert_code(bailey_config_set(f->config, "mode", "open", &f->e), BAILEY_E_CONFIG);
        assert_code(bailey_config_set(f->config, "policy", "/etc/policy.yaml", &f->e), BAILEY_E_CONFIG);
        assert_code(bailey_config_set(NULL, "mode", "read-only", &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_config_policy(f->config, "network: [", &f->e), BAILEY_E_CONFIG);
        assert_non_null(strstr(f->e.message, "policy:"));
        assert_code(bailey_config_policy_file(f->config, "/nowhere.yaml", &f->e), BAILEY_E_CONFIG);
        assert_ok(bailey_config_validate(f->config, &f->e)); /* none of them left a trace */
}

static void the_whole_is_checked(void **state) {
        struct fixture *f = *state;
        bailey_config *c = NULL;
        assert_ok(bailey_config_new("ci", &c, &f->e));
        assert_ok(
            bailey_config_policy(c, "commands:\n  - { name: x, decision: escalate, argv: [x], match: [y] }\n", &f->e));
        assert_code(bailey_config_validate(c, &f->e), BAILEY_E_CONFIG);
        assert_code(bailey_manager_new(c, &f->manager, &f->e), BAILEY_E_CONFIG);
        assert_null(f->manager);
        assert_ok(bailey_config_policy(c, "", &f->e));
        assert_ok(bailey_config_shell(c, "/nowhere/sh", &f->e));
        assert_code(bailey_manager_new(c, &f->manager, &f->e), BAILEY_E_DEPENDENCY);
        assert_ok(bailey_config_shell(c, "sh", &f->e));
        assert_code(bailey_config_validate(c, &f->e), BAILEY_E_CONFIG);
        bailey_config_free(c);
}

static void a_copy_stands_alone(void **state) {
        struct fixture *f = *state;
        bailey_config *c = NULL;
        assert_ok(bailey_config_shell(f->config, "/bin/bash", &f->e));
        assert_ok(bailey_config_copy(f->config, &c, &f->e));
        bailey_config_free(f->config);
        f->config = c;
        fixture_start(f);
        assert_says(f, "echo $0", NULL, "/bin/bash\n");
}

static void dependencies(void **state) {
        struct fixture *f = *state;
        struct bailey_dependency d[BAILEY_DEPENDENCIES];
        assert_ok(bailey_check_dependencies(f->config, d, &f->e));
        for (size_t i = 0; i < BAILEY_DEPENDENCIES; i++)
                assert_true(d[i].found && d[i].detail[0] == '/');
        assert_ok(bailey_config_executable(f->config, "/nowhere/bailey", &f->e));
        assert_code(bailey_check_dependencies(f->config, d, &f->e), BAILEY_E_DEPENDENCY);
        assert_true(!d[0].found && !d[1].found && d[2].found);
}

static void capabilities(void **state) {
        struct fixture *f = *state;
        bailey_result *result = NULL;
        size_t n;

        assert_ok(bailey_capabilities(f->config, &result, &f->e));
        const char *said = bailey_result_stdout(result, &n);
        assert_true(n > 2 && said[0] == '{');
        assert_non_null(strstr(said, "\"mode\""));
        bailey_result_free(result);

        result = NULL;
        assert_ok(bailey_config_executable(f->config, "/nowhere/bailey", &f->e));
        assert_code(bailey_capabilities(f->config, &result, &f->e), BAILEY_E_DEPENDENCY);
        assert_null(result);
        assert_code(bailey_capabilities(f->config, NULL, &f->e), BAILEY_E_ARGUMENT);
}

/* A program in the fixture's directory that takes bailey's place. */
static void put_program(const struct fixture *f, const char *body, char path[static 128]) {
        snprintf(path, 128, "%s/stand-in", f->directory);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\n%s\n", body);
        assert_int_equal(fchmod(fileno(file), 0755), 0);
        assert_int_equal(fclose(file), 0);
}

static void capabilities_without_an_answer(void **state) {
        static const struct {
                const char *body, *says;
        } cases[] = {
                { "exit 3", "ended with 3 and said nothing" },
                { "echo no namespaces here >&2; exit 4", "ended with 4 and said: no namespaces here" },
                { "echo usage: bailey", "ended with 0 and said: usage: bailey" },
        };
        struct fixture *f = *state;
        bailey_result *result = NULL;
        char path[128];

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                put_program(f, cases[i].body, path);
                assert_ok(bailey_config_executable(f->config, path, &f->e));
                assert_code(bailey_capabilities(f->config, &result, &f->e), BAILEY_E_SYSTEM);
                assert_non_null(strstr(f->e.message, cases[i].says));
                assert_null(result);
        }

        put_program(f, "sleep 100", path);
        double begin = seconds();
        assert_code(manager_ask_doctor(path, 200000000, &result, &f->e), BAILEY_E_TIMEOUT);
        assert_non_null(strstr(f->e.message, "did not end in time"));
        assert_true(seconds() - begin < 20);
        assert_null(result);
}

/*
 * A machine that has no sandbox: here, because the executable is missing.
 */
static void unavailable_strict(void **state) {
        struct fixture *f = *state;
        assert_ok(bailey_config_executable(f->config, "/nowhere/bailey", &f->e));
        assert_code(bailey_manager_new(f->config, &f->manager, &f->e), BAILEY_E_DEPENDENCY);
        assert_non_null(strstr(f->e.message, "/nowhere/bailey"));
        assert_null(f->manager);
}

static void unavailable_warn(void **state) {
        struct fixture *f = *state;
        assert_ok(bailey_config_executable(f->config, "/nowhere/bailey", &f->e));
        assert_ok(bailey_config_unavailable(f->config, BAILEY_WARN, &f->e));
        assert_ok(bailey_config_env(f->config, "GREETING=hello", &f->e));
        fixture_start(f);
        assert_int_equal(bailey_manager_available(f->manager, &f->e), 0);
        assert_int_equal(f->e.code, BAILEY_E_PLATFORM);
        bailey_result *r = NULL;
        assert_ok(bailey_manager_exec(f->manager, "echo $GREETING; exit 4", NULL, &r, &f->e));
        assert_string_equal(bailey_result_stdout(r, NULL), "hello\n");
        assert_int_equal(bailey_result_exit_code(r), 4);
        assert_int_equal(bailey_result_sandboxed(r), 0);
        assert_non_null(strstr(bailey_result_notice(r), "not sandboxed"));
        bailey_result_free(r);
        assert_code(bailey_manager_exec(f->manager, "rm -rf /", NULL, &r, &f->e), BAILEY_E_FORBIDDEN);
        const char *const absent[] = { "no-such-program", NULL };
        assert_ok(bailey_manager_exec_args(f->manager, absent, NULL, &r, &f->e));
        assert_int_equal(bailey_result_exit_code(r), 127);
        bailey_result_free(r);
        /* What it leaves behind does not keep the call, and does not live on. */
        assert_ok(bailey_manager_exec(f->manager, "sleep 60 & echo $!", NULL, &r, &f->e));
        char *end;
        pid_t left = (pid_t)strtol(bailey_result_stdout(r, NULL), &end, 10);
        assert_true(left > 1);
        for (int i = 0; i < 1000 && kill(left, 0) == 0; i++) {
                char path[64], stat[256] = "";
                snprintf(path, sizeof path, "/proc/%d/stat", (int)left);
                FILE *file = fopen(path, "r");
                bool dead = !file || !fgets(stat, sizeof stat, file) || strstr(stat, ") Z ");
                if (file)
                        fclose(file);
                if (dead)
                        break;
                usleep(10000);
                assert_true(i < 999);
        }
        bailey_result_free(r);
        bailey_options *o = NULL;
        assert_ok(bailey_options_new(&o, &f->e));
        assert_ok(bailey_options_timeout(o, 100, &f->e));
        assert_code(bailey_manager_exec(f->manager, "sleep 60", o, &r, &f->e), BAILEY_E_TIMEOUT);
        bailey_result_free(r);
        bailey_options_free(o);
        /* wrap changes nothing */
        const char *const argv[] = { "/bin/true", NULL };
        struct bailey_command command = { .path = argv[0], .argv = argv };
        assert_ok(bailey_manager_wrap(f->manager, &command, NULL, &f->e));
        assert_ptr_equal(command.path, argv[0]);
        bailey_command_done(&command);
}

/*
 * exec and exec_args.
 */
static void exec_reports(void **state) {
        struct fixture *f = *state;
        bailey_result *r = NULL;
        fixture_start(f);
        assert_int_equal(bailey_manager_available(f->manager, NULL), 1);
        assert_ok(bailey_manager_exec(f->manager, "echo out; echo err >&2; exit 3", NULL, &r, &f->e));
        assert_int_equal(bailey_result_exit_code(r), 3);
        assert_int_equal(bailey_result_signal(r), 0);
        assert_string_equal(bailey_result_stdout(r, NULL), "out\n");
        assert_string_equal(bailey_result_stderr(r, NULL), "err\n");
        assert_int_equal(bailey_result_truncated(r), 0);
        assert_int_equal(bailey_result_sandboxed(r), 1);
        assert_string_equal(bailey_result_notice(r), "");
        assert_true(bailey_result_duration_ns(r) > 0);
        assert_null(bailey_result_violation(r, bailey_result_violations(r)));
        bailey_result_free(r);
        bailey_options *o = NULL;
        assert_ok(bailey_options_new(&o, &f->e));
        assert_ok(bailey_options_classify(o, 0, &f->e));
        assert_ok(bailey_manager_exec(f->manager, "kill -KILL $$", o, &r, &f->e));
        assert_int_equal(bailey_result_signal(r), SIGKILL);
        assert_int_equal(bailey_result_exit_code(r), -1);
        bailey_result_free(r);
        bailey_options_free(o);
        assert_code(bailey_manager_exec(f->manager, NULL, NULL, &r, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_manager_exec(NULL, "true", NULL, &r, &f->e), BAILEY_E_ARGUMENT);
}

static void exec_is_sandboxed(void **state) {
        struct fixture *f = *state;
        fixture_start(f);
        assert_says(f, "echo x > inside && cat inside; echo y 2>&1 > ../outside || echo refused", NULL,
                    "x\n/bin/sh: 1: cannot create ../outside: Read-only file system\nrefused\n");
        assert_int_equal(access("inside", F_OK), 0);
        assert_int_not_equal(access("../outside", F_OK), 0);
        assert_says(f, "echo $SANDBOX_RUNTIME; ls /proc/self/fd | wc -l", NULL, "1\n4\n");
}

static void exec_args_interprets_nothing(void **state) {
        struct fixture *f = *state;
        const char *const argv[] = { "echo", "$HOME; `id`", "\xff\xfe*", NULL };
        const char *const absent[] = { "no-such-program", NULL };
        bailey_result *r = NULL;
        fixture_start(f);
        assert_ok(bailey_manager_exec_args(f->manager, argv, NULL, &r, &f->e));
        assert_string_equal(bailey_result_stdout(r, NULL), "$HOME; `id` \xff\xfe*\n");
        bailey_result_free(r);
        assert_ok(bailey_manager_exec_args(f->manager, absent, NULL, &r, &f->e));
        assert_int_equal(bailey_result_exit_code(r), 127);
        bailey_result_free(r);
}

static void options_of_a_call(void **state) {
        struct fixture *f = *state;
        bailey_options *o = NULL;
        bailey_result *r = NULL;
        fixture_start(f);
        assert_ok(bailey_options_new(&o, &f->e));
        assert_int_equal(mkdir("sub", 0700), 0);
        assert_ok(bailey_options_directory(o, "sub", &f->e));
        assert_ok(bailey_options_shell(o, "/bin/bash", &f->e));
        assert_ok(bailey_options_set(o, "process.env.set", "A=1", &f->e));
        assert_ok(bailey_options_set(o, "filesystem.deny_read", "../closed", &f->e));
        assert_code(bailey_options_set(o, "process.env.sett", "A=1", &f->e), BAILEY_E_CONFIG);
        FILE *closed = fopen("../closed", "w");
        assert_non_null(closed);
        fclose(closed);
        assert_says(f, "basename $PWD; echo $A $0; cat ../../closed 2>/dev/null || echo closed", o,
                    "sub\n1 /bin/bash\nclosed\n");
        assert_says(f, "echo ${A:-none}", NULL, "none\n"); /* the manager's own settings are as before */
        assert_ok(bailey_options_set(o, "mode", "read-only", &f->e));
        assert_says(f, "touch x 2>/dev/null || echo read-only", o, "read-only\n");
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "input\n", 6), 6);
        close(fds[1]);
        assert_ok(bailey_options_input(o, fds[0], &f->e));
        assert_says(f, "cat", o, "input\n");
        close(fds[0]);
        assert_ok(bailey_options_input(o, -1, &f->e));
        assert_ok(bailey_options_output_limit(o, 5, &f->e));
        assert_ok(bailey_manager_exec(f->manager, "echo 123456789; echo ab >&2", o, &r, &f->e));
        assert_string_equal(bailey_result_stdout(r, NULL), "12345");
        assert_string_equal(bailey_result_stderr(r, NULL), "ab\n");
        assert_int_equal(bailey_result_truncated(r), 1);
        bailey_result_free(r);
        assert_ok(bailey_options_directory(o, "nowhere", &f->e));
        assert_code(bailey_manager_exec(f->manager, "true", o, &r, &f->e), BAILEY_E_ARGUMENT);
        bailey_options_free(o);
}

static void *trigger_soon(void *cancel) {
        usleep(200000);
        bailey_cancel_trigger(cancel);
        return NULL;
}

static void timeouts_and_cancelling(void **state) {
        struct fixture *f = *state;
        bailey_options *o = NULL;
        bailey_cancel *cancel = NULL;
        bailey_result *r = NULL;
        pthread_t thread;
        fixture_start(f);
        assert_ok(bailey_options_new(&o, &f->e));
        assert_ok(bailey_options_timeout(o, 200, &f->e));
        double began = seconds();
        assert_code(bailey_manager_exec(f->manager, "sleep 61 & sleep 60", o, &r, &f->e), BAILEY_E_TIMEOUT);
        assert_true(seconds() - began < 30);
        bailey_result_free(r);
        assert_ok(bailey_options_timeout(o, 2000, &f->e));
        assert_code(bailey_manager_exec(f->manager, "echo so far; exec sleep 60", o, &r, &f->e), BAILEY_E_TIMEOUT);
        assert_string_equal(bailey_result_stdout(r, NULL), "so far\n"); /* what it wrote until then is kept */
        assert_int_equal(bailey_result_exit_code(r), -1);
        bailey_result_free(r);
        r = NULL;
        assert_ok(bailey_options_timeout(o, 3600000, &f->e));
        assert_ok(bailey_cancel_new(&cancel, &f->e));
        assert_ok(bailey_options_cancel(o, cancel, &f->e));
        assert_int_equal(pthread_create(&thread, NULL, trigger_soon, cancel), 0);
        began = seconds();
        assert_code(bailey_manager_exec(f->manager, "sleep 60", o, &r, &f->e), BAILEY_E_CANCELLED);
        assert_true(seconds() - began < 30);
        pthread_join(thread, NULL);
        assert_code(bailey_manager_exec(f->manager, "sleep 60", o, &r, &f->e), BAILEY_E_CANCELLED); /* it stays so */
        assert_null(r);
        bailey_options_free(o);
        bailey_cancel_free(cancel);
        assert_says(f, "echo on", NULL, "on\n");
}

/*
 * check, and what is escalated.
 */
static void check_runs_nothing(void **state) {
        struct fixture *f = *state;
        struct bailey_verdict v;
        fixture_start(f);
        assert_ok(bailey_manager_check(f->manager, "ls -l", &v, &f->e));
        assert_int_equal(v.decision, BAILEY_ALLOW);
        assert_ok(bailey_manager_check(f->manager, "touch ran; sudo ls", &v, &f->e));
        assert_int_equal(v.decision, BAILEY_ESCALATED);
        assert_string_equal(bailey_decision_name(v.decision), "escalated");
        assert_true(v.rule[0] && v.reason[0]);
        assert_string_equal(v.segment, "sudo ls");
        assert_int_not_equal(access("ran", F_OK), 0);
        const char *const argv[] = { "rm", "-rf", "/", NULL };
        assert_ok(bailey_manager_check_args(f->manager, argv, &v, &f->e));
        assert_int_equal(v.decision, BAILEY_FORBIDDEN);
}

static void refusals_carry_rule_and_reason(void **state) {
        struct fixture *f = *state;
        bailey_result *r = NULL;
        fixture_start(f);
        assert_code(bailey_manager_exec(f->manager, "echo a && rm -rf /", NULL, &r, &f->e), BAILEY_E_FORBIDDEN);
        assert_true(f->e.rule[0] && f->e.reason[0]);
        assert_string_equal(f->e.segment, "rm -rf /");
        assert_code(bailey_manager_exec(f->manager, "sudo ls", NULL, &r, &f->e), BAILEY_E_ESCALATED); /* no callback */
        assert_true(f->e.rule[0] && f->e.reason[0]);
        assert_null(r);
}

struct person {
        atomic_int asked;
        enum bailey_approval answer;
};

static enum bailey_approval ask(void *arg, const struct bailey_question *q) {
        struct person *p = arg;
        assert_true(q->command[0] && q->rule[0] && q->reason[0]);
        atomic_fetch_add(&p->asked, 1);
        return p->answer;
}

static void approvals(void **state) {
        struct fixture *f = *state;
        struct person person = { .answer = BAILEY_DENY }, other = { .answer = BAILEY_APPROVE };
        bailey_result *r = NULL;
        bailey_options *o = NULL;
        assert_ok(bailey_config_policy(
            f->config, "commands:\n  - { name: touchy, decision: escalate, argv: [touchy], reason: x }\n", &f->e));
        assert_ok(bailey_config_on_approval(f->config, ask, &person, &f->e));
        fixture_start(f);
        assert_code(bailey_manager_exec(f->manager, "touchy", NULL, &r, &f->e), BAILEY_E_ESCALATED);
        assert_string_equal(f->e.rule, "touchy");
        assert_int_equal(person.asked, 1);
        person.answer = BAILEY_APPROVE;
        for (int i = 0; i < 2; i++) {
                assert_ok(bailey_manager_exec(f->manager, "touchy", NULL, &r, &f->e));
                assert_int_equal(bailey_result_exit_code(r), 127); /* it ran; there is no such program */
                bailey_result_free(r);
        }
        assert_int_equal(person.asked, 3);
        person.answer = BAILEY_APPROVE_SESSION;
        for (int i = 0; i < 3; i++) {
                assert_ok(bailey_manager_exec(f->manager, "touchy", NULL, &r, &f->e));
                bailey_result_free(r);
        }
        assert_int_equal(person.asked, 4);
        person.answer = BAILEY_DENY;
        assert_code(bailey_manager_exec(f->manager, "touchy more", NULL, &r, &f->e), BAILEY_E_ESCALATED);
        assert_int_equal(person.asked, 5); /* another command is another question */
        assert_ok(bailey_options_new(&o, &f->e));
        assert_ok(bailey_options_on_approval(o, ask, &other, &f->e));
        assert_ok(bailey_manager_exec(f->manager, "touchy more", o, &r, &f->e));
        assert_true(other.asked == 1 && person.asked == 5);
        bailey_result_free(r);
        bailey_options_free(o);
}

/*
 * wrap.
 */
static int start_and_wait(const struct bailey_command *c, int out) {
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status;
        assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
        posix_spawn_file_actions_adddup2(&actions, out, 1);
        assert_int_equal(posix_spawn(&pid, c->path, &actions, NULL, (char *const *)(uintptr_t)c->argv,
                                     (char *const *)(uintptr_t)c->envp),
                         0);
        posix_spawn_file_actions_destroy(&actions);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WEXITSTATUS(status);
}

/* What the program's own classifier says counts, unless Bailey forbids; a decision that is none forbids. */
static void decide(void *arg, const char *command, struct bailey_verdict *verdict) {
        int *called = arg;
        ++*called;
        if (strstr(command, "payroll")) {
                verdict->decision = BAILEY_FORBIDDEN;
                memset(verdict->rule, 'r', sizeof verdict->rule); /* without an end */
                snprintf(verdict->reason, sizeof verdict->reason, "not this");
        } else if (strstr(command, "nonsense")) {
                verdict->decision = (enum bailey_decision)77;
        } else if (verdict->decision == BAILEY_ESCALATED) {
                verdict->decision = BAILEY_ALLOW;
        }
}

static void escalate(void *arg, const char *command, struct bailey_verdict *verdict) {
        (void)arg;
        assert_string_equal(command, "echo 'a b'");
        verdict->decision = BAILEY_ESCALATED;
}

static void a_classifier_of_the_program(void **state) {
        struct fixture *f = *state;
        bailey_result *result = NULL;
        bailey_options *o;
        struct bailey_verdict verdict;
        const char *const argv[] = { "echo", "a b", NULL };
        int called = 0;

        assert_ok(bailey_config_classifier(f->config, decide, &called, &f->e));
        fixture_start(f);
        assert_says(f, "sudo -n true || echo ran", NULL, "ran\n");
        assert_code(bailey_manager_exec(f->manager, "cat payroll", NULL, &result, &f->e), BAILEY_E_FORBIDDEN);
        assert_string_equal(f->e.reason, "not this");
        assert_code(bailey_manager_exec(f->manager, "echo nonsense", NULL, &result, &f->e), BAILEY_E_FORBIDDEN);
        assert_int_equal(called, 3);
        assert_code(bailey_manager_exec(f->manager, "rm -rf /", NULL, &result, &f->e), BAILEY_E_FORBIDDEN);
        assert_string_equal(f->e.rule, "delete-root");
        assert_int_equal(called, 3);

        assert_ok(bailey_manager_check(f->manager, "cat payroll", &verdict, &f->e));
        assert_int_equal(verdict.decision, BAILEY_FORBIDDEN);
        assert_ok(bailey_options_new(&o, &f->e));
        assert_ok(bailey_options_classifier(o, escalate, NULL, &f->e));
        assert_code(bailey_manager_exec_args(f->manager, argv, o, &result, &f->e), BAILEY_E_ESCALATED);
        bailey_options_free(o);
        assert_null(result);
        assert_code(bailey_config_classifier(NULL, decide, NULL, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_options_classifier(NULL, decide, NULL, &f->e), BAILEY_E_ARGUMENT);
}

static void wrap_changes_in_place(void **state) {
        struct fixture *f = *state;
        const char *const argv[] = { "sh", "-c",
                                     "env | grep -c BAILEY_SUPERVISE; echo $OWN; touch ../out 2>&1 && exit 1; exit 5",
                                     NULL };
        char records[128], home[128]; /* Bailey's own records are outside the home directory */
        const char *const envp[] = { "PATH=/usr/bin:/bin", "OWN=mine", records, home, NULL };
        struct bailey_command command = { .path = "/bin/sh", .argv = argv, .envp = envp };
        int fds[2];
        char got[256] = "";
        snprintf(records, sizeof records, "XDG_STATE_HOME=%s/state", f->directory);
        snprintf(home, sizeof home, "HOME=%s/home", f->directory);
        fixture_start(f);
        assert_ok(bailey_manager_wrap(f->manager, &command, NULL, &f->e));
        assert_ptr_not_equal(command.argv, argv);
        assert_code(bailey_manager_wrap(f->manager, &command, NULL, &f->e), BAILEY_E_ARGUMENT);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(start_and_wait(&command, fds[1]), 5);
        close(fds[1]);
        assert_true(read(fds[0], got, sizeof got - 1) > 0);
        close(fds[0]);
        assert_string_equal(got, "0\nmine\ntouch: cannot touch '../out': Read-only file system\n");
        assert_int_not_equal(access("../out", F_OK), 0);
        bailey_command_done(&command);
        bailey_command_done(&command);
        const char *const forbidden[] = { "rm", "-rf", "/", NULL };
        struct bailey_command never = { .path = "/bin/rm", .argv = forbidden };
        assert_code(bailey_manager_wrap(f->manager, &never, NULL, &f->e), BAILEY_E_FORBIDDEN);
        assert_ptr_equal(never.argv, forbidden);
}

/*
 * update.
 */
static void update_swaps_the_whole(void **state) {
        struct fixture *f = *state;
        struct bailey_verdict v;
        fixture_start(f);
        assert_ok(bailey_config_env(f->config, "STAGE=two", &f->e));
        assert_ok(bailey_config_policy(
            f->config, "commands:\n  - { name: no-deploy, decision: forbid, argv: [deploy], reason: x }\n", &f->e));
        assert_says(f, "echo ${STAGE:-one}", NULL, "one\n");
        assert_ok(bailey_manager_update(f->manager, f->config, &f->e));
        assert_says(f, "echo ${STAGE:-one}", NULL, "two\n");
        assert_ok(bailey_manager_check(f->manager, "deploy now", &v, &f->e));
        assert_string_equal(v.rule, "no-deploy");
        /* A broken one changes nothing. */
        assert_ok(bailey_config_env(f->config, "STAGE=three", &f->e));
        assert_ok(bailey_config_policy(f->config, "network: { alow: [] }", &f->e));
        assert_code(bailey_manager_update(f->manager, f->config, &f->e), BAILEY_E_CONFIG);
        assert_non_null(strstr(f->e.message, "alow"));
        assert_says(f, "echo ${STAGE:-one}", NULL, "two\n");
        assert_ok(bailey_manager_check(f->manager, "deploy now", &v, &f->e));
        assert_int_equal(v.decision, BAILEY_FORBIDDEN);
}

/*
 * The end.
 */
struct sleeper {
        bailey_manager *manager;
        int code;
};

static void *sleep_long(void *arg) {
        struct sleeper *s = arg;
        bailey_result *r = NULL;
        s->code = bailey_manager_exec(s->manager, "echo > begun; sleep 60", NULL, &r, NULL);
        return NULL;
}

static void closed_means_closed(void **state) {
        struct fixture *f = *state;
        bailey_result *r = NULL;
        bailey_gateway *g = NULL;
        struct bailey_verdict v;
        const char *const argv[] = { "/bin/true", NULL };
        struct bailey_command command = { .path = argv[0], .argv = argv };
        pthread_t thread;
        fixture_start(f);
        struct sleeper sleeper = { .manager = f->manager };
        assert_int_equal(pthread_create(&thread, NULL, sleep_long, &sleeper), 0);
        for (int i = 0; i < 3000 && access("begun", F_OK) < 0; i++)
                usleep(10000);
        assert_ok(bailey_manager_cleanup(f->manager, &f->e));
        pthread_join(thread, NULL);
        assert_int_equal(sleeper.code, BAILEY_E_CANCELLED);
        assert_code(bailey_manager_exec(f->manager, "true", NULL, &r, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_exec_args(f->manager, argv, NULL, &r, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_wrap(f->manager, &command, NULL, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_check(f->manager, "true", &v, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_check_args(f->manager, argv, &v, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_update(f->manager, f->config, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_gateway_start(f->manager, NULL, &g, &f->e), BAILEY_E_CLOSED);
        assert_code(bailey_manager_cleanup(f->manager, &f->e), BAILEY_E_CLOSED);
        assert_int_equal(bailey_manager_available(f->manager, &f->e), 0);
        assert_int_equal(f->e.code, BAILEY_E_CLOSED);
        assert_string_equal(bailey_error_name(f->e.code), "manager-closed");
}

/*
 * Programs that are not polite.
 */
static void hosts_that_reap_everything(void **state) {
        struct fixture *f = *state;
        struct sigaction before, ignore = { .sa_handler = SIG_IGN };
        fixture_start(f);
        sigaction(SIGCHLD, &ignore, &before); /* children vanish by themselves */
        assert_says(f, "echo still here", NULL, "still here\n");
        sigaction(SIGCHLD, &before, NULL);
        int leaked = open("/dev/null", O_RDONLY); /* not close-on-exec */
        assert_says(f, "ls /proc/self/fd | wc -l", NULL, "4\n");
        close(leaked);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
                TEST(presets),
                TEST(settings_are_checked_at_once),
                TEST(the_whole_is_checked),
                TEST(a_copy_stands_alone),
                TEST(dependencies),
                TEST(capabilities),
                TEST(capabilities_without_an_answer),
                TEST(unavailable_strict),
                TEST(unavailable_warn),
                TEST(exec_reports),
                TEST(exec_is_sandboxed),
                TEST(exec_args_interprets_nothing),
                TEST(options_of_a_call),
                TEST(timeouts_and_cancelling),
                TEST(check_runs_nothing),
                TEST(refusals_carry_rule_and_reason),
                TEST(approvals),
                TEST(a_classifier_of_the_program),
                TEST(wrap_changes_in_place),
                TEST(update_swaps_the_whole),
                TEST(closed_means_closed),
                TEST(hosts_that_reap_everything),
        };
        return cmocka_run_group_tests_name("libbailey", tests, NULL, NULL);
}
