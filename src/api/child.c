/* SPDX-License-Identifier: Apache-2.0 */
#include "api/child.h"

#include "api/api_os.h"
#include "api/api_report.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/supervise_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sources are moved above every target, so that no move overwrites another; a program may have closed 0, 1 or 2. */
enum { LIFTED = 16, TARGETS = SUPERVISE_FD_REQUEST + 1 };

static int child_lift(int *fd) {
        if (*fd < 0 || *fd >= LIFTED)
                return 0;

        int up = fcntl(*fd, F_DUPFD_CLOEXEC, LIFTED);
        if (up < 0)
                return -errno;

        close(*fd);
        *fd = up;

        return 0;
}

struct ends {
        int ours[3]; /* out, err, link */
        int theirs[TARGETS];
};

static void ends_done(struct ends *ends) {
        for (size_t i = 0; i < 3; i++)
                close_fd(&ends->ours[i]);
        for (size_t i = 0; i < TARGETS; i++)
                close_fd(&ends->theirs[i]);
}

static int open_output(const struct child_plan *plan, int *ours, int *theirs) {
        int both[2];

        if (!plan->capture) {
                *theirs = open("/dev/null", O_WRONLY | O_CLOEXEC);
                if (*theirs < 0)
                        return -errno;

                return 0;
        }

        if (pipe2(both, O_CLOEXEC) < 0)
                return -errno;

        *ours = both[0];
        *theirs = both[1];

        return fd_set_nonblocking(*ours, true);
}

/* Takes both ends of `link`. */
static int open_link(const struct child_plan *plan, int link[static 2], struct ends *ends) {
        ends->ours[2] = link[0];
        ends->theirs[SUPERVISE_FD_LINK] = link[1];
        link[0] = link[1] = -1;
        if (!plan->block)
                return 0;

        int r = fd_set_nonblocking(ends->ours[2], true);
        if (r < 0)
                return r;

        return fd_sealed("bailey-request", str_of(plan->block), &ends->theirs[SUPERVISE_FD_REQUEST], NULL);
}

static int open_ends(const struct child_plan *plan, int link[static 2], struct ends *ends) {
        int r = open_link(plan, link, ends);
        if (r < 0)
                return r;

        r = open_output(plan, &ends->ours[0], &ends->theirs[1]);
        if (r < 0)
                return r;

        r = open_output(plan, &ends->ours[1], &ends->theirs[2]);
        if (r < 0)
                return r;

        ends->theirs[0] =
            plan->input >= 0 ? fcntl(plan->input, F_DUPFD_CLOEXEC, LIFTED) : open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (ends->theirs[0] < 0)
                return -errno;

        for (size_t i = 0; r == 0 && i < 3; i++)
                r = child_lift(&ends->ours[i]);

        for (size_t i = 0; r == 0 && i < TARGETS; i++)
                r = child_lift(&ends->theirs[i]);

        return r;
}

/* Returns 0 or a positive errno, as these functions do. */
static int add_actions(const struct child_plan *plan, const struct ends *ends, posix_spawn_file_actions_t *actions) {
        int r = 0;
        for (int i = 0; r == 0 && i < TARGETS; i++)
                if (ends->theirs[i] >= 0)
                        r = posix_spawn_file_actions_adddup2(actions, ends->theirs[i], i);
        if (r == 0 && plan->directory)
                r = posix_spawn_file_actions_addchdir_np(actions, plan->directory);
        return r;
}

static int set_attributes(posix_spawnattr_t *attributes) {
        sigset_t all, none;

        sigfillset(&all);
        sigemptyset(&none);
        int r = posix_spawnattr_setsigdefault(attributes, &all);
        if (!r)
                r = posix_spawnattr_setsigmask(attributes, &none);

        if (r)
                return r;

        return posix_spawnattr_setflags(attributes,
                                        POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
}

static int child_spawn(const struct child_plan *plan, const struct ends *ends, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int r = posix_spawn_file_actions_init(&actions);
        if (r)
                return r;

        r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                r = add_actions(plan, ends, &actions);
                if (!r)
                        r = set_attributes(&attributes);
                if (r == 0)
                        r = (plan->search ? posix_spawnp : posix_spawn)(ret, plan->path, &actions, &attributes,
                                                                        plan->argv, plan->envp);

                posix_spawnattr_destroy(&attributes);
        }

        posix_spawn_file_actions_destroy(&actions);
        return r;
}

int child_start(const struct child_plan *plan, struct child *ret, int *ret_errno, struct bailey_error *error) {
        cleanup(ends_done) struct ends ends = { { -1, -1, -1 }, { -1, -1, -1, -1, -1 } };
        int link[2] = { -1, -1 };
        int r = plan->block ? fd_pair_blocking(link) : 0;
        if (r < 0)
                return report(error, BAILEY_E_SYSTEM, "cannot make a channel to bailey: %s", strerror(-r));

        r = open_ends(plan, link, &ends);
        if (r < 0)
                return report(error, BAILEY_E_SYSTEM, "cannot prepare descriptors for a command: %s", strerror(-r));

        struct child child = CHILD_NONE;
        r = child_spawn(plan, &ends, &child.pid);
        if (ret_errno)
                *ret_errno = r;
        if (r)
                return report(error, BAILEY_E_SYSTEM, "cannot start %s: %s", plan->path, strerror(r));

        child.pidfd = api_child_watch(child.pid);
        child.out = take_fd(&ends.ours[0]);
        child.err = take_fd(&ends.ours[1]);
        child.link = take_fd(&ends.ours[2]);
        *ret = child;

        return BAILEY_OK;
}

void child_kill(struct child *child, bool whole_session) {
        if (child->pid <= 0)
                return;

        /* Not waited for yet. Where another part of the program may have done that, only the descriptor is sure. */
        if (whole_session && kill(-child->pid, SIGKILL) == 0)
                return;

        api_child_kill(child->pidfd, child->pid);
}

static bool is_gone(const struct child *child, unsigned milliseconds) {
        struct pollfd fd = { .fd = child->pidfd, .events = POLLIN };
        uint64_t end = clock_ns() + milliseconds * NS_PER_MS;

        for (;;) {
                uint64_t now = clock_ns();
                int left = now < end ? (int)((end - now) / NS_PER_MS) + 1 : 0;
                int r = poll(&fd, 1, left);
                if (r > 0 || (r < 0 && errno != EINTR))
                        return true;
                if (left == 0)
                        return false;
        }
}

int child_wait(struct child *child, unsigned milliseconds) {
        int status = 0;
        pid_t got;

        if (child->pid <= 0)
                return -1;
        if (child->pidfd >= 0 && !is_gone(child, milliseconds))
                child_kill(child, false);

        do
                got = waitpid(child->pid, &status, 0);
        while (got < 0 && errno == EINTR);

        child->pid = 0;
        if (got < 0)
                return -1;

        return status;
}

void child_done(struct child *child) {
        close_fd(&child->pidfd);
        close_fd(&child->link);
        close_fd(&child->out);
        close_fd(&child->err);
}
