/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the broker from the command's process: its own process, the descriptors it keeps, the rights it drops. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/confine.h"
#include "plan/plan.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/broker/broker_marks.h"
#include "sandbox/linux/broker/broker_named.h"
#include "sandbox/linux/broker/broker_talk.h"
#include "sandbox/linux/broker/closed.h"
#include "sandbox/linux/broker/made/repos.h"
#include "sandbox/linux/broker/made/settings.h"
#include "sandbox/linux/broker/shared.h"
#include "sandbox/linux/fresh.h"
#include "sandbox/linux/step.h"
#include "sandbox/named.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_FIRST = 3, FD_EVENTS, FD_RECORD };

/* In a build with a sanitizer its reports go where the command's errors go, and faults reach its handlers: otherwise
 * nobody would see what it found here. */
static int broker_errors(int null) {
        sigset_t faults;

        if (!SANITIZED || fcntl(STDERR_FILENO, F_GETFD) < 0)
                return null;

        sigemptyset(&faults);
        sigaddset(&faults, SIGSEGV);
        sigaddset(&faults, SIGBUS);
        sigaddset(&faults, SIGFPE);
        sigaddset(&faults, SIGILL);
        sigaddset(&faults, SIGABRT);
        sigprocmask(SIG_UNBLOCK, &faults, NULL);
        return STDERR_FILENO;
}

/* Nothing of init's or the command's descriptors stays, and no signal but SIGKILL reaches it (init blocks them all).
 * Without a record its place is /dev/null's. */
static int settle_descriptors(int first, int events, int record) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        const int from[] = { null, null, broker_errors(null), first, events, record >= 0 ? record : null };
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

static struct path_rules *rules_of(const struct plan *plan) {
        struct path_rules *rules = NULL;
        cleanup(free_ptr) struct path_rule *list = calloc(plan->path_rules.n + 1, sizeof *list);
        for (size_t i = 0; list && i < plan->path_rules.n; i++) {
                const struct plan_path_rule *from = &plan->path_rules.p[i];
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

        return list && path_rules_restore(list, plan->path_rules.n, plan->reads_open, &rules, NULL) == 0 ? rules : NULL;
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

static int prepare_judging(const struct plan *plan, uint64_t began_ns, struct broker *broker) {
        int r = closed_new(plan, &broker->closed);

        if (r == 0)
                r = notes_new(FD_RECORD, &broker->notes);
        if (r == 0)
                r = repos_new(plan, broker->notes, &broker->repos);
        if (r == 0)
                r = settings_new(plan, broker->notes, &broker->settings);
        if (r == 0)
                r = fresh_new(&broker->fresh);
        if (r == 0)
                r = news_new(began_ns + NAMED_BEGIN_NS, &broker->news);
        if (r < 0)
                return r;

        return shared_new(plan, &broker->shared);
}

_Noreturn static void start_serve(const struct plan *plan, int notify, uint64_t began_ns,
                                  const struct seccomp_notif *first) {
        struct broker broker = {
                .rules = rules_of(plan),
                .notify_fd = notify,
                .stir_fd = eventfd(0, EFD_CLOEXEC),
                .events_fd = FD_EVENTS,
                .report_refused = plan->flags & PLAN_TRACE,
                .report_all = plan->flags & PLAN_OBSERVE,
                .sockets = plan->sockets.p,
                .n_sockets = plan->sockets.n,
                .asks = plan->asks.n ? plan : NULL,
                .programs = plan_has_programs(plan),
                .judges_modes = broker_filter_of(plan).modes,
                .native = (plan->flags & PLAN_NATIVE) && !(plan->flags & PLAN_BROKER),
        };
        if (!broker.rules || marks_new(plan, &broker.marks) < 0 ||
            ((plan->flags & PLAN_WRITES) && prepare_judging(plan, began_ns, &broker) < 0) ||
            ((broker.marks || broker.asks || broker.news) && talk_new(FD_EVENTS, &broker.talk) < 0))
                _exit(1);

        _exit(broker_serve(&broker, first) < 0);
}

_Noreturn void broker_main(const struct plan *plan, int notify_fd, int events_fd, int record_fd, uint64_t began_ns,
                           const struct seccomp_notif *first) {
        if (become_broker(notify_fd, events_fd, record_fd) < 0 || confine_syscalls(plan, CONFINE_THREAD, NULL) < 0)
                _exit(1);
        start_serve(plan, FD_FIRST, began_ns, first);
}

/* Before the filter, so that it is not under it: the notify descriptor comes when there is one. */
_Noreturn static void broker_early(const struct plan *plan, int channel, int events, int record) {
        int notify = -1;
        size_t n = 0;
        char byte;

        if (become_broker(channel, events, record) < 0)
                _exit(1);

        /* The process it came from may have no filter yet: the broker takes the plain one. */
        if (broker_filter_has_main(plan) && confine_syscalls(plan, CONFINE_THREAD, NULL) < 0)
                _exit(1);
        if (fd_receive(FD_FIRST, &byte, 1, &notify, 1, &n) != 1 || n != 1)
                _exit(1);

        close(FD_FIRST);
        start_serve(plan, notify, clock_ns(), NULL);
}

/* Two forks, so that the command has no child it does not know of: init adopts the broker. */
static int fork_broker(const struct plan *plan, int channel, int events, int record, struct err *err) {
        pid_t between = fork();
        if (between < 0)
                return err_errno(err, "broker: fork");

        if (between == 0) {
                pid_t pid = fork();
                if (pid == 0)
                        broker_early(plan, channel, events, record);
                _exit(pid < 0);
        }

        int status = 1;
        while (waitpid(between, &status, 0) < 0 && errno == EINTR)
                ;

        if (status != 0)
                return err_set(err, EAGAIN, "broker: cannot start it");

        return 0;
}

int broker_start(const struct plan *plan, int events_fd, int record_fd, struct err *err) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(err, "broker: socket");

        cleanup(close_fd) int ours = ends[0];
        cleanup(close_fd) int theirs = ends[1];
        int r = fork_broker(plan, theirs, events_fd, record_fd, err);
        if (r < 0)
                return r;

        struct broker_filter filter = broker_filter_of(plan);
        cleanup(close_fd) int notify = -1;
        r = broker_filter_load(&filter, &notify, err);
        if (r < 0)
                return r;

        r = fd_send(ours, STR("n"), &notify, 1);
        if (r < 0)
                return err_set(err, -r, "broker: hand over the filter: %s", strerror(-r));

        return confine_capabilities(0, err);
}
