/* SPDX-License-Identifier: Apache-2.0 */
/* From the command's process to a broker that serves it: its own process, what it keeps, what it gives up. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "plan/plan.h"
#include "sandbox/linux/broker.h"
#include "sandbox/linux/broker_marks.h"
#include "sandbox/linux/closed.h"
#include "sandbox/linux/fresh.h"
#include "sandbox/linux/repos.h"
#include "sandbox/linux/shared.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_FIRST = 3, FD_EVENTS, FD_RECORD };

/* Nothing of init's or the command's descriptors stays, and no signal but SIGKILL reaches it (init blocks them all).
 * Without a record its place is /dev/null's. */
static int settle_descriptors(int first, int events, int record) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        const int from[] = { null, null, null, first, events, record >= 0 ? record : null };
        int high[sizeof from / sizeof *from];

        for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
                high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
                if (high[i] < 0)
                        return -errno;
        }
        for (int fd = 0; fd <= FD_RECORD; fd++)
                if (dup3(high[fd], fd, fd < FD_FIRST ? 0 : O_CLOEXEC) < 0)
                        return -errno;
        return fd_close_from(FD_RECORD + 1);
}

static struct path_rules *rules_of(const struct plan *p) {
        struct path_rules *rules = NULL;
        cleanup(free_ptr) struct path_rule *list = calloc(p->path_rules.n + 1, sizeof *list);
        for (size_t i = 0; list && i < p->path_rules.n; i++) {
                const struct plan_path_rule *from = &p->path_rules.p[i];
                list[i] = (struct path_rule){
                        .pattern = from->pattern,
                        .origin = from->origin,
                        .decides_read = from->decides_read,
                        .grants = from->grants,
                        .built_in = from->built_in,
                        .protected = from->protected,
                        .late = from->late,
                        .own = from->own,
                };
        }
        return list && path_rules_restore(list, p->path_rules.n, p->reads_open, &rules, NULL) == 0 ? rules : NULL;
}

/* Files of listening sockets are held open, as many as may be. */
static void raise_descriptor_limit(void) {
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static int become_broker(int first, int events, int record) {
        prctl(PR_SET_NAME, "bailey-broker", 0, 0, 0);
        if (setpgid(0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        raise_descriptor_limit();
        (void)signal(SIGXFSZ, SIG_IGN); /* a record that cannot grow is an error, and what it was for is refused */
        return settle_descriptors(first, events, record);
}

static int prepare_judging(const struct plan *p, struct broker *b) {
        int r = closed_new(p, &b->closed);

        if (r == 0)
                r = repos_new(p, FD_RECORD, &b->repos);
        if (r == 0)
                r = fresh_new(&b->fresh);
        return r < 0 ? r : shared_new(p, &b->shared);
}

_Noreturn static void serve(const struct plan *p, int notify, const struct seccomp_notif *first) {
        struct broker b = {
                .rules = rules_of(p),
                .notify_fd = notify,
                .events_fd = FD_EVENTS,
                .report_refused = p->flags & PLAN_TRACE,
                .report_all = p->flags & PLAN_OBSERVE,
                .sockets = p->sockets.p,
                .n_sockets = p->sockets.n,
                .judges_modes = broker_filter_of(p).modes,
                .native = (p->flags & PLAN_NATIVE) && !(p->flags & PLAN_BROKER),
        };
        if (!b.rules || marks_new(p, &b.marks) < 0 || ((p->flags & PLAN_WRITES) && prepare_judging(p, &b) < 0))
                _exit(1);
        _exit(broker_serve(&b, first) < 0);
}

_Noreturn void broker_main(const struct plan *p, int notify_fd, int events_fd, int record_fd,
                           const struct seccomp_notif *first) {
        if (become_broker(notify_fd, events_fd, record_fd) < 0 || confine_syscalls(p, CONFINE_THREAD, NULL) < 0)
                _exit(1);
        serve(p, FD_FIRST, first);
}

/* Before the filter, so that it is not under it: the notify descriptor comes when there is one. */
_Noreturn static void broker_early(const struct plan *p, int channel, int events, int record) {
        int notify = -1;
        size_t n = 0;
        char byte;
        if (become_broker(channel, events, record) < 0)
                _exit(1);
        /* The process it came from may have no filter yet: the broker takes the plain one. */
        if (broker_filter_has_main(p) && confine_syscalls(p, CONFINE_THREAD, NULL) < 0)
                _exit(1);
        if (fd_receive(FD_FIRST, &byte, 1, &notify, 1, &n) != 1 || n != 1)
                _exit(1);
        close(FD_FIRST);
        serve(p, notify, NULL);
}

/* Two forks, so that the command has no child it does not know of: init adopts the broker. */
static int fork_broker(const struct plan *p, int channel, int events, int record, struct err *e) {
        pid_t between = fork();
        if (between < 0)
                return err_errno(e, "broker: fork");
        if (between == 0) {
                pid_t pid = fork();
                if (pid == 0)
                        broker_early(p, channel, events, record);
                _exit(pid < 0);
        }
        int status = 1;
        while (waitpid(between, &status, 0) < 0 && errno == EINTR)
                ;
        return status == 0 ? 0 : err_set(e, EAGAIN, "broker: cannot start it");
}

int broker_start(const struct plan *p, int events_fd, int record_fd, struct err *e) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(e, "broker: socket");
        cleanup(close_fd) int ours = ends[0];
        cleanup(close_fd) int theirs = ends[1];
        int r = fork_broker(p, theirs, events_fd, record_fd, e);
        if (r < 0)
                return r;
        struct broker_filter filter = broker_filter_of(p);
        cleanup(close_fd) int notify = -1;
        r = broker_filter_load(&filter, &notify, e);
        if (r < 0)
                return r;
        r = fd_send(ours, STR("n"), &notify, 1);
        if (r < 0)
                return err_set(e, -r, "broker: hand over the filter: %s", strerror(-r));
        return confine_capabilities(0, e);
}
