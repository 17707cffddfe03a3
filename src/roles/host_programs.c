/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/host_programs.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "roles/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALLED = 128, EVENTS = 16 };

static int programs_watch(struct host_programs *programs, const struct host_program *program, struct err *err) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = program->id };

        if (programs->epoll < 0)
                programs->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (programs->epoll < 0 || epoll_ctl(programs->epoll, EPOLL_CTL_ADD, program->pidfd, &event) < 0)
                return err_errno(err, "cannot watch a program of the host");
        return 0;
}

static void program_kill(struct host_program *program) {
        helper_kill(program->pidfd, program->pid);
        (void)spawn_wait(program->pid);
        close_fd(&program->pidfd);
}

static int program_spawn(const char *program, char *const *argv, char *const *environment, int stdio, int errors,
                         struct host_program *ret, struct err *err) {
        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = stdio,
                                     .output = stdio,
                                     .errors = errors,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_OWN_SESSION | SPAWN_AT_ROOT };
        int r = spawn_start(&spawn, &ret->pid, err);

        if (r < 0)
                return r;

        ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
        if (ret->pidfd < 0) {
                r = err_errno(err, "cannot watch %s", program);
                helper_kill(-1, ret->pid);
                (void)spawn_wait(ret->pid);
                return r;
        }

        (void)fcntl(ret->pidfd, F_SETFD, FD_CLOEXEC);
        return 0;
}

int host_programs_start(struct host_programs *programs, uint64_t id, const char *program, char *const *argv,
                        char *const *environment, int *ret_stdio, int *ret_errors, struct err *err) {
        cleanup(close_fd) int ours = -1, theirs = -1, our_errors = -1, their_errors = -1;
        struct host_program made = { .id = id };
        int pair[2], r;

        if (programs->running.n >= HOST_PROGRAMS_MAX)
                return err_set(err, EAGAIN, "%d programs of the host run for this sandbox, and no more may",
                               HOST_PROGRAMS_MAX);

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_errno(err, "cannot make sockets for %s", program);

        ours = pair[0];
        theirs = pair[1];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_errno(err, "cannot make sockets for %s", program);

        our_errors = pair[0];
        their_errors = pair[1];

        r = program_spawn(program, argv, environment, theirs, their_errors, &made, err);
        if (r < 0)
                return r;

        r = programs_watch(programs, &made, err);
        if (r == 0 && vec_push(&programs->running, made) < 0)
                r = err_memory(err);

        if (r < 0) {
                program_kill(&made);
                return r;
        }

        *ret_stdio = take_fd(&ours);
        *ret_errors = take_fd(&our_errors);

        return 0;
}

static void programs_forget(struct host_programs *programs, size_t at) {
        programs->running.p[at] = programs->running.p[programs->running.n - 1];
        programs->running.n--;
}

void host_programs_end(struct host_programs *programs, uint64_t id) {
        for (size_t i = 0; i < programs->running.n; i++)
                if (programs->running.p[i].id == id) {
                        program_kill(&programs->running.p[i]);
                        programs_forget(programs, i);
                        return;
                }
}

static bool program_has_ended(struct host_program *program, int *ret_status) {
        siginfo_t info = { 0 };

        if (waitid(P_PID, (id_t)program->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid != program->pid)
                return false;
        *ret_status = info.si_code == CLD_EXITED ? info.si_status : SIGNALLED + info.si_status;
        close_fd(&program->pidfd);
        return true;
}

void host_programs_reap(struct host_programs *programs, host_program_ended_fn *ended, void *arg) {
        struct epoll_event events[EVENTS];
        int n = 0;

        if (programs->epoll >= 0)
                n = epoll_wait(programs->epoll, events, EVENTS, 0);

        for (int k = 0; k < n; k++)
                for (size_t i = 0; i < programs->running.n; i++) {
                        int status = 0;

                        if (programs->running.p[i].id != events[k].data.u64 ||
                            !program_has_ended(&programs->running.p[i], &status))
                                continue;

                        programs_forget(programs, i);
                        ended(arg, events[k].data.u64, status);
                        break;
                }
}

void host_programs_end_all(struct host_programs *programs) {
        for (size_t i = 0; i < programs->running.n; i++)
                program_kill(&programs->running.p[i]);
        programs->running.n = 0;
}

void host_programs_done(struct host_programs *programs) {
        host_programs_end_all(programs);
        vec_done(&programs->running);
        close_fd(&programs->epoll);
}
