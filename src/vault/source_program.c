/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/source_program.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/process.h"
#include "base/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a shell says when it does not find a command. */
enum { SHELL_NOT_FOUND = 127 };

/* Until the end of the output, or until the program itself has ended: what it left running may hold the pipe. */
static int program_collect(int from, int end, struct buf *out) {
        struct pollfd fds[] = { { .fd = from, .events = POLLIN }, { .fd = end, .events = POLLIN } };

        for (;;) {
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -errno;

                bool ended = fds[1].revents != 0;

                for (;;) {
                        char probe, *at = &probe;
                        size_t room = out->max - out->n, wanted = 1;
                        if (room > 0) {
                                wanted = min_of(room, 4096);
                                if (buf_reserve(out, wanted) < 0)
                                        return -ENOMEM;
                                at = out->p + out->n;
                        }

                        ssize_t got = read(from, at, wanted);
                        if (got < 0 && errno == EINTR)
                                continue;
                        if (got < 0 && errno == EAGAIN)
                                break;
                        if (got < 0)
                                return -errno;
                        if (got <= 0)
                                return 0;
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
        if (WEXITSTATUS(status) == SHELL_NOT_FOUND)
                return err_set(err, ENOENT, "%s says that a command was not found (status 127)", program);
        if (WEXITSTATUS(status) != 0)
                return err_set(err, EIO, "%s ended with status %d", program, WEXITSTATUS(status));

        return 0;
}

int program_run(const char *program, char *const *argv, char *const *environment, struct buf *out, struct err *err) {
        char path[PATH_MAX];
        int ends[2];
        pid_t pid;

        if (!spawn_find(program, environment, path))
                return err_set(err, ENOENT, "%s is not installed (not found in PATH)", program);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int from = ends[0], to = ends[1];
        const struct spawn spawn = { .program = path,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = to,
                                     .errors = SPAWN_KEEP,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_AT_ROOT };
        int r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        close_fd(&to);
        cleanup(close_fd) int end = process_watch(pid);
        r = fd_set_nonblocking(from, true);
        if (r == 0)
                r = program_collect(from, end, out);
        if (r < 0)
                kill(pid, SIGKILL);

        int status = spawn_wait(pid);
        if (r == -EMSGSIZE)
                return err_set(err, EMSGSIZE, "%s printed more than %zu bytes", program, out->max);
        if (r < 0)
                return err_set(err, -r, "cannot read what %s prints: %s", program, strerror(-r));
        return program_judge(program, status, err);
}
