/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/spawn.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn_os.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 3, NOT_STARTED = 127 };

/* Computed before the child begins: it only moves descriptors and executes. */
struct child_plan {
        const struct spawn *spawn;
        int sources[FIRST + SPAWN_FDS_MAX]; /* for 0, 1, ...: all above the last, so that no move overwrites another */
        int n;
        int failure; /* where the child writes its errno; above all others */
        pid_t parent;
};

/* --- in the child: only system calls, the memory is the parent's --- */

static bool child_move_descriptors(const struct child_plan *plan) {
        for (int i = 0; i < plan->n; i++)
                if (plan->sources[i] >= 0 && dup2(plan->sources[i], i) < 0)
                        return false;

        /* Our own descriptors are close-on-exec; this also drops everything else that we inherited. */
        for (int fd = plan->n; fd < plan->failure; fd++)
                close(fd);
        return spawn_close_above(plan->failure);
}

static void child_reset_signals(void) {
        const struct sigaction standard = { .sa_handler = SIG_DFL };
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                sigaction(number, &standard, NULL);

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_run(const struct child_plan *plan) {
        const struct spawn *spawn = plan->spawn;

        if (spawn->flags & SPAWN_WITH_PARENT) {
                spawn_end_with_parent();
                if (getppid() != plan->parent)
                        _exit(NOT_STARTED); /* the parent died before that took hold */
        }
        if (spawn->flags & SPAWN_OWN_SESSION)
                setsid();
        if (spawn->flags & SPAWN_PRIVATE)
                umask(077);

        child_reset_signals();

        bool ready = (spawn->flags & SPAWN_AT_ROOT) == 0 || chdir("/") == 0;
        if (ready && child_move_descriptors(plan))
                execve(spawn->program, spawn->argv, spawn->environment);

        int code = errno;
        (void)!write(plan->failure, &code, sizeof code);
        _exit(NOT_STARTED);
}

/* --- in the parent --- */

/* The process, or a negative errno. */
static pid_t spawn_child(const struct child_plan *plan) {
        sigset_t all, before;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before); /* no handler of ours may run in the shared memory */

        pid_t pid = vfork();
        if (pid == 0)
                child_run(plan);
        if (pid < 0)
                pid = -errno;

        sigprocmask(SIG_SETMASK, &before, NULL);
        return pid;
}

/* Out of the way of the targets, and no higher: the limit of descriptors may be low. */
static int plan_lift(struct child_plan *plan, int fd, int *ret) {
        *ret = fcntl(fd, F_DUPFD_CLOEXEC, plan->n);
        if (*ret < 0)
                return -errno;

        return 0;
}

static int plan_standard(struct child_plan *plan, int target, int given, int null) {
        if (given == SPAWN_KEEP)
                return 0;
        return plan_lift(plan, given == SPAWN_NULL ? null : given, &plan->sources[target]);
}

static int plan_descriptors(struct child_plan *plan, int null) {
        const struct spawn *spawn = plan->spawn;
        const int standard[FIRST] = { spawn->input, spawn->output, spawn->errors };

        for (int i = 0; i < FIRST; i++) {
                int r = plan_standard(plan, i, standard[i], null);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < spawn->n_fds; i++) {
                int r = plan_lift(plan, spawn->fds[i], &plan->sources[FIRST + i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static void plan_done(struct child_plan *plan) {
        for (int i = 0; i < plan->n; i++)
                close_fd(&plan->sources[i]);
        close_fd(&plan->failure);
}

/* Lifts everything, starts the child and closes what was lifted. */
static int spawn_with(struct child_plan *plan, int null, int report, pid_t *ret_pid) {
        int r;

        r = plan_descriptors(plan, null);
        if (r < 0)
                return r;

        /* Last, and so above all others. */
        r = plan_lift(plan, report, &plan->failure);
        if (r < 0)
                return r;
        for (int i = 0; i < plan->n; i++)
                if (plan->sources[i] > plan->failure)
                        return -EMFILE;

        pid_t pid = spawn_child(plan);
        if (pid < 0)
                return (int)pid;

        *ret_pid = pid;
        return 0;
}

int spawn_start(const struct spawn *spawn, pid_t *ret_pid, struct err *err) {
        cleanup(plan_done) struct child_plan plan = { .spawn = spawn, .failure = -1, .parent = getpid() };
        cleanup(close_fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int ends[2], code;
        pid_t pid;

        if (spawn->n_fds > SPAWN_FDS_MAX)
                return err_set(err, EINVAL, "%zu descriptors for %s", spawn->n_fds, spawn->program);
        plan.n = FIRST + (int)spawn->n_fds;
        for (int i = 0; i < plan.n; i++)
                plan.sources[i] = -1;

        if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot prepare the descriptors of %s", spawn->program);
        cleanup(close_fd) int failed = ends[0], report = ends[1];

        int r = spawn_with(&plan, null, report, &pid);
        if (r < 0)
                return err_set(err, -r, "cannot start a process for %s: %s", spawn->program, strerror(-r));

        close_fd(&report);
        close_fd(&plan.failure);
        if (fd_read_exact(failed, &code, sizeof code) == 0) {
                (void)spawn_wait(pid);
                return err_set(err, code, "cannot execute %s: %s", spawn->program, strerror(code));
        }

        *ret_pid = pid;
        return 0;
}

static struct str search_path(char *const *environment) {
        for (char *const *variable = environment; variable && *variable; variable++)
                if (strncmp(*variable, "PATH=", 5) == 0)
                        return str_of(*variable + 5);
        return STR("/usr/local/bin:/usr/bin:/bin");
}

bool spawn_find(const char *name, char *const *environment, char ret[static PATH_MAX]) {
        struct str rest = search_path(environment), part;

        if (strchr(name, '/'))
                return snprintf(ret, PATH_MAX, "%s", name) < PATH_MAX;

        while (str_split(&rest, ':', &part)) {
                int n = snprintf(ret, PATH_MAX, "%.*s/%s", STR_FMT(part), name);
                if (part.n > 0 && part.p[0] == '/' && n < PATH_MAX && access(ret, X_OK) == 0)
                        return true;
        }
        return false;
}

int spawn_wait(pid_t pid) {
        int status = -1;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -1;
        return status;
}
