/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of init. It is the cloned child of the supervisor, already in its new namespaces, and process 1 of its own. It
 * makes the network, waits for the plan, validates it once more, applies it in a fixed order, gives up every privilege,
 * waits for the go message, starts the command, and from then on does three things: it reaps, it hands signals on, and
 * it watches the control socket. Whichever side ends first, everything ends: when the command has ended, init kills and
 * reaps all other processes, reports that, and exits; when the supervisor's end of the socket closes it does the same,
 * and when init itself is killed the kernel does it. It trusts the supervisor's messages (fixed size, checked) and
 * nothing from the command.
 *
 * Order matters. The network is the kernel's slowest part, and it is one of two that are fixed: init makes it while the
 * supervisor still works on the plan. Listeners come while the privilege to bind port 53 is there, privileges go last.
 * Landlock is prepared by init and applied by the command: init must still be able to remove guarded paths when the
 * supervisor was killed.
 */
#include "sandbox/linux/init.h"
#include "sandbox/linux/identity.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/rest.h"
#include "base/secrets/secret.h"
#include "plan/codec.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/freeze.h"
#include "sandbox/linux/keeper.h"
#include "sandbox/linux/publish.h"
#include "sandbox/linux/stdio.h"
#include "sandbox/linux/step.h"
#include "sandbox/linux/watcher/watcher.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct init {
        const struct init_args *args;
        struct plan *plan;
        pid_t command;
        int signals; /* signalfd for SIGCHLD */
        int published[PLAN_LISTENERS_MAX];
        size_t n_published;
        struct plan network; /* what was made before there was a plan: batches, listeners */
        bool silent;         /* this kernel cannot log packets */
        int listeners[PLAN_LISTENERS_MAX];
        size_t n_listeners;
        struct freeze freeze;
        int lock;               /* of the run's slot (kept/guard_registry.h): held until this process ends. -1: none */
        struct watcher watcher; /* without namespaces */
        struct stdio stdio;
        bool rests;
};

static int init_report(int control, enum sandbox_event_kind kind, int value, const char *text) {
        struct sandbox_event event = { .kind = kind, .value = value };
        if (text)
                snprintf(event.text, sizeof event.text, "%s", text);

        /* Without text the message is short. */
        return fd_send(control, str_n(&event, text ? sizeof event : offsetof(struct sandbox_event, text)), NULL, 0);
}

_Noreturn static void give_up(const struct init_args *args, const struct err *err) {
        (void)init_report(args->control, SANDBOX_FAILED, err->code, err_text(err));
        _exit(125);
}

/* The next message must be this one. Without a supervisor there is nothing to do, and nobody to tell. */
static int init_await(const struct init *in, enum sandbox_event_kind kind, int *ret_value, int *fds, size_t max,
                      size_t *ret_n, struct err *err) {
        struct sandbox_event event;
        ssize_t got = fd_receive(in->args->control, &event, sizeof event, fds, max, ret_n);
        if (got <= 0)
                _exit(125);
        if ((size_t)got < offsetof(struct sandbox_event, text) || event.kind != kind)
                return err_set(err, EBADMSG, "unexpected message from the supervisor");
        if (ret_value)
                *ret_value = event.value;

        return 0;
}

/* More listeners may follow those that every network has. */
static bool same_network(const struct plan *plan, const struct plan *made) {
        return str_eq(plan->routes_v4, made->routes_v4) && str_eq(plan->routes_v6, made->routes_v6) &&
               str_eq(plan->nft, made->nft) && plan->listeners.n >= made->listeners.n &&
               str_eq(str_n(plan->listeners.p, made->listeners.n * sizeof *plan->listeners.p),
                      str_n(made->listeners.p, made->listeners.n * sizeof *made->listeners.p));
}

/* The bytes come behind the message, in pieces. */
static int receive_bytes(const struct init *in, struct buf *bytes, size_t size) {
        size_t none = 0;

        if (buf_reserve(bytes, size) < 0)
                return -ENOMEM;

        while (bytes->n < size) {
                ssize_t got = fd_receive(in->args->control, bytes->p + bytes->n, size - bytes->n, NULL, 0, &none);
                if (got <= 0)
                        _exit(125);
                bytes->n += (size_t)got;
        }

        return 0;
}

