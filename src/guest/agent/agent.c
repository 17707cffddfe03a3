/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/agent/agent.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/rest.h"
#include "guest/agent/agent_filter.h"
#include "guest/agent/agent_spawn.h"
#include "guest/agent/agent_wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SESSIONS_MAX = 512, GRACE_MS = 5000 };

/* One connection, and the process group that it asked for. */
struct session {
        int fd;           /* -1: nobody listens any more */
        pid_t pid;        /* 0: nothing was asked for yet */
        uint64_t kill_ns; /* when what did not end is killed; 0: it was not asked to end */
};

struct agent {
        VEC(struct session) sessions;
        int signals;
        uint64_t idle_ns, quiet_since_ns;
        uint64_t stop_ns; /* when everything ends; 0: nobody asked for it */
        uint64_t rest_ns; /* when it rests; CLOCK_NEVER: it does */
        bool stopping;
};

static void session_reply(const struct session *session, enum agent_reply_kind kind, int value, const char *text,
                          int fd) {
        struct agent_reply reply = { .kind = kind, .value = value };

        if (session->fd < 0)
                return;
        if (text)
                snprintf(reply.text, sizeof reply.text, "%s", text);
        (void)fd_send(session->fd, str_n(&reply, sizeof reply), &fd, fd >= 0 ? 1 : 0); /* gone: poll() says so */
}

static void session_start(struct agent *agent, struct session *session, const struct agent_request *request,
                          const int *fds, size_t n_fds) {
        struct agent_child child = { .request = request, .fds = fds, .n_fds = n_fds };
        int r = agent_spawn(&child);

        (void)agent;

        if (r < 0) {
                session_reply(session, AGENT_FAILED, -r, child.text, -1);
                return;
        }

        session->pid = child.pid;
        session_reply(session, AGENT_STARTED, (int)child.pid, NULL, child.terminal);
        close_fd(&child.terminal);
}

static void agent_stop(struct agent *agent) {
        if (agent->stopping)
                return;
        agent->stopping = true;
        agent->stop_ns = clock_ns() + GRACE_MS * NS_PER_MS;
        kill(-1, SIGTERM);
        kill(-1, SIGCONT);
}

static void session_request(struct agent *agent, struct session *session, struct str bytes, const int *fds,
                            size_t n_fds) {
        cleanup(agent_request_done) struct agent_request request = { 0 };

        if (agent_request_parse(bytes, &request) < 0) {
                session_reply(session, AGENT_FAILED, EBADMSG, "this is no request", -1);
                return;
        }

        switch (request.what) {
        case AGENT_PING:
                session_reply(session, AGENT_PONG, (int)agent->sessions.n, NULL, -1);
                break;
        case AGENT_EXEC:
                if (agent->stopping)
                        session_reply(session, AGENT_FAILED, ESHUTDOWN, "the guest is being stopped", -1);
                else
                        session_start(agent, session, &request, fds, n_fds);
                break;
        default:
                session_reply(session, AGENT_PONG, 0, NULL, -1);
                agent_stop(agent);
        }
}

/* Nobody waits for it any more: it ends, as it would without its terminal. */
static void session_abandon(struct session *session) {
        close_fd(&session->fd);
        if (session->pid <= 0 || session->kill_ns)
                return;
        kill(-session->pid, SIGHUP);
        kill(-session->pid, SIGCONT);
        session->kill_ns = clock_ns() + GRACE_MS * NS_PER_MS;
}

static void session_read(struct agent *agent, struct session *session) {
        static char bytes[AGENT_REQUEST_MAX];
        int fds[3] = { -1, -1, -1 };
        size_t n_fds = 0;
        ssize_t n = fd_receive(session->fd, bytes, sizeof bytes, fds, 3, &n_fds);
        struct agent_signal sent;

        if (n == -EAGAIN || n == -EINTR)
                return;

        if (n <= 0)
                session_abandon(session);
        else if (session->pid == 0)
                session_request(agent, session, str_n(bytes, (size_t)n), fds, n_fds);
        else if ((size_t)n == sizeof sent) {
                memcpy(&sent, bytes, sizeof sent);
                if (sent.number > 0 && sent.number < NSIG)
                        kill(-session->pid, sent.number);
        }

        for (size_t i = 0; i < n_fds; i++)
                close_fd(&fds[i]);
}

/* Everything that has ended. Others than sessions belong to init, or were started by one of ours that shares it. */
static void agent_reap(struct agent *agent) {
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                for (size_t i = 0; i < agent->sessions.n; i++)
                        if (agent->sessions.p[i].pid == pid) {
                                session_reply(&agent->sessions.p[i], AGENT_EXITED, status, NULL, -1);
                                agent->sessions.p[i].pid = -1;
                                close_fd(&agent->sessions.p[i].fd);
                        }
}

static void agent_forget(struct agent *agent) {
        size_t kept = 0;
        uint64_t now = clock_ns();

        for (size_t i = 0; i < agent->sessions.n; i++) {
                struct session *session = &agent->sessions.p[i];
                if (session->kill_ns && now >= session->kill_ns && session->pid > 0) {
                        kill(-session->pid, SIGKILL);
                        session->kill_ns = UINT64_MAX;
                }

                if (session->fd >= 0 || session->pid > 0)
                        agent->sessions.p[kept++] = *session;
        }

        agent->sessions.n = kept;
        if (kept) {
                agent->quiet_since_ns = now;
                agent->rest_ns = clock_after_ms(REST_AFTER_MS);
        }
}

