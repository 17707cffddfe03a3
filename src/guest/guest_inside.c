/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_inside.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/identity.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child says: first that its namespace is there, then how the work ended. */
struct said {
        int result;
        struct err err;
};

struct inside {
        pid_t parent;
        const struct guest *guest;
        bool alone;
        guest_work *work;
        void *arg;
};

static int inside_become(bool alone, struct err *err) {
        if (setgroups(0, NULL) < 0)
                return err_errno(err, "cannot leave the groups of the host");
        if (alone && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
                return err_errno(err, "cannot become the guest");
        return 0;
}

/* A change of identity takes the wish back, so it is said again. Who was killed meanwhile is not missed. */
static void inside_end_with(pid_t parent) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
}

static _Noreturn void inside_main(const struct inside *in, int parent) {
        struct said said = { 0 };
        char go;

        inside_end_with(in->parent);
        if (in->guest->lock >= 0) /* the command holds it; it must be free when that is killed */
                (void)close(in->guest->lock);

        if (in->guest->kind != GUEST_OWN) {
                if (unshare(CLONE_NEWUSER) < 0)
                        said.result = err_errno(&said.err, "cannot make a user namespace");
                if (fd_write_all(parent, &said, sizeof said) < 0 || said.result < 0 ||
                    fd_read_exact(parent, &go, 1) < 0)
                        _exit(1);
                said.result = inside_become(in->alone, &said.err);
                inside_end_with(in->parent);
        }

        if (said.result == 0)
                said.result = in->work(in->arg, &said.err);

        _exit(fd_write_all(parent, &said, sizeof said) < 0);
}

static int inside_result(int child, struct err *err) {
        struct said said;

        if (fd_read_exact(child, &said, sizeof said) < 0)
                return err_set(err, ECHILD, "the process that works on the guest's files ended early");

        said.err.text[sizeof said.err.text - 1] = '\0';
        if (said.result < 0)
                return err_set(err, -said.result, "%s", err_text(&said.err));

        return 0;
}

static int inside_supervise(const struct inside *in, pid_t pid, int child, struct err *err) {
        struct sandbox_ids ids = in->guest->ids;
        int r;

        if (in->alone)
                ids.inner_uid = ids.inner_gid = 0;

        if (in->guest->kind != GUEST_OWN) {
                r = inside_result(child, err);
                if (r < 0)
                        return r;

                r = identity_map(pid, &ids, err);
                if (r < 0)
                        return r;

                r = fd_write_all(child, "g", 1);
                if (r < 0)
                        return err_set(err, -r, "the process that works on the guest's files is gone");
        }

        return inside_result(child, err);
}

static int inside_run(const struct inside *in, struct err *err) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(err, "cannot make a socket");

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");

        if (pid == 0) {
                close_fd(&ours);
                inside_main(in, its);
        }

        close_fd(&its);
        int r = inside_supervise(in, pid, ours, err);
        if (r < 0)
                (void)kill(pid, SIGKILL); /* it may wait for a word that does not come */

        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;

        return r;
}

int guest_inside(const struct guest *guest, guest_work *work, void *arg, struct err *err) {
        const struct inside in = { .parent = getpid(), .guest = guest, .work = work, .arg = arg };

        return inside_run(&in, err);
}

int guest_inside_alone(const struct guest *guest, guest_work *work, void *arg, struct err *err) {
        const struct inside in = { .parent = getpid(), .guest = guest, .alone = true, .work = work, .arg = arg };

        return inside_run(&in, err);
}