static int receive_plan(struct init *in, struct err *err) {
        cleanup(buf_done) struct buf bytes = BUF(PLAN_BYTES_MAX);
        int size = 0;
        int r = init_await(in, SANDBOX_PLAN, &size, in->published, PLAN_LISTENERS_MAX, &in->n_published, err);
        if (r < 0)
                return r;
        if (size <= 0 || receive_bytes(in, &bytes, (size_t)size) < 0)
                return err_set(err, EBADMSG, "launch plan: %d bytes", size);

        r = plan_decode(buf_str(&bytes), &in->plan, err);
        if (r < 0)
                return r;
        if (in->plan->namespaces != (in->args->degraded ? 0 : PLAN_NAMESPACES))
                r = err_set(err, EINVAL, "launch plan: made for other namespaces");
        if (r == 0 && !in->args->degraded && !same_network(in->plan, &in->network))
                r = err_set(err, EINVAL, "launch plan: made for another network");

        if (r == 0 && in->plan->publish.n != in->n_published)
                r = err_set(err, EBADMSG, "launch plan: %zu published ports and %zu sockets", in->plan->publish.n,
                            in->n_published);

        return r;
}

static int make_network(struct init *in, struct err *err) {
        int kind = 0;
        size_t none = 0;
        int r = init_await(in, SANDBOX_NETWORK, &kind, NULL, 0, &none, err);
        if (r == 0 && plan_fill_network(&in->network, kind & SANDBOX_NETWORK_CAPTURED, kind & SANDBOX_NETWORK_IPV6) < 0)
                r = err_set(err, ENOMEM, "out of memory");
        if (r == 0)
                r = apply_network(&in->network, &in->silent, err);
        if (r == 0)
                apply_ping(in->args->ids ? in->args->ids->inner_gid : in->args->gid);
        if (r < 0)
                return r;

        return apply_listeners(&in->network, in->listeners, &in->n_listeners, err);
}

/* The maps are written from outside. */
static int await_identity(const struct init *in, struct err *err) {
        size_t none = 0;

        return init_await(in, SANDBOX_IDENTITY, NULL, NULL, 0, &none, err);
}

/* Before the plan: what every sandbox has. */
static int init_separate(struct init *in, struct err *err) {
        if (confine_exec(err) < 0)
                return -err->code;

        if (in->args->degraded) { /* descendants whose parent ended come to init, as they would to process 1 */
                if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                        return err_errno(err, "processes: subreaper");
                watcher_prepare(&in->watcher);
                return 0;
        }

        int r = in->args->ids ? await_identity(in, err) : apply_identity(in->args->uid, in->args->gid, err);
        if (r == 0 && unshare(CLONE_NEWNET) < 0)
                r = err_errno(err, "network: namespace");
        if (r < 0)
                return r;

        return make_network(in, err);
}

/* They are the supervisor's from now on. */
static int hand_over_listeners(struct init *in, struct err *err) {
        struct sandbox_event event = { .kind = SANDBOX_MOUNTED };
        int r = apply_listeners(in->plan, in->listeners, &in->n_listeners, err);
        if (r < 0)
                return r;

        event.value = (int32_t)in->n_listeners;
        if (in->silent)
                snprintf(event.text, sizeof event.text, "%s", SANDBOX_SILENT);

        r = fd_send(in->args->control, str_n(&event, in->silent ? sizeof event : offsetof(struct sandbox_event, text)),
                    in->listeners, in->n_listeners);
        for (size_t i = 0; i < in->n_listeners; i++)
                close_fd(&in->listeners[i]);

        if (r < 0)
                return err_set(err, -r, "network: hand over listeners: %s", strerror(-r));

        return 0;
}

static int set_up(struct init *in, struct err *err) {
        struct plan *plan = in->plan;
        int r = 0;

        if (!in->args->degraded) {
                limit_processes_of_root(plan);
                limit_watchers();
                stdio_take(&in->stdio);
                r = apply_mounts(plan, err);
                if (r == 0)
                        r = stdio_place(&in->stdio, err);
                if (r == 0)
                        r = hand_over_listeners(in, err);
                if (r == 0)
                        r = apply_hostname(plan, err);
        }

        if (r == 0 && in->args->ids)
                r = identity_become(in->args->ids, err);

        /* Nobody looks into init: not through /proc, not with ptrace. */
        if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                r = err_errno(err, "privileges: not dumpable");
        if (r == 0)
                r = confine_capabilities(broker_capabilities(plan), err);

        if (r == 0 && !broker_filter_has_main(plan))
                return confine_syscalls(plan, CONFINE_THREAD, err);

        return r;
}

