/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-ssh: stands for ssh and gpg inside a sandbox, under their names. It sends its arguments and its standard input
 * to the gateway (bridge/ssh_message.h), and prints the reply. It holds no secret and decides nothing: the gateway
 * judges every request. It is mounted into the sandbox, so it is linked statically.
 *
 * As gpg it passes on the one call with which git signs. Any other call of gpg (git verifies with it) goes to the gpg
 * that is inside, which has no secret keys.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plan/plan.h"

enum { FAILED = 255, HEAD = 8, TEXT_MAX = 4096, WORDS_MAX = 32, PIECE = 65536, NOT_FOUND = 127 };
enum { KIND_SSH = 1, KIND_GPG = 2 };
enum { FRAME_OUTPUT = 1, FRAME_ERRORS = 2, FRAME_EXIT = 3 };

static _Noreturn void give_up(const char *what, const char *why) {
        char line[512];
        int n = snprintf(line, sizeof line, "bailey: %s%s%s\n", what, why[0] ? ": " : "", why);

        (void)!write(STDERR_FILENO, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
        _exit(FAILED);
}

static bool write_all(int fd, const char *p, size_t n) {
        while (n > 0) {
                ssize_t put = write(fd, p, n);
                if (put < 0 && errno == EINTR)
                        continue;

                if (put < 0 && errno == EAGAIN) {
                        struct pollfd wait = { .fd = fd, .events = POLLOUT };

                        (void)poll(&wait, 1, -1);
                        continue;
                }

                if (put <= 0)
                        return false;

                p += put;
                n -= (size_t)put;
        }

        return true;
}

static int call_gateway(void) {
        struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = PLAN_SHIM_SOCKET };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
                give_up("cannot reach the other side of " PLAN_SHIM_SOCKET, strerror(errno));
        return fd;
}

static bool add_word(char *message, size_t *n, const char *word) {
        size_t length = strlen(word) + 1;

        if (*n + length > HEAD + TEXT_MAX)
                return false;
        memcpy(message + *n, word, length);
        *n += length;
        return true;
}

static void send_message(int fd, int kind, int argc, char **argv) {
        static char message[HEAD + TEXT_MAX];
        const char *protocol = getenv("GIT_PROTOCOL");
        size_t n = HEAD;
        int words = 0;
        bool fits = true;

        if (kind == KIND_SSH) {
                fits = add_word(message, &n, text_or(protocol, ""));
                words++;
        }

        for (int i = 1; fits && i < argc; i++, words++)
                fits = add_word(message, &n, argv[i]);

        if (!fits || words > WORDS_MAX)
                give_up("too many words", "");

        memcpy(message, "BSH1", 4);
        message[4] = (char)kind;
        message[5] = (char)words;
        message[6] = (char)((n - HEAD) & 0xff);
        message[7] = (char)((n - HEAD) >> 8);
        if (!write_all(fd, message, n))
                give_up("the other side does not listen", strerror(errno));
}

/* What comes back, frame by frame. */
struct frames {
        char bytes[PIECE];
        size_t head_n;
        unsigned char head[HEAD];
        size_t left; /* of the frame that is being read */
};

static size_t frame_length(const unsigned char *head) {
        return (size_t)head[4] | (size_t)head[5] << 8 | (size_t)head[6] << 16 | (size_t)head[7] << 24;
}

static void show_message(struct frames *f, const char *p, size_t n) {
        if (f->head[0] == FRAME_EXIT)
                _exit((unsigned char)p[0]);
        if (!write_all(f->head[0] == FRAME_ERRORS ? STDERR_FILENO : STDOUT_FILENO, p, n))
                _exit(FAILED);
}

static void take_bytes(struct frames *f, size_t n) {
        for (size_t at = 0; at < n;) {
                if (f->left == 0) {
                        f->head[f->head_n++] = (unsigned char)f->bytes[at++];

                        if (f->head_n == HEAD) {
                                f->head_n = 0;
                                f->left = frame_length(f->head);
                        }
                        continue;
                }

                size_t part = n - at < f->left ? n - at : f->left;
                show_message(f, f->bytes + at, part);
                f->left -= part;
                at += part;
        }
}

/* Sends what is there without waiting: the other side may be waiting for us to read. */
struct input {
        char bytes[PIECE];
        size_t at, n;
        bool ended;
};

static void feed_input(struct input *in, int fd) {
        if (in->at == in->n && !in->ended) {
                ssize_t got = read(STDIN_FILENO, in->bytes, sizeof in->bytes);
                if (got < 0 && (errno == EINTR || errno == EAGAIN))
                        return;

                in->at = 0;
                in->n = got > 0 ? (size_t)got : 0;
                in->ended = got <= 0;
        }

        while (in->at < in->n) {
                ssize_t put = send(fd, in->bytes + in->at, in->n - in->at, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (put < 0 && errno == EINTR)
                        continue;

                if (put < 0) {
                        if (errno != EAGAIN) /* nobody takes it any more; what it says last is still read */
                                in->at = in->n;
                        break;
                }

                in->at += (size_t)put;
        }

        if (in->ended && in->at == in->n)
                (void)shutdown(fd, SHUT_WR);
}

static _Noreturn void carry_bytes(int fd) {
        static struct frames frames;
        static struct input input;

        for (;;) {
                bool waits = input.at < input.n;
                struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
                if (waits)
                        fds[0].events |= POLLOUT;
                if (waits || input.ended)
                        fds[1].fd = -1;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        give_up("cannot wait", strerror(errno));
                if (fds[1].revents || (fds[0].revents & POLLOUT))
                        feed_input(&input, fd);
                if (!(fds[0].revents & (POLLIN | POLLHUP | POLLERR)))
                        continue;

                ssize_t n = read(fd, frames.bytes, sizeof frames.bytes);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        give_up("the connection to the other side has ended", "");

                take_bytes(&frames, (size_t)n);
        }
}

/* The call with which git signs begins like this. */
static bool call_signs(int argc, char **argv) {
        return argc >= 3 && strcmp(argv[1], "--status-fd=2") == 0 && strncmp(argv[2], "-bsa", 4) == 0;
}

static _Noreturn void become_gpg(char **argv) {
        static const char *const places[] = { "/usr/bin/gpg", "/usr/local/bin/gpg", "/bin/gpg" };

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                execv(places[i], argv);
        give_up("only signatures of git are made outside, and there is no gpg in here for anything else", "");
}

int main(int argc, char **argv) {
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        const char *name;
        if (slash)
                name = slash + 1;
        else if (argc > 0)
                name = argv[0];
        else
                name = "";

        int kind = strcmp(name, "gpg") == 0 ? KIND_GPG : KIND_SSH;

        (void)signal(SIGPIPE, SIG_IGN);
        if (kind == KIND_GPG && !call_signs(argc, argv))
                become_gpg(argv);

        int fd = call_gateway();
        send_message(fd, kind, argc, argv);
        carry_bytes(fd);
}