/* False when nobody is left outside. */
static bool agent_accept(struct agent *agent) {
        char byte;
        int fd = -1;
        size_t n_fds = 0;
        ssize_t n = fd_receive(STDIN_FILENO, &byte, 1, &fd, 1, &n_fds);

        if (n == -EAGAIN || n == -EINTR)
                return true;
        if (n <= 0)
                return false;
        if (n_fds == 1 &&
            (agent->sessions.n >= SESSIONS_MAX || vec_push(&agent->sessions, ((struct session){ .fd = fd })) < 0))
                close_fd(&fd);

        agent->quiet_since_ns = clock_ns();
        return true;
}

static void time_before(uint64_t at_ns, uint64_t now, int *ms) {
        uint64_t left = at_ns > now ? (at_ns - now) / NS_PER_MS + 1 : 0;

        if (*ms < 0 || left < (uint64_t)*ms)
                *ms = left > 60000 ? 60000 : (int)left;
}

static int agent_timeout(const struct agent *agent) {
        uint64_t now = clock_ns();
        int ms = -1;

        if (agent->stopping)
                time_before(agent->stop_ns, now, &ms);
        if (agent->rest_ns != CLOCK_NEVER && agent->sessions.n == 0)
                time_before(agent->rest_ns, now, &ms);
        if (agent->idle_ns && agent->sessions.n == 0)
                time_before(agent->quiet_since_ns + agent->idle_ns, now, &ms);

        for (size_t i = 0; i < agent->sessions.n; i++)
                if (agent->sessions.p[i].kill_ns && agent->sessions.p[i].kill_ns != UINT64_MAX)
                        time_before(agent->sessions.p[i].kill_ns, now, &ms);

        return ms;
}

/* Everybody who was asked to end has ended. */
static bool agent_is_alone(const struct agent *agent) {
        for (size_t i = 0; i < agent->sessions.n; i++)
                if (agent->sessions.p[i].pid > 0)
                        return false;
        return true;
}

static bool agent_is_done(const struct agent *agent) {
        uint64_t now = clock_ns();

        if (agent->stopping && (now >= agent->stop_ns || agent_is_alone(agent)))
                return true;
        return agent->idle_ns && agent->sessions.n == 0 && now >= agent->quiet_since_ns + agent->idle_ns;
}

static void agent_rest(struct agent *agent) {
        if (agent->sessions.n || clock_ns() < agent->rest_ns)
                return;
        process_rest();
        agent->rest_ns = CLOCK_NEVER;
}

static int agent_step(struct agent *agent) {
        struct pollfd fds[SESSIONS_MAX + 2] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                                { .fd = agent->signals, .events = POLLIN } };
        size_t n = agent->sessions.n;
        struct signalfd_siginfo info;

        for (size_t i = 0; i < n; i++)
                fds[2 + i] = (struct pollfd){ .fd = agent->sessions.p[i].fd, .events = POLLIN };

        if (poll(fds, (nfds_t)(2 + n), agent_timeout(agent)) < 0 && errno != EINTR)
                return -errno;

        while (read(agent->signals, &info, sizeof info) == (ssize_t)sizeof info)
                if (info.ssi_signo == SIGTERM)
                        agent_stop(agent);

        agent_reap(agent);

        for (size_t i = 0; i < n; i++)
                if (fds[2 + i].revents && agent->sessions.p[i].fd == fds[2 + i].fd)
                        session_read(agent, &agent->sessions.p[i]);

        if (fds[0].revents && !agent_accept(agent))
                return -EPIPE;

        agent_reap(agent);
        agent_forget(agent);
        agent_rest(agent);

        return 0;
}

/* For everything that it starts, and for good: not even a program with an owner's rights raises it again. */
static int agent_limit_files(uint64_t bytes) {
        const struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };

        if (bytes == AGENT_FILE_ANY || setrlimit(RLIMIT_FSIZE, &limit) == 0)
                return 0;

        return -errno;
}

int agent_main(uint64_t idle_s, uint64_t largest_file) {
        struct agent a = { .signals = -1,
                           .idle_ns = idle_s * NS_PER_SECOND,
                           .quiet_since_ns = clock_ns(),
                           .rest_ns = clock_after_ms(REST_AFTER_MS) };
        sigset_t watched;
        int r = 0;

        /* What it hands out is the guest's own; what it holds is not. */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || agent_limit_files(largest_file) < 0 ||
            agent_refuse_reservations() < 0)
                return 1;

        /* Its group is its own; the group's bits are what access lists let the host user do. */
        (void)umask(0002);
        sigemptyset(&watched);
        sigaddset(&watched, SIGCHLD);
        sigaddset(&watched, SIGTERM);
        sigprocmask(SIG_BLOCK, &watched, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        (void)signal(SIGINT, SIG_IGN);
        a.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
        if (a.signals < 0 || fd_set_nonblocking(STDIN_FILENO, true) < 0)
                return 1;

        while (r == 0 && !agent_is_done(&a))
                r = agent_step(&a);

        vec_done(&a.sessions);
        return r < 0 && r != -EPIPE;
}
