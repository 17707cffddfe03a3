/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of init. It is the cloned child of the supervisor, already in its new namespaces, and process 1 of its own. It
 * makes the network, waits for the plan, validates it once more, applies it in a fixed order, gives up every privilege,
 * waits for the word to go, starts the command, and from then on does three things: it reaps, it hands signals on, and
 * it watches the control socket. Whichever side ends first, everything ends: when the command has ended, init kills and
 * reaps whatever else is there, says so, and exits; when the supervisor's end of the socket closes it does the same,
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
#include "base/secret.h"
#include "plan/codec.h"
#include "sandbox/linux/broker.h"
#include "sandbox/linux/freeze.h"
#include "sandbox/linux/keeper.h"
#include "sandbox/linux/publish.h"
#include "sandbox/linux/stdio.h"
#include "sandbox/linux/step.h"
#include "sandbox/linux/watcher.h"

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
};

static void report(int control, enum sandbox_event_kind kind, int value, const char *text) {
        struct sandbox_event m = { .kind = kind, .value = value };
        if (text)
                snprintf(m.text, sizeof m.text, "%s", text);
        /* The supervisor may be gone; then the loop finds out. Without text the message is short. */
        (void)fd_send(control, str_n(&m, text ? sizeof m : offsetof(struct sandbox_event, text)), NULL, 0);
}

_Noreturn static void give_up(const struct init_args *args, const struct err *e) {
        report(args->control, SANDBOX_FAILED, e->code, err_text(e));
        _exit(125);
}

/* The next message must be this one. Without a supervisor there is nothing to do, and nobody to tell. */
static int await(const struct init *in, enum sandbox_event_kind kind, int *ret_value, int *fds, size_t max,
                 size_t *ret_n, struct err *e) {
        struct sandbox_event m;
        ssize_t got = fd_receive(in->args->control, &m, sizeof m, fds, max, ret_n);
        if (got <= 0)
                _exit(125);
        if ((size_t)got < offsetof(struct sandbox_event, text) || m.kind != kind)
                return err_set(e, EBADMSG, "unexpected message from the supervisor");
        if (ret_value)
                *ret_value = m.value;
        return 0;
}

