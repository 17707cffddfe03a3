/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side: one clone with the namespaces, and one socket to init, on which the plan goes too. Init runs
 * from the supervisor's own image, without another exec. The network namespace is the slow one; init makes it for
 * itself and fills it, while the supervisor reads the policy and makes the plan.
 *
 * Two processors share that work only if init is on another one. A kernel may leave a new process beside its parent
 * until that one sleeps, though another processor has nothing to do; virtual machines are often set so. Init is
 * therefore sent away from here, and may run everywhere again before there is a command.
 */
#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "plan/codec.h"
#include "sandbox/linux/identity.h"
#include "sandbox/linux/init.h"
#include "sandbox/linux/scope.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* All namespaces at once. If clone3 is missing (before 5.3), or a container's filter refuses it, the flags fit into
 * clone too. */
static pid_t clone_init(uint32_t namespaces, struct cgroup *group, int *ret_pidfd) {
        int pidfd = -1;
        struct clone_args args = { .flags = (uint64_t)namespaces | CLONE_PIDFD,
                                   .pidfd = (uint64_t)(uintptr_t)&pidfd,
                                   .exit_signal = SIGCHLD };

        if (group->dir >= 0) {
                args.flags |= CLONE_INTO_CGROUP;
                args.cgroup = (uint64_t)group->dir;
        }

        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        if (pid < 0 && group->dir >= 0) { /* before 5.7, or not permitted after all */
                cgroup_remove(group);
                args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
                args.cgroup = 0;
                pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        }

        if (pid < 0 && (errno == ENOSYS || errno == EPERM))
                pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid > 0)
                *ret_pidfd = pidfd;

        if (pid < 0)
                return -errno;

        return pid;
}

/* What is Linux's own in a sandbox. */
struct sandbox_held {
        struct cgroup group;
        cpu_set_t processors; /* where it may run; until the command starts, away from the supervisor */
        bool away;
};

/* There may be no other CPU to choose, or the caller may not set it: then it stays where it is. */
static void send_away(pid_t pid, struct sandbox *sandbox) {
        cpu_set_t others;
        int here = sched_getcpu();
        if (here < 0 || here >= CPU_SETSIZE ||
            sched_getaffinity(0, sizeof sandbox->held->processors, &sandbox->held->processors) < 0)
                return;

        others = sandbox->held->processors;
        CPU_CLR(here, &others);
        sandbox->held->away = CPU_COUNT(&others) > 0 && sched_setaffinity(pid, sizeof others, &others) == 0;
}

/* Try "all CPUs" first. An explicit mask would pin the command for good; if "all" is what the caller has anyway, CPUs
 * added later stay usable. */
static int call_back(struct sandbox *s, struct err *err) {
        cpu_set_t all, now;

        if (!s->held->away)
                return 0;

        memset(&all, 0xff, sizeof all);
        bool same = sched_setaffinity(s->pid, sizeof all, &all) == 0 &&
                    sched_getaffinity(s->pid, sizeof now, &now) == 0 && CPU_EQUAL(&now, &s->held->processors);
        if (!same && sched_setaffinity(s->pid, sizeof s->held->processors, &s->held->processors) < 0 && errno != ESRCH)
                return err_errno(err, "cannot give the command all processors");

        s->held->away = false;
        return 0;
}

static int launch_tell(struct sandbox *sandbox, enum sandbox_event_kind kind, int value, const int *fds, size_t n_fds) {
        struct sandbox_event event = { .kind = kind, .value = value };
        return fd_send(sandbox->control, str_n(&event, offsetof(struct sandbox_event, text)), fds, n_fds);
}

/* From outside: only a process that may use the guest's ids may write the maps. */
static int name_guest(struct sandbox *sandbox, const struct sandbox_ids *ids, struct err *err) {
        int r = identity_map(sandbox->pid, ids, err);

        if (r < 0)
                return r;
        r = launch_tell(sandbox, SANDBOX_IDENTITY, 0, NULL, 0);
        if (r < 0)
                return err_set(err, -r, "cannot tell the sandbox's init who it is: %s", strerror(-r));

        return 0;
}

