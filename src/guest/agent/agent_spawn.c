/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/agent/agent_spawn.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

static int spawn_fault(struct agent_child *child, int code, const char *what) {
        snprintf(child->text, sizeof child->text, "%s: %s", what, strerror(code));
        return -code;
}

/* One of the guest's own, so that it has a name inside. */
static int terminal_open(struct agent_child *child, int *ret_inner) {
        const struct agent_request *request = child->request;
        struct winsize size = { .ws_row = request->rows, .ws_col = request->columns };
        cleanup(close_fd) int outer = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

        if (outer < 0 || grantpt(outer) < 0 || unlockpt(outer) < 0)
                return spawn_fault(child, errno, "terminal");

        char name[64];
        if (ptsname_r(outer, name, sizeof name) != 0)
                return spawn_fault(child, errno, "terminal");

        int inner = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (inner < 0)
                return spawn_fault(child, errno, name);

        (void)ioctl(inner, TIOCSWINSZ, &size);
        *ret_inner = inner;
        child->terminal = take_fd(&outer);

        return 0;
}

static void child_environment(const struct agent_request *request) {
        for (size_t i = 0; i < request->environment.n; i++)
                (void)putenv((char *)request->environment.p[i]);
}

/* The guest's processes may be looked into by each other again. A file that may not grow is an error of write(), and
 * no reason to die: a shell in a guest that is to be cleaned goes on. */
static void child_reset(void) {
        struct rlimit largest = { 0 };
        sigset_t none;

        for (int s = 1; s < NSIG; s++)
                if (s != SIGKILL && s != SIGSTOP)
                        (void)signal(s, SIG_DFL);
        if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur != RLIM_INFINITY)
                (void)signal(SIGXFSZ, SIG_IGN);

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

static int child_enter(const struct agent_request *request) {
        const char *home = getenv("HOME");

        if (request->directory[0])
                return chdir(request->directory);
        if (home && chdir(home) == 0)
                return 0;

        return chdir("/");
}

static _Noreturn void child_main(const struct agent_child *child, const int *fds, int word) {
        const struct agent_request *request = child->request;
        cleanup(free_ptr) char *login = NULL;
        int code = 0;

        (void)setsid();
        if ((request->flags & AGENT_TERMINAL) && ioctl(fds[0], TIOCSCTTY, 0) < 0)
                code = errno;

        for (int i = 0; i < 3 && code == 0; i++)
                if (dup2(fds[i], i) < 0)
                        code = errno;

        child_environment(request);
        if (code == 0 && child_enter(request) < 0)
                code = errno;

        if (code == 0) {
                char **argv = (char **)request->argv.p;
                const char *program = argv[0], *slash = strrchr(program, '/');

                if (request->flags & AGENT_LOGIN) {
                        size_t n = strlen(program) + 2;

                        login = malloc(n);
                        if (login)
                                snprintf(login, n, "-%s", slash ? slash + 1 : program);

                        if (login)
                                argv[0] = login;
                }

                child_reset();
                execvp(program, argv);
                code = errno;
        }

        (void)fd_write_all(word, &code, sizeof code);
        _exit(127);
}

/* Closed by exec: then nothing can be read. */
static int child_outcome(struct agent_child *child, int word) {
        int code = 0;

        if (fd_read_exact(word, &code, sizeof code) < 0)
                return 0;
        return spawn_fault(child, code ? code : EIO, child->request->argv.p[0]);
}

int agent_spawn(struct agent_child *child) {
        cleanup(close_fd) int inner = -1;
        int words[2], fds[3], r;

        child->terminal = -1;
        if (child->request->flags & AGENT_TERMINAL) {
                r = terminal_open(child, &inner);
                if (r < 0)
                        return r;
                fds[0] = fds[1] = fds[2] = inner;
        } else if (child->n_fds == 3) {
                memcpy(fds, child->fds, sizeof fds);
        } else {
                return spawn_fault(child, EBADMSG, "three descriptors are needed");
        }

        if (pipe2(words, O_CLOEXEC) < 0)
                return spawn_fault(child, errno, "pipe");

        cleanup(close_fd) int reads = words[0], writes = words[1];
        child->pid = fork();
        if (child->pid < 0) {
                close_fd(&child->terminal);
                return spawn_fault(child, errno, "cannot make a process");
        }

        if (child->pid == 0)
                child_main(child, fds, writes);

        close_fd(&writes);
        r = child_outcome(child, reads);
        if (r < 0)
                close_fd(&child->terminal);

        return r;
}
