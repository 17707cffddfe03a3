/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-shim: inside a sandbox, under the name of a tool of the host. It hands the call out, with its standard
 * descriptors, waits, and ends as the tool did. It decides nothing and holds nothing; whoever replaces it gains
 * nothing, since the supervisor judges what arrives.
 *
 * Where the supervisor says so, it becomes the program of its name that is next in PATH.
 *
 * Static, and without any library of Bailey's: it runs wherever the sandbox's files come from.
 */
#include "bridge/shim_message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOT_WRITTEN = 1, CANNOT = 125, NOT_FOUND = 127, CANNOT_EXECUTE = 126 };

_Noreturn static void shim_fail(const char *tool, const char *text) {
        dprintf(STDERR_FILENO, "bailey: %s: %s\n", tool, text);
        _exit(CANNOT);
}

static const char *shim_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static size_t call_write(char *packet, const char *tool, int argc, char **argv) {
        struct shim_head head = { .magic = SHIM_MAGIC, .version = SHIM_VERSION, .n = (uint16_t)(argc + 1) };
        char directory[PATH_MAX];
        size_t at = sizeof head;

        if (!getcwd(directory, sizeof directory) || directory[0] != '/')
                shim_fail(tool, "the current directory has no name");
        if (argc + 1 > SHIM_TEXTS_MAX)
                shim_fail(tool, "too many words");
        for (int i = -1; i < argc; i++) {
                const char *text;
                if (i < 0)
                        text = directory;
                else if (i == 0)
                        text = tool;
                else
                        text = argv[i];

                size_t n = strlen(text) + 1;

                if (n > SHIM_BYTES_MAX - at)
                        shim_fail(tool, "the words are too long");
                memcpy(packet + at, text, n);
                at += n;
        }
        head.bytes = (uint32_t)(at - sizeof head);
        memcpy(packet, &head, sizeof head);
        return at;
}

/* A file is never handed out: a pipe stands for it, and what goes through is copied here, by the sandbox's rights. */
struct copy {
        int from, to; /* -1: there is none, or it is over */
        size_t n, at;
        int error; /* of a file that did not take what the tool said */
        char bytes[65536];
};

static struct copy copies[SHIM_FDS];

static int hand_out(const char *tool, int fd) {
        struct stat st;
        int ends[2];

        copies[fd].from = copies[fd].to = -1;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return fd;
        if (pipe2(ends, O_CLOEXEC) < 0)
                shim_fail(tool, strerror(errno));

        if (fd == STDIN_FILENO) {
                (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
                copies[fd].from = fd;
                copies[fd].to = ends[1];
                return ends[0];
        }

        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        copies[fd].from = ends[0];
        copies[fd].to = fd;
        return ends[1];
}

/* `> file 2>&1`: one pipe for both, so that lines come in the order in which they were written. */
static int is_one_file(void) {
        struct stat out, err;

        return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && S_ISREG(out.st_mode) &&
               out.st_dev == err.st_dev && out.st_ino == err.st_ino &&
               lseek(STDOUT_FILENO, 0, SEEK_CUR) == lseek(STDERR_FILENO, 0, SEEK_CUR);
}

static void copy_end(struct copy *copy, int ours) {
        close(ours);
        copy->from = copy->to = -1;
}

/* One step; never waits. */
static void copy_step(int fd) {
        struct copy *copy = &copies[fd];
        int ours = fd == STDIN_FILENO ? copy->to : copy->from;

        if (copy->at == copy->n) {
                ssize_t n = read(copy->from, copy->bytes, sizeof copy->bytes);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n <= 0) {
                        copy_end(copy, ours);
                        return;
                }
                copy->n = (size_t)n;
                copy->at = 0;
        }
        ssize_t written = write(copy->to, copy->bytes + copy->at, copy->n - copy->at);
        if (written < 0 && errno != EAGAIN && errno != EINTR) {
                copy->error = fd == STDIN_FILENO ? 0 : errno;
                copy_end(copy, ours);
        } else if (written > 0) {
                copy->at += (size_t)written;
        }
}

static void call_send(int sock, const char *tool, int argc, char **argv) {
        static char packet[SHIM_BYTES_MAX];
        int fds[SHIM_FDS] = { hand_out(tool, STDIN_FILENO), hand_out(tool, STDOUT_FILENO) };
        union {
                struct cmsghdr align;
                char space[CMSG_SPACE(sizeof fds)];
        } control = { 0 };
        struct iovec part = { packet, call_write(packet, tool, argc, argv) };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space };
        ssize_t sent;

        if (is_one_file()) {
                fds[STDERR_FILENO] = fds[STDOUT_FILENO];
                copies[STDERR_FILENO].from = copies[STDERR_FILENO].to = -1;
        } else {
                fds[STDERR_FILENO] = hand_out(tool, STDERR_FILENO);
        }
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(c), fds, sizeof fds);
        do
                sent = sendmsg(sock, &message, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
                shim_fail(tool, strerror(errno));
        for (int fd = 0; fd < SHIM_FDS; fd++)
                if (fds[fd] != fd && (fd != STDERR_FILENO || fds[fd] != fds[STDOUT_FILENO]))
                        close(fds[fd]);
}