int sandbox_prepare(const struct sandbox_options *options, struct sandbox *ret, struct err *err) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(err, "cannot make the control socket");

        cleanup(close_fd) int ours = ends[0];
        cleanup(close_fd) int theirs = ends[1];
        int pidfd = -1;

        /* What init leaves behind when it is killed must come to us, to be ended. */
        if (options->degraded && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return err_errno(err, "cannot watch over the sandbox's processes");

        cleanup(free_ptr) struct sandbox_held *held = calloc(1, sizeof *held);
        if (!held)
                return err_memory(err);

        held->group = cgroup_make();
        struct init_args args = { theirs,    options->terminal, options->foreground, options->mask, options->degraded,
                                  geteuid(), getegid(),         held->group,         options->ids };
        pid_t pid = clone_init(options->degraded ? 0 : PLAN_NAMESPACES & ~(unsigned)CLONE_NEWNET, &held->group, &pidfd);
        if (pid == 0) {
                close_fd(&ours);
                init_main(&args);
        }

        if (pid < 0) {
                cgroup_remove(&held->group);
                return err_set(err, -pid, "cannot make the sandbox's namespaces: %s", strerror(-pid));
        }

        *ret = (struct sandbox){
                .pid = pid, .pidfd = pidfd, .control = take_fd(&ours), .events = -1, .held = take_ptr(&held)
        };
        send_away(pid, ret);
        if (!options->ids)
                return 0;

        int r = name_guest(ret, options->ids, err);
        if (r < 0)
                sandbox_finish(ret);

        return r;
}

/* When init is gone already, what it said before tells why: that is read next. */
static int launch_told(int r, const char *what, struct err *err) {
        if (r < 0 && r != -EPIPE && r != -ECONNRESET)
                return err_set(err, -r, "cannot %s: %s", what, strerror(-r));

        return 0;
}

int sandbox_network(struct sandbox *sandbox, bool captured, struct err *err) {
        int kind = 0;
        if (captured)
                kind |= SANDBOX_NETWORK_CAPTURED;
        if (survey_ipv6())
                kind |= SANDBOX_NETWORK_IPV6;

        return launch_told(launch_tell(sandbox, SANDBOX_NETWORK, kind, NULL, 0),
                           "tell the sandbox's init about the network", err);
}

/* Behind the message that says how long it is. What a socket takes at once is a setting of the host. */
static int send_plan(struct sandbox *sandbox, struct str bytes, const int *published, size_t n_published) {
        size_t most = SANDBOX_PIECE;
        int r = launch_tell(sandbox, SANDBOX_PLAN, (int)bytes.n, published, n_published);
        while (r == 0 && bytes.n) {
                struct str piece = str_first(bytes, min_of(bytes.n, most));

                r = fd_send(sandbox->control, piece, NULL, 0);
                if (r == 0)
                        bytes = str_skip(bytes, piece.n);
                else if (r == -EMSGSIZE && most > SANDBOX_PIECE_LEAST) {
                        most /= 2;
                        r = 0;
                }
        }

        return r;
}

int sandbox_plan(struct sandbox *sandbox, const struct plan *plan, const int *published, struct err *err) {
        cleanup(buf_done) struct buf bytes = BUF(PLAN_BYTES_MAX);
        int r = 0;

        if (!(plan->flags & PLAN_SCOPE))
                r = cgroup_limit(&sandbox->held->group, plan, err);
        else if (sandbox->held->group.dir < 0) /* now: what init starts later is in the scope with it */
                (void)scope_join(sandbox->pid, &plan->group, &sandbox->held->group, &sandbox->unlimited);

        if (r == 0)
                r = plan_encode(plan, &bytes, err);
        if (r < 0)
                return r;

        r = send_plan(sandbox, buf_str(&bytes), published, plan->publish.n);
        return launch_told(r, "hand the plan to the sandbox's init", err);
}

int sandbox_go(struct sandbox *sandbox, int lock, struct err *err) {
        int r = call_back(sandbox, err);
        if (r < 0)
                return r;

        return launch_told(launch_tell(sandbox, SANDBOX_GO, 0, &lock, lock >= 0), "start the command", err);
}

/* An event that init cannot have sent ends the sandbox like any other failure of init. */
static size_t event_descriptors(const struct sandbox_event *event) {
        if (event->kind == SANDBOX_MOUNTED)
                return (size_t)event->value;
        if (event->kind == SANDBOX_EVENTS)
                return 1;

        return 0;
}

static int check_event(const struct sandbox_event *event, ssize_t got, size_t n_fds, struct err *err) {
        if ((size_t)got < offsetof(struct sandbox_event, text) || event->kind >= SANDBOX_ENDED)
                return err_set(err, EBADMSG, "the sandbox's init sent something unknown");
        if (n_fds != event_descriptors(event))
                return err_set(err, EBADMSG, "the sandbox's init sent the wrong number of descriptors");
        return 0;
}