/* More listeners may follow those that every network has. */
static bool same_network(const struct plan *a, const struct plan *made) {
        return str_eq(a->routes_v4, made->routes_v4) && str_eq(a->routes_v6, made->routes_v6) &&
               str_eq(a->nft, made->nft) && a->listeners.n >= made->listeners.n &&
               str_eq(str_n(a->listeners.p, made->listeners.n * sizeof *a->listeners.p),
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

static int receive_plan(struct init *in, struct err *e) {
        cleanup(buf_done) struct buf bytes = BUF(PLAN_BYTES_MAX);
        int size = 0;
        int r = await(in, SANDBOX_PLAN, &size, in->published, PLAN_LISTENERS_MAX, &in->n_published, e);
        if (r < 0)
                return r;
        if (size <= 0 || receive_bytes(in, &bytes, (size_t)size) < 0)
                return err_set(e, EBADMSG, "launch plan: %d bytes", size);
        r = plan_decode(buf_str(&bytes), &in->plan, e);
        if (r < 0)
                return r;
        if (in->plan->namespaces != (in->args->degraded ? 0 : PLAN_NAMESPACES))
                r = err_set(e, EINVAL, "launch plan: made for other namespaces");
        if (r == 0 && !in->args->degraded && !same_network(in->plan, &in->network))
                r = err_set(e, EINVAL, "launch plan: made for another network");
        if (r == 0 && in->plan->publish.n != in->n_published)
                r = err_set(e, EBADMSG, "launch plan: %zu published ports and %zu sockets", in->plan->publish.n,
                            in->n_published);
        return r;
}

static int make_network(struct init *in, struct err *e) {
        int kind = 0;
        size_t none = 0;
        int r = await(in, SANDBOX_NETWORK, &kind, NULL, 0, &none, e);
        if (r == 0 && plan_fill_network(&in->network, kind & SANDBOX_NETWORK_CAPTURED, kind & SANDBOX_NETWORK_IPV6) < 0)
                r = err_set(e, ENOMEM, "out of memory");
        if (r == 0)
                r = apply_network(&in->network, &in->silent, e);
        if (r == 0)
                apply_ping(in->args->ids ? in->args->ids->inner_gid : in->args->gid);
        return r < 0 ? r : apply_listeners(&in->network, in->listeners, &in->n_listeners, e);
}

/* The maps are written from outside. */
static int await_identity(const struct init *in, struct err *e) {
        size_t none = 0;

        return await(in, SANDBOX_IDENTITY, NULL, NULL, 0, &none, e);
}

/* Before the plan: what every sandbox has. */
static int separate(struct init *in, struct err *e) {
        if (confine_exec(e) < 0)
                return -e->code;
        if (in->args->degraded) { /* descendants whose parent ended come to init, as they would to process 1 */
                if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                        return err_errno(e, "processes: subreaper");
                watcher_prepare(&in->watcher);
                return 0;
        }
        int r = in->args->ids ? await_identity(in, e) : apply_identity(in->args->uid, in->args->gid, e);
        if (r == 0 && unshare(CLONE_NEWNET) < 0)
                r = err_errno(e, "network: namespace");
        return r < 0 ? r : make_network(in, e);
}

/* They are the supervisor's from now on. */
static int hand_over_listeners(struct init *in, struct err *e) {
        struct sandbox_event m = { .kind = SANDBOX_MOUNTED };
        int r = apply_listeners(in->plan, in->listeners, &in->n_listeners, e);
        if (r < 0)
                return r;
        m.value = (int32_t)in->n_listeners;
        if (in->silent)
                snprintf(m.text, sizeof m.text, "%s", SANDBOX_SILENT);
        r = fd_send(in->args->control, str_n(&m, in->silent ? sizeof m : offsetof(struct sandbox_event, text)),
                    in->listeners, in->n_listeners);
        for (size_t i = 0; i < in->n_listeners; i++)
                close_fd(&in->listeners[i]);
        return r < 0 ? err_set(e, -r, "network: hand over listeners: %s", strerror(-r)) : 0;
}

static int set_up(struct init *in, struct err *e) {
        struct plan *p = in->plan;
        int r = 0;
        if (!in->args->degraded) {
                limit_processes_of_root(p);
                limit_watchers();
                stdio_take(&in->stdio);
                r = apply_mounts(p, e);
                if (r == 0)
                        r = stdio_place(&in->stdio, e);
                if (r == 0)
                        r = hand_over_listeners(in, e);
                if (r == 0)
                        r = apply_hostname(p, e);
        }
        if (r == 0 && in->args->ids)
                r = identity_become(in->args->ids, e);
        /* Nobody looks into init: not through /proc, not with ptrace. */
        if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                r = err_errno(e, "privileges: not dumpable");
        if (r == 0)
                r = confine_capabilities(broker_capabilities(p), e);
        return r == 0 && !broker_filter_has_main(p) ? confine_syscalls(p, CONFINE_THREAD, e) : r;
}

/* The supervisor gets one end, the broker the other: init is not in between. */
static int open_events(const struct init *in, int *ret_fd, struct err *e) {
        int ends[2];
        if (!(in->plan->flags & PLAN_BROKER))
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_errno(e, "broker: socket");
        struct sandbox_event m = { .kind = SANDBOX_EVENTS };
        int r = fd_send(in->args->control, str_n(&m, offsetof(struct sandbox_event, text)), &ends[0], 1);
        close(ends[0]);
        if (r < 0) {
                close(ends[1]);
                return err_set(e, -r, "broker: hand over its socket: %s", strerror(-r));
        }
        *ret_fd = ends[1];
        return 0;
}

/* What init still had for the broker's sake, and the keeper with it. */
static int give_up_the_rest(const struct init *in, struct err *e) {
        int r = broker_capabilities(in->plan) ? confine_capabilities(0, e) : 0;
        return r == 0 && broker_filter_has_main(in->plan) ? confine_syscalls(in->plan, CONFINE_PROCESS, e) : r;
}

static int start_command(struct init *in, struct err *e) {
        struct command c = { .plan = in->plan,
                             .terminal = in->args->foreground ? in->args->terminal : -1,
                             .mask = in->args->mask,
                             .landlock = -1,
                             .landlock_own = -1,
                             .kept =
                                 (in->plan->flags & (PLAN_SOCKETS | PLAN_WRITES)) && !(in->plan->flags & PLAN_BROKER),
                             .notify = -1,
                             .events = -1,
                             .record = -1,
                             .watcher = -1 };
        int r = confine_landlock(in->plan, &c.landlock, e);
        if (r == 0)
                r = confine_landlock_own(in->plan, &c.landlock_own, e);
        if (r == 0)
                r = open_events(in, &c.events, e);
        if (r < 0)
                return r;
        size_t n_locks = 0;
        r = await(in, SANDBOX_GO, NULL, &in->lock, 1, &n_locks, e);
        if (r == 0) /* now that init may run on every processor: the relay stays on those that it starts with */
                r = publish_start(in->plan, in->published, in->n_published, e);
        if (r < 0)
                return r;
        c.record = in->lock;
        in->watcher.plan = in->plan;
        if (in->plan->flags & PLAN_WATCHED)
                r = watcher_start(&in->watcher, in->args->control, &c.watcher, e);
        if (r < 0)
                return r;
        in->command = c.kept ? keeper_start_command(&c, in->args->control) : command_start(&c);
        close_fd(&c.landlock);
        close_fd(&c.landlock_own);
        close_fd(&c.events);
        close_fd(&c.watcher);
        if (in->command < 0)
                return err_set(e, -in->command, "start the command: %s", strerror(-in->command));
        if (c.error == 0)
                return give_up_the_rest(in, e);
        if (c.not_run) {
                report(in->args->control, SANDBOX_NOT_RUN, c.error, c.text);
                _exit(c.error == ENOENT || c.error == ENOTDIR ? 127 : 126);
        }
        return err_set(e, c.error, "%s", c.text);
}

/* Everything that has died. True when the command was among it. */
static bool reap(struct init *in, int *ret_status) {
        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
                if (pid <= 0)
                        return false;
                if (pid != in->command)
                        continue;
                if (WIFSTOPPED(status)) {
                        report(in->args->control, SANDBOX_STOPPED, WSTOPSIG(status), NULL);
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

_Noreturn static void orphaned(struct init *in) {
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
        struct sandbox_event m;
        size_t n_fds = 0;
        ssize_t got = fd_receive(in->args->control, &m, sizeof m, NULL, 0, &n_fds);
        if (got == -EAGAIN)
                return;
        if (got < (ssize_t)offsetof(struct sandbox_event, text))
                orphaned(in);
        if (m.kind == SANDBOX_SIGNAL && m.value > 0 && m.value < NSIG)
                kill(-in->command, m.value);
        else if (m.kind == SANDBOX_FOREGROUND && in->args->terminal >= 0)
                (void)tcsetpgrp(in->args->terminal, in->command); /* gone terminals are found out by the command */
        else if (m.kind == SANDBOX_FREEZE) /* without namespaces -1 would mean every process of this user */
                report(in->args->control, SANDBOX_FROZEN, in->args->degraded ? EOPNOTSUPP : -freeze_begin(&in->freeze),
                       NULL);
        else if (m.kind == SANDBOX_THAW)
                freeze_end(&in->freeze);
        else
                orphaned(in);
}

_Noreturn static void loop(struct init *in) {
        struct pollfd polls[] = { { .fd = in->args->control, .events = POLLIN },
                                  { .fd = in->signals, .events = POLLIN } };
        for (;;) {
                int status;
                if (reap(in, &status)) {
                        kill_everything(in);
                        stdio_carry_over(&in->stdio);
                        report(in->args->control, SANDBOX_EXITED, status, NULL);
                        _exit(0);
                }
                if (poll(polls, 2, -1) < 0 && errno != EINTR)
                        orphaned(in);
                if (polls[0].revents)
                        from_supervisor(in);
                if (polls[1].revents) {
                        struct signalfd_siginfo info;
                        if (read(in->signals, &info, sizeof info) < 0 && errno != EAGAIN && errno != EINTR)
                                orphaned(in);
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
        struct err e = { 0 };
        sigset_t all, child;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, "bailey-init", 0, 0, 0);
        /* A signal for the supervisor's group is not for init: whoever of the two is left cleans up. */
        (void)setpgid(0, 0);
        forget_environment();
        int r = separate(&in, &e);
        if (r == 0)
                r = receive_plan(&in, &e);
        if (r == 0)
                r = set_up(&in, &e);
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        if (r == 0) {
                in.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
                if (in.signals < 0)
                        r = err_errno(&e, "signals");
        }
        if (r == 0)
                r = start_command(&in, &e);
        if (r < 0)
                give_up(args, &e);
        loop(&in);
}
