/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/join.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/linux/step.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int join_find(pid_t pid, const char *program, int *ret_proc, struct err *err) {
        char path[32];
        struct stat runs, wanted;

        snprintf(path, sizeof path, "/proc/%d", (int)pid);
        cleanup(close_fd) int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0)
                return err_errno(err, "cannot open %s: is the container on this machine, in this process namespace?",
                                 path);

        if (fstatat(proc, "exe", &runs, 0) < 0 || stat(program, &wanted) < 0)
                return err_errno(err, "cannot examine process %d", (int)pid);
        if (runs.st_dev != wanted.st_dev || runs.st_ino != wanted.st_ino)
                return err_set(err, EPROTO, "process %d is not the container's: it executes something else", (int)pid);

        *ret_proc = take_fd(&proc);
        return 0;
}

static bool same_namespace(int fd, const char *own) {
        struct stat a, b;
        return fstat(fd, &a) == 0 && stat(own, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int join_enter(int proc, struct err *err) {
        cleanup(close_fd) int user = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC),
                              net = openat(proc, "ns/net", O_RDONLY | O_CLOEXEC);
        if (user < 0 || net < 0)
                return err_errno(err, "cannot open the container's namespaces");
        if (same_namespace(net, "/proc/self/ns/net"))
                return err_set(err, EPERM, "the container has this host's own network");
        if (!same_namespace(user, "/proc/self/ns/user") && setns(user, CLONE_NEWUSER) < 0)
                return err_errno(err, "cannot enter the container's user namespace");

        if (setns(net, CLONE_NEWNET) < 0)
                return err_errno(err,
                                 "cannot enter the container's network (as an ordinary user this works with an engine "
                                 "that runs without root)");

        return 0;
}

/* Engines turn IPv6 off in a namespace without a network: then there is nothing of it to capture. The file is that of
 * the namespace which this process is in. */
static bool has_ipv6(void) {
        cleanup(close_fd) int fd = open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", O_RDONLY | O_CLOEXEC);
        char c = '1';
        return fd >= 0 && read(fd, &c, 1) == 1 && c == '0';
}

static void drop_ipv6(struct plan *plan) {
        size_t n = 0;
        plan->routes_v6 = (struct str){ 0 };
        for (size_t i = 0; i < plan->listeners.n; i++)
                if (!plan->listeners.p[i].v6)
                        plan->listeners.p[n++] = plan->listeners.p[i];
        plan->listeners.n = n;
}

/* What the child says: an error, or nothing and the sockets. */
struct told {
        struct err e;
        bool ipv6, silent;
};

static _Noreturn void join_work(int proc, struct plan *plan, int to) {
        struct told told = { 0 };
        int fds[PLAN_LISTENERS_MAX];
        size_t n = 0;
        int r = join_enter(proc, &told.e);

        told.ipv6 = r == 0 && has_ipv6();
        if (!told.ipv6)
                drop_ipv6(plan);

        if (r >= 0)
                r = apply_network(plan, &told.silent, &told.e);
        if (r >= 0)
                r = apply_listeners(plan, fds, &n, &told.e);
        r = fd_send(to, str_n(&told, sizeof told), fds, r < 0 ? 0 : n);
        _exit(r < 0);
}

int join_network(int proc, struct plan *plan, int ret_fds[static PLAN_LISTENERS_MAX], size_t *ret_n, struct err *err) {
        int ends[2], status;
        struct told told;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(err, "cannot make a socket");

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");
        if (pid == 0)
                join_work(proc, plan, its);

        close_fd(&its);
        ssize_t got = fd_receive(ours, &told, sizeof told, ret_fds, PLAN_LISTENERS_MAX, ret_n);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (got != (ssize_t)sizeof told)
                return err_set(err, EPROTO, "the process that enters the container's network ended early");

        told.e.text[sizeof told.e.text - 1] = '\0';
        if (told.e.code)
                return err_set(err, told.e.code, "%s", told.e.text);
        if (!told.ipv6)
                drop_ipv6(plan);
        if (told.silent)
                log_notice("%s", SANDBOX_SILENT);

        if (*ret_n != plan->listeners.n)
                return err_set(err, EPROTO, "listeners of the container's network are missing");

        return 0;
}