int sandbox_receive(struct sandbox *sandbox, struct sandbox_event *ret, struct err *err) {
        struct sandbox_event event = { 0 };
        int fds[PLAN_LISTENERS_MAX];
        size_t n_fds = 0;
        ssize_t got = fd_receive(sandbox->control, &event, sizeof event, fds, PLAN_LISTENERS_MAX, &n_fds);
        if (got == 0) {
                *ret = (struct sandbox_event){ .kind = SANDBOX_ENDED };
                return 0;
        }

        if (got < 0)
                return err_set(err, (int)-got, "cannot read from the sandbox's init: %s", strerror((int)-got));

        int r = check_event(&event, got, n_fds, err);
        if (r < 0 || sandbox->n_listeners + n_fds > PLAN_LISTENERS_MAX) {
                for (size_t i = 0; i < n_fds; i++)
                        close(fds[i]);
                if (r < 0)
                        return r;

                return err_set(err, EBADMSG, "the sandbox's init sent too many listeners");
        }

        if (event.kind == SANDBOX_EVENTS) {
                close_fd(&sandbox->events);
                sandbox->events = fds[0];
        }

        for (size_t i = 0; event.kind == SANDBOX_MOUNTED && i < n_fds; i++)
                sandbox->listeners[sandbox->n_listeners++] = fds[i];

        event.text[sizeof event.text - 1] = '\0';
        *ret = event;

        return 0;
}

int sandbox_signal(struct sandbox *sandbox, int signal_number) {
        return launch_tell(sandbox, SANDBOX_SIGNAL, signal_number, NULL, 0);
}

int sandbox_foreground(struct sandbox *sandbox) {
        return launch_tell(sandbox, SANDBOX_FOREGROUND, 0, NULL, 0);
}

int sandbox_freeze(struct sandbox *sandbox) {
        return launch_tell(sandbox, SANDBOX_FREEZE, 0, NULL, 0);
}

int sandbox_thaw(struct sandbox *sandbox) {
        return launch_tell(sandbox, SANDBOX_THAW, 0, NULL, 0);
}

struct sandbox_met sandbox_limits_met(const struct sandbox *sandbox) {
        return sandbox->held ? cgroup_met(&sandbox->held->group) : (struct sandbox_met){ 0 };
}

void sandbox_finish(struct sandbox *sandbox) {
        for (size_t i = 0; i < sandbox->n_listeners; i++)
                close_fd(&sandbox->listeners[i]);

        sandbox->n_listeners = 0;
        if (sandbox->pid > 0) {
                cgroup_kill(&sandbox->held->group);
                kill(sandbox->pid, SIGKILL); /* our child, not waited for yet: the number is still its own */
                while (waitpid(sandbox->pid, NULL, 0) < 0 && errno == EINTR)
                        ;

                cgroup_remove(&sandbox->held->group);
        }

        sandbox->pid = 0;
        free(sandbox->held);
        sandbox->held = NULL;
        if (sandbox->events > 0)
                close_fd(&sandbox->events);
        if (sandbox->control > 0)
                close_fd(&sandbox->control);
        if (sandbox->pidfd > 0)
                close_fd(&sandbox->pidfd);
}

/* Kills every child that there is now, and says how many. */
static size_t kill_children(const char *children_file) {
        enum { LIST_MAX = 64 << 20 }; /* all pids that a kernel can have */
        cleanup(buf_done) struct buf list = BUF(LIST_MAX);
        cleanup(close_fd) int fd = open(children_file, O_RDONLY | O_CLOEXEC);
        size_t n = 0;

        if (fd < 0 || fd_read_all(fd, &list) < 0)
                return 0;

        struct str rest = buf_str(&list), word;
        while (str_split(&rest, ' ', &word)) {
                uint64_t pid;

                if (!str_to_u64(word, INT_MAX, &pid) || pid == 0)
                        continue;

                kill((pid_t)pid, SIGKILL);
                n++;
        }

        return n;
}

/* A process that forks faster than this kills only makes more children of ours: the loop ends when there is none. */
void sandbox_end_descendants(void) {
        char path[64];

        snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());

        for (int round = 0; round < 1000; round++) {
                if (kill_children(path) == 0 || (waitpid(-1, NULL, 0) < 0 && errno == ECHILD))
                        return;
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
        }
}