/* Whoever closed one of them means nothing by it. */
static void open_standard(void) {
        for (int fd = 0; fd < SHIM_FDS; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
                        _exit(CANNOT);
}

static int bridge_connect(const char *tool) {
        struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SHIM_SOCKET };
        int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        int r = -1;

        if (sock < 0)
                shim_fail(tool, strerror(errno));
        for (int tries = 0; tries < 100 && r < 0; tries++) {
                r = connect(sock, (const struct sockaddr *)&to, sizeof to);
                if (r < 0 && errno != EINTR && errno != EAGAIN)
                        break;
        }
        if (r < 0)
                shim_fail(tool, "the bridge does not answer");
        return sock;
}

/* The next program of this name in PATH that is not this one. */
_Noreturn static void become_inside(const char *tool, char **argv) {
        char path[PATH_MAX];
        const char *at = getenv("PATH");

        while (at && *at) {
                size_t n = strcspn(at, ":");
                int length = snprintf(path, sizeof path, "%.*s/%s", (int)n, at, tool);
                int own = n == strlen(SHIM_DIRECTORY) && memcmp(at, SHIM_DIRECTORY, n) == 0;

                if (n > 0 && !own && length > 0 && (size_t)length < sizeof path && access(path, X_OK) == 0) {
                        execv(path, argv);
                        dprintf(STDERR_FILENO, "bailey: %s: %s: %s\n", tool, path, strerror(errno));
                        _exit(CANNOT_EXECUTE);
                }
                at += n + (at[n] == ':');
        }
        dprintf(STDERR_FILENO, "bailey: %s: there is no such program inside\n", tool);
        _exit(NOT_FOUND);
}

/* As the tool ended, so that whoever waits sees the same. */
_Noreturn static void end_by_signal(int number) {
        sigset_t one;

        signal(number, SIG_DFL);
        sigemptyset(&one);
        sigaddset(&one, number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(number);
        _exit(128 + number);
}

static void hand_on_signal(int sock, int signals) {
        struct signalfd_siginfo info;
        struct shim_word word = { .magic = SHIM_MAGIC, .version = SHIM_VERSION, .kind = SHIM_SIGNAL };

        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
                word.number = (int32_t)info.ssi_signo;
                (void)send(sock, &word, sizeof word, MSG_NOSIGNAL);
        }
}

/* True: it is over, and *ret is the last word. */
static int word_receive(int sock, struct shim_word *ret) {
        ssize_t n = recv(sock, ret, sizeof *ret, 0);

        if (n < 0 && errno == ECONNRESET) /* a signal came too late to be read; the last word stands behind that */
                n = recv(sock, ret, sizeof *ret, 0);
        if (n < 0 && errno == EINTR)
                return 0;
        if (n != (ssize_t)sizeof *ret || ret->magic != SHIM_MAGIC || ret->version != SHIM_VERSION)
                return -1;
        ret->text[sizeof ret->text - 1] = '\0';
        return 1;
}

/* The tool wrote into a pipe and may have ended well; that it is not in the file is for this program to say. */
static int check_written(const char *tool) {
        int error = copies[STDOUT_FILENO].error ? copies[STDOUT_FILENO].error : copies[STDERR_FILENO].error;

        if (error)
                dprintf(STDERR_FILENO, "bailey: %s: cannot write its output: %s\n", tool, strerror(error));
        return error;
}

int main(int argc, char **argv) {
        const char *tool = argc > 0 ? shim_name(argv[0]) : "bailey-shim";
        static const int handed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };
        struct shim_word word = { 0 };
        sigset_t set, before;
        int r = 0;

        open_standard();
        signal(SIGPIPE, SIG_IGN);
        sigemptyset(&set);
        for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
                sigaddset(&set, handed_on[i]);
        sigprocmask(SIG_BLOCK, &set, &before);
        int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        int sock = bridge_connect(tool);
        call_send(sock, tool, argc, argv);

        while (r == 0 || ((copies[1].from >= 0 || copies[2].from >= 0) && word.kind != SHIM_INSIDE)) {
                struct pollfd fds[] = { { .fd = r ? -1 : sock, .events = POLLIN },
                                        { .fd = signals, .events = POLLIN },
                                        { .fd = copies[0].to, .events = POLLOUT },
                                        { .fd = copies[1].from, .events = POLLIN },
                                        { .fd = copies[2].from, .events = POLLIN } };

                if (poll(fds, sizeof fds / sizeof *fds, -1) < 0)
                        continue;
                if (fds[1].revents)
                        hand_on_signal(sock, signals);
                for (int fd = 0; fd < SHIM_FDS; fd++)
                        if (fds[2 + fd].revents)
                                copy_step(fd);
                if (fds[0].revents)
                        r = word_receive(sock, &word);
        }
        if (r < 0)
                shim_fail(tool, "the supervisor ended the call");
        sigprocmask(SIG_SETMASK, &before, NULL);
        signal(SIGPIPE, SIG_DFL);
        if (word.kind == SHIM_INSIDE) {
                close(sock);
                become_inside(tool, argv);
        }
        if (word.kind == SHIM_KILLED)
                end_by_signal(word.number);
        if (word.kind == SHIM_REFUSED)
                shim_fail(tool, word.text);
        if (word.text[0])
                dprintf(STDERR_FILENO, "bailey: %s: %s\n", tool, word.text);
        _exit(check_written(tool) && word.number == 0 ? NOT_WRITTEN : word.number);
}
