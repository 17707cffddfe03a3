/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child asks for its own confinement and then becomes the command, so that no unconfined code of the command ever
 * runs. Earlier failures are written to a close-on-exec pipe: it distinguishes a refused profile, which looks like a
 * crash, from a command that failed.
 */
#include "sandbox/darwin/darwin_run.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "sandbox/darwin/darwin_monitor.h"
#include "sandbox/darwin/os.h"
#include "sandbox/darwin/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROFILE_MAX = 8 << 20, READY_MS = 2000, FLUSH_MS = 100, LOOK_MS = 100, KILL_ROUNDS = 16 };

static _Noreturn void child_fail(int fd, const char *step, const struct err *e, int code) {
        char line[ERR_TEXT_MAX + 128];
        int n = snprintf(line, sizeof line, "%s: %s", step, e && e->code ? err_text(e) : strerror(code));

        (void)!write(fd, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
        _exit(126);
}

static _Noreturn void child_run(const struct macos_launch *launch, const char *profile, int fd) {
        struct err e = { 0 };
        sigset_t none;

        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)setpgid(0, 0);
        if (chdir(launch->cwd) < 0)
                child_fail(fd, launch->cwd, NULL, errno);
        int r = os_harden(launch);
        if (r < 0)
                child_fail(fd, "limits", NULL, -r);
        if (os_confine(profile, launch->profile, &e) < 0)
                child_fail(fd, "profile", &e, EPERM);
        execve(launch->argv[0], launch->argv, launch->environment);
        child_fail(fd, launch->argv[0], NULL, errno);
}

static void tell_violation(void *context, const struct violation *v) {
        struct run_darwin *run = context;
        cleanup(buf_done) struct buf line = BUF(16384);

        run->violations++;
        if (run->hooks && run->hooks->on_denial)
                run->hooks->on_denial(run->hooks->arg, v);
        if (!run->quiet && escape_text(&line, str_of(v->target), 2048) == 0)
                (void)fprintf(stderr, "bailey: denied: %s %.*s (process %u)\n", v->operation, STR_FMT(buf_str(&line)),
                              v->pid);
}

static bool must_end(struct run_darwin *run) {
        if (run->deadline_ns && clock_ns() >= run->deadline_ns)
                run->timed_out = true;
        return run->timed_out || run->left || (run->end_wanted && *run->end_wanted);
}

/* Looks after it until it has ended. */
static int supervise_command(pid_t pid, struct run_darwin *run, struct monitor *monitor) {
        int status = 0;

        while (waitpid(pid, &status, WNOHANG) == 0) {
                (void)os_wait_exit(pid, LOOK_MS);
                if (run->hooks && run->hooks->turn && !run->left)
                        run->left = !run->hooks->turn(run->hooks->arg);
                if (run->monitored)
                        run->monitored = monitor_take(monitor, tell_violation, run);
                if (must_end(run)) {
                        (void)tree_signal(pid, os_children, SIGSTOP, KILL_ROUNDS);
                        (void)tree_signal(pid, os_children, SIGKILL, KILL_ROUNDS);
                }
        }
        return status;
}

/* What the child said before it could become the command; "" when it did. */
static void read_reason(int fd, struct buf *out) {
        char piece[512];
        ssize_t n;

        while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
                if (n > 0)
                        (void)buf_append(out, str_n(piece, (size_t)n));
}

static int start_child(const struct macos_launch *launch, const char *profile, pid_t *ret, struct buf *reason,
                       struct err *e) {
        int ends[2];

        if (pipe(ends) < 0)
                return err_errno(e, "cannot make a pipe");
        (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        *ret = fork();
        if (*ret == 0)
                child_run(launch, profile, ends[1]);
        close(ends[1]);
        if (*ret < 0) {
                close(ends[0]);
                return err_errno(e, "cannot fork");
        }
        read_reason(ends[0], reason);
        close(ends[0]);
        return 0;
}

int run_darwin(const struct macos_launch *launch, struct run_darwin *run, int *ret_status, struct err *e) {
        cleanup(buf_done) struct buf profile = BUF(PROFILE_MAX), reason = BUF(4096);
        struct monitor monitor = MONITOR_NONE;
        struct err no_monitor = { 0 };
        pid_t pid = -1;

        if (os_is_confined())
                return err_set(e, EPERM,
                               "this process is confined already, and macOS applies no second profile: run "
                               "the command without Bailey, it is confined here");
        if (seatbelt_text(launch->profile, &profile) < 0 || !buf_text(&profile))
                return err_memory(e);
        if (run->monitored &&
            monitor_start(&monitor, &(struct tool){ 0 }, launch->profile->tag, READY_MS, &no_monitor) < 0) {
                run->monitored = false;
                if (!run->quiet)
                        (void)fprintf(stderr, "bailey: lost: %s\n", err_text(&no_monitor));
        }
        int r = start_child(launch, buf_text(&profile), &pid, &reason, e);
        if (r == 0) {
                if (reason.n == 0 && run->hooks && run->hooks->started)
                        run->hooks->started(run->hooks->arg, pid);
                *ret_status = supervise_command(pid, run, &monitor);
                /* Ends what is left in its process group; processes that left the group are out of reach. */
                (void)kill(-pid, SIGKILL);
        }
        monitor_stop(&monitor, FLUSH_MS, tell_violation, run);
        if (r == 0 && reason.n > 0)
                r = err_set(e, EPERM, "the command was not started: %.*s", STR_FMT(buf_str(&reason)));
        return r;
}