/* The supervisor gets one end, the broker the other: init is not in between. */
static int open_events(const struct init *in, int *ret_fd, struct err *err) {
        int ends[2];

        if (!(in->plan->flags & PLAN_BROKER))
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_errno(err, "broker: socket");

        struct sandbox_event event = { .kind = SANDBOX_EVENTS };
        int r = fd_send(in->args->control, str_n(&event, offsetof(struct sandbox_event, text)), &ends[0], 1);
        close(ends[0]);

        if (r < 0) {
                close(ends[1]);
                return err_set(err, -r, "broker: hand over its socket: %s", strerror(-r));
        }

        *ret_fd = ends[1];
        return 0;
}

/* What init still had for the broker's sake, and the keeper with it. */
static int give_up_the_rest(const struct init *in, struct err *err) {
        int r = 0;

        if (broker_capabilities(in->plan))
                r = confine_capabilities(0, err);

        if (r == 0 && broker_filter_has_main(in->plan))
                return confine_syscalls(in->plan, CONFINE_PROCESS, err);

        return r;
}

static int start_command(struct init *in, struct err *err) {
        struct command command = { .plan = in->plan,
                                   .terminal = in->args->foreground ? in->args->terminal : -1,
                                   .mask = in->args->mask,
                                   .landlock = -1,
                                   .landlock_own = -1,
                                   .kept = (in->plan->flags & (PLAN_SOCKETS | PLAN_WRITES)) &&
                                           !(in->plan->flags & PLAN_BROKER),
                                   .notify = -1,
                                   .events = -1,
                                   .record = -1,
                                   .watcher = -1 };
        int r = confine_landlock(in->plan, &command.landlock, err);
        if (r == 0)
                r = confine_landlock_own(in->plan, &command.landlock_own, err);
        if (r == 0)
                r = open_events(in, &command.events, err);
        if (r < 0)
                return r;

        size_t n_locks = 0;
        r = init_await(in, SANDBOX_GO, NULL, &in->lock, 1, &n_locks, err);
        if (r == 0) /* now that init may run on every processor: the relay stays on those that it starts with */
                r = publish_start(in->plan, in->published, in->n_published, err);
        if (r < 0)
                return r;

        command.record = in->lock;
        in->watcher.plan = in->plan;
        if (in->plan->flags & PLAN_WATCHED)
                r = watcher_start(&in->watcher, in->args->control, &command.watcher, err);
        if (r < 0)
                return r;

        if (command.kept)
                in->command = keeper_start_command(&command, in->args->control);
        else
                in->command = command_start(&command);
        close_fd(&command.landlock);
        close_fd(&command.landlock_own);
        close_fd(&command.events);
        close_fd(&command.watcher);

        if (in->command < 0)
                return err_set(err, -in->command, "start the command: %s", strerror(-in->command));
        if (command.error == 0)
                return give_up_the_rest(in, err);

        if (command.not_run) {
                (void)init_report(in->args->control, SANDBOX_NOT_RUN, command.error, command.text);
                _exit(command.error == ENOENT || command.error == ENOTDIR ? 127 : 126);
        }

        return err_set(err, command.error, "%s", command.text);
}

/* Everything that has died. True when the command was among it. */
static bool init_reap(struct init *in, int *ret_status) {
        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
                if (pid <= 0)
                        return false;
                if (pid != in->command)
                        continue;

                if (WIFSTOPPED(status)) {
                        (void)init_report(in->args->control, SANDBOX_STOPPED, WSTOPSIG(status), NULL);
                        continue;
                }

                *ret_status = status;
                return true;
        }
}

