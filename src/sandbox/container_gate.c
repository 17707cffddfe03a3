/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-gate: the first process of a container that `bailey run --container` starts. It waits until the container's
 * network leads to the gateway, then starts the command and stays as the container's init: it reaps, and hands signals
 * on. It is mounted into images that may hold no other file, so it is linked statically, and takes nothing from its
 * environment but PATH.
 *
 *     bailey-gate SOCKET COMMAND [ARG...]
 *
 * One byte on the socket means that everything is ready. After that the connection carries nothing: only the supervisor
 * holds the other side, so the kernel closes it when the supervisor ends, for whatever reason. Then this process ends,
 * and as the first process of its PID namespace it takes all others with it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_SECONDS = 120, GO = 'g', FAILED = 125, CANNOT_EXECUTE = 126, NOT_FOUND = 127, SIGNALLED = 128 };

static int gate_say(const char *what, const char *why) {
        char line[512];
        int n = snprintf(line, sizeof line, "bailey: error: %s: %s\n", what, why);
        (void)!write(STDERR_FILENO, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
        return FAILED;
}

static int call_supervisor(const char *path) {
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
                return -1;
        return fd;
}

static bool hear_word(int fd) {
        char word = 0;
        ssize_t n;
        do
                n = read(fd, &word, 1);
        while (n < 0 && errno == EINTR);
        return n == 1 && word == GO;
}

static _Noreturn void become_command(char **argv, const sigset_t *mask) {
        sigprocmask(SIG_SETMASK, mask, NULL);
        execvp(argv[0], argv);
        int code = errno;
        (void)gate_say(argv[0], strerror(code));
        _exit(code == ENOENT || code == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE);
}

/* Reaps processes that have ended; true when the command is among them. */
static bool reap_children(pid_t command, int *ret_status) {
        int status;
        pid_t pid;
        bool ended = false;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == command) {
                        *ret_status = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
                        ended = true;
                }

        return ended;
}

/* The command is in this process's group, so it has already received signals from a terminal, except for the hangup:
 * the kernel sends that to the session leader only. */
static void hand_on(const struct signalfd_siginfo *info, pid_t command) {
        int number = (int)info->ssi_signo;
        if (number != SIGCHLD && (info->ssi_code != SI_KERNEL || number == SIGHUP))
                (void)kill(command, number);
}

static int watch_command(int supervisor, int signals, pid_t command) {
        int status = 0;

        for (;;) {
                struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = supervisor, .events = POLLIN } };
                struct signalfd_siginfo info;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return gate_say("bailey-gate", strerror(errno));
                if (fds[1].revents)
                        return SIGNALLED + SIGKILL;
                if (!fds[0].revents)
                        continue;

                while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
                        hand_on(&info, command);

                if (reap_children(command, &status))
                        return status;
        }
}

int main(int argc, char **argv) {
        sigset_t all, before;

        if (argc < 3 || getpid() != 1)
                return gate_say("bailey-gate", "not started as the first process of a container, with a command");

        alarm(WAIT_SECONDS); /* the sender of the go message may be gone */
        int supervisor = call_supervisor(argv[1]);
        if (supervisor < 0)
                return gate_say(argv[1], strerror(errno));
        if (!hear_word(supervisor))
                return gate_say("bailey-gate", "the network was not made ready; nothing is run");

        alarm(0);

        /* Processes inside that have the same user must not be able to change this one. */
        sigfillset(&all);
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || sigprocmask(SIG_BLOCK, &all, &before) < 0)
                return gate_say("bailey-gate", strerror(errno));

        int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
        pid_t command = -1;

        if (signals >= 0)
                command = fork();

        if (command == 0)
                become_command(argv + 2, &before);

        if (command < 0)
                return gate_say("bailey-gate", strerror(errno));

        return watch_command(supervisor, signals, command);
}
