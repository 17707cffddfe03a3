/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/darwin_tool.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 30000, LINE_SHOWN = 200 };

/* Tools of the system need nothing of the caller's. */
static char *const environment[] = { (char *)"PATH=/usr/bin:/bin:/usr/sbin:/sbin", (char *)"LC_ALL=C", NULL };

static int spawn_grouped(const char *path, const char *const *words, int out, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none;

        sigemptyset(&none);
        int r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;

        r = posix_spawnattr_init(&attributes);
        if (r != 0) {
                posix_spawn_file_actions_destroy(&actions);
                return -r;
        }

        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, out, 1);
        posix_spawn_file_actions_adddup2(&actions, out, 2);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
        r = posix_spawn(ret, path, &actions, &attributes, (char *const *)words, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);

        return -r;
}

int tool_start(const struct tool *tool, const char *const *words, pid_t *ret_pid, int *ret_fd, struct err *err) {
        cleanup(free_ptr) char *path = str_format("%s%s", text_or(tool->prefix, ""), words[0]);
        int ends[2];

        if (!path)
                return err_memory(err);
        if (pipe(ends) < 0)
                return err_errno(err, "cannot make a pipe for %s", words[0]);

        (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);

        int r = spawn_grouped(path, words, ends[1], ret_pid);
        close(ends[1]);

        if (r < 0) {
                close(ends[0]);
                return err_set(err, -r, "cannot start %s: %s", words[0], strerror(-r));
        }

        *ret_fd = ends[0];
        return 0;
}

int tool_end(pid_t pid) {
        int status = 0;

        (void)kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

/* 1: more may come, 0: the end. */
static int read_some(int fd, struct buf *out) {
        char piece[4096];
        ssize_t n = read(fd, piece, sizeof piece);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 1 : 0;
        (void)buf_append(out, str_n(piece, (size_t)n)); /* what does not fit is dropped */
        return n > 0;
}

/* Whether it closed its output before the time was over. */
static bool read_until(int fd, uint64_t deadline_ns, struct buf *out) {
        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

                if (now >= deadline_ns)
                        return false;

                int left = (int)((deadline_ns - now) / NS_PER_MS) + 1;
                if (poll(&poll_fd, 1, left) < 0 && errno != EINTR)
                        return false;
                if (poll_fd.revents && !read_some(fd, out))
                        return true;
        }
}

/* It may close its output and live on. */
static bool wait_until(pid_t pid, uint64_t deadline_ns, int *ret_status) {
        for (;;) {
                pid_t ended = waitpid(pid, ret_status, WNOHANG);

                if (ended == pid)
                        return true;
                if (ended < 0 && errno != EINTR)
                        return false;
                if (clock_ns() >= deadline_ns)
                        return false;

                (void)poll(NULL, 0, 5);
        }
}

static struct str last_line(struct str text) {
        struct str line = { 0 }, next;

        while (str_split(&text, '\n', &next))
                if (str_trim(next).n > 0)
                        line = str_trim(next);
        return str_first(line, line.n < LINE_SHOWN ? line.n : LINE_SHOWN);
}

int tool_run(const struct tool *tool, const char *const *words, struct buf *out, struct err *err) {
        unsigned timeout = tool->timeout_ms ? tool->timeout_ms : TIMEOUT_MS;
        uint64_t deadline = clock_ns() + timeout * NS_PER_MS;
        int fd = -1, status = 0;
        pid_t pid = -1;
        int r = tool_start(tool, words, &pid, &fd, err);

        if (r < 0)
                return r;

        bool closed = read_until(fd, deadline, out);
        bool ended = closed && wait_until(pid, deadline, &status);
        close(fd);

        if (!ended) {
                (void)tool_end(pid);
                return err_set(err, ETIMEDOUT, "%s did not end within %u ms and was killed", words[0], timeout);
        }

        if (WIFSIGNALED(status))
                return err_set(err, EPROTO, "%s was killed by signal %d", words[0], WTERMSIG(status));
        if (WEXITSTATUS(status) == 0)
                return 0;

        cleanup(buf_done) struct buf said = BUF(2048);
        (void)escape_text(&said, last_line(buf_str(out)), LINE_SHOWN);

        return err_set(err, EPROTO, "%s failed with status %d: %.*s", words[0], WEXITSTATUS(status),
                       STR_FMT(buf_str(&said)));
}
