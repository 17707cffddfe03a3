/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/program.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_STARTED = 127 };

static const char *search_path(char *const *environment) {
        for (char *const *v = environment; *v; v++)
                if (strncmp(*v, "PATH=", 5) == 0)
                        return *v + 5;
        return "/usr/local/bin:/usr/bin:/bin";
}

/* Absolute entries only: what a current directory holds is nobody's intention here. */
static bool find_program(const char *program, char *const *environment, char ret[static PATH_MAX]) {
        if (strchr(program, '/'))
                return snprintf(ret, PATH_MAX, "%s", program) < PATH_MAX;

        struct str rest = str_of(search_path(environment)), part;
        while (str_split(&rest, ':', &part)) {
                int n = snprintf(ret, PATH_MAX, "%.*s/%s", STR_FMT(part), program);
                if (part.n > 0 && part.p[0] == '/' && n < PATH_MAX && access(ret, X_OK) == 0)
                        return true;
        }

        return false;
}

static _Noreturn void program_become(const char *path, char *const *argv, char *const *environment, int out) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (chdir("/") < 0) /* the workspace is the sandbox's: nothing there is to be found by chance */
                _exit(NOT_STARTED);
        if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                _exit(NOT_STARTED);

        (void)fd_close_from(3);
        execve(path, argv, environment);
        _exit(NOT_STARTED);
}

/* Until the end of the output, or until the program itself has ended: what it left running may hold the pipe. */
static int program_collect(int from, int pidfd, struct buf *out) {
        struct pollfd fds[] = { { .fd = from, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };

        for (;;) {
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -errno;

                bool ended = fds[1].revents != 0;

                for (;;) {
                        char probe, *at = &probe;
                        size_t room = out->max - out->n;
                        if (room > 0 && buf_reserve(out, room < 4096 ? room : 4096) < 0)
                                return -ENOMEM;
                        if (room > 0)
                                at = out->p + out->n;

                        ssize_t got = read(from, at, room == 0 ? 1 : room < 4096 ? room : 4096);
                        if (got < 0 && errno == EINTR)
                                continue;
                        if (got < 0 && errno == EAGAIN)
                                break;
                        if (got <= 0)
                                return got < 0 ? -errno : 0;
                        if (room == 0)
                                return -EMSGSIZE;

                        out->n += (size_t)got;
                }

                if (ended)
                        return 0;
        }
}

static int program_judge(const char *program, int status, struct err *err) {
        if (WIFSIGNALED(status))
                return err_set(err, EIO, "%s was ended by signal %d", program, WTERMSIG(status));
        if (WEXITSTATUS(status) == NOT_STARTED)
                return err_set(err, ENOENT, "%s could not be run, or a command in it was not found (status 127)",
                               program);
        return WEXITSTATUS(status) == 0 ? 0
                                        : err_set(err, EIO, "%s ended with status %d", program, WEXITSTATUS(status));
}

int program_run(const char *program, char *const *argv, char *const *environment, struct buf *out, struct err *err) {
        char path[PATH_MAX];
        int ends[2], status;

        if (!find_program(program, environment, path))
                return err_set(err, ENOENT, "%s is not installed (not found in PATH)", program);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int from = ends[0], to = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");
        if (pid == 0)
                program_become(path, argv, environment, to);

        close_fd(&to);
        cleanup(close_fd) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        int r = fd_set_nonblocking(from, true);
        r = r < 0 ? r : program_collect(from, pidfd, out);
        if (r < 0)
                kill(pid, SIGKILL);

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (r == -EMSGSIZE)
                return err_set(err, EMSGSIZE, "%s printed more than %zu bytes", program, out->max);

        return r < 0 ? err_set(err, -r, "cannot read what %s prints: %s", program, strerror(-r))
                     : program_judge(program, status, err);
}