/* The end of it all, in order: nothing of the sandbox runs when the guarded paths are looked at. */
static void kill_everything(const struct init *in) {
        if (in->args->degraded) { /* here -1 would mean every process of this user */
                sandbox_end_descendants();
                return;
        }

        /* Without a child there is nobody else in here, and the kernel need not look at every process of the host. */
        if (waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
                return;

        kill(-1, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                ;
}

_Noreturn static void init_orphaned(struct init *in) {
        kill_everything(in);

        /* The store is out of reach in here: what is found gets another name beside its place. */
        if (in->plan) {
                struct guard_sweep sweep = { .guards = in->plan->guards.p,
                                             .n = in->plan->guards.n,
                                             .id = in->plan->id };
                (void)guard_sweep(&sweep, NULL);
        }

        cgroup_leave(&in->args->group);
        _exit(125);
}

static void from_supervisor(struct init *in) {
        struct sandbox_event event;
        size_t n_fds = 0;
        ssize_t got = fd_receive(in->args->control, &event, sizeof event, NULL, 0, &n_fds);
        if (got == -EAGAIN)
                return;
        if (got < (ssize_t)offsetof(struct sandbox_event, text))
                init_orphaned(in);

        if (event.kind == SANDBOX_SIGNAL && event.value > 0 && event.value < NSIG)
                kill(-in->command, event.value);
        else if (event.kind == SANDBOX_FOREGROUND && in->args->terminal >= 0)
                (void)tcsetpgrp(in->args->terminal, in->command); /* gone terminals are found out by the command */
        else if (event.kind == SANDBOX_FREEZE) /* without namespaces -1 would mean every process of this user */
                (void)init_report(in->args->control, SANDBOX_FROZEN,
                                  in->args->degraded ? EOPNOTSUPP : -freeze_begin(&in->freeze), NULL);
        else if (event.kind == SANDBOX_THAW)
                freeze_end(&in->freeze);
        else
                init_orphaned(in);
}

_Noreturn static void init_end(struct init *in, int status) {
        kill_everything(in);
        stdio_carry_over(&in->stdio);
        if (init_report(in->args->control, SANDBOX_EXITED, status, NULL) < 0)
                init_orphaned(in); /* the supervisor died meanwhile */

        _exit(0);
}

/* The first time that nothing comes for a while, it is at rest. */
static int init_wait(struct init *in, struct pollfd *polls, nfds_t n) {
        int ms = freeze_due_ms(&in->freeze);
        bool first = ms < 0 && !in->rests;
        int r = poll(polls, n, first ? REST_AFTER_MS : ms);

        if (r != 0 || !first)
                return r;

        in->rests = true;
        process_rest();
        return 0;
}

_Noreturn static void init_loop(struct init *in) {
        struct pollfd polls[] = { { .fd = in->args->control, .events = POLLIN },
                                  { .fd = in->signals, .events = POLLIN } };

        for (;;) {
                int status;

                if (init_reap(in, &status))
                        init_end(in, status);

                if (init_wait(in, polls, 2) < 0 && errno != EINTR)
                        init_orphaned(in);
                if (polls[0].revents)
                        from_supervisor(in);

                if (polls[1].revents) {
                        struct signalfd_siginfo info;
                        if (read(in->signals, &info, sizeof info) < 0 && errno != EAGAIN && errno != EINTR)
                                init_orphaned(in);
                }

                if (freeze_keep(&in->freeze) < 0) { /* what should be frozen must not go on */
                        (void)init_report(in->args->control, SANDBOX_FROZEN, ECANCELED, NULL);
                        init_end(in, SIGKILL);
                }
        }
}

/* The supervisor's environment may hold secrets that the vault hands out. This process and what comes from it are
 * inside; the command's environment is in the plan. */
static void forget_environment(void) {
        static char *nothing[] = { NULL };
        for (char **v = environ; v && *v; v++)
                secret_wipe(*v, strlen(*v));
        environ = nothing;
}

_Noreturn void init_main(const struct init_args *args) {
        struct init in = { .args = args, .signals = -1, .lock = -1, .stdio = STDIO_NONE };
        struct err err = { 0 };
        sigset_t all, child;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, "bailey-init", 0, 0, 0);

        /* A signal for the supervisor's group is not for init: the survivor of the two cleans up. */
        (void)setpgid(0, 0);
        forget_environment();
        int r = init_separate(&in, &err);
        if (r == 0)
                r = receive_plan(&in, &err);
        if (r == 0)
                r = set_up(&in, &err);

        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);

        if (r == 0) {
                in.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
                if (in.signals < 0)
                        r = err_errno(&err, "signals");
        }

        if (r == 0)
                r = start_command(&in, &err);
        if (r < 0)
                give_up(args, &err);

        init_loop(&in);
}
