/* SPDX-License-Identifier: Apache-2.0 */
#include "control/terminal.h"

#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal) {
        *terminal = (struct terminal){ .fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), .group = getpgrp() };
        terminal->lent = terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->group;
}

/* A background process that changes the terminal is stopped, unless the signal is blocked. */
static void set_foreground(int fd, pid_t group) {
        sigset_t stop, before;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        (void)tcsetpgrp(fd, group); /* fails only when the terminal is gone, and then there is nothing to take back */
        sigprocmask(SIG_SETMASK, &before, NULL);
}

void terminal_take(struct terminal *terminal) {
        if (terminal->fd >= 0 && terminal->lent)
                set_foreground(terminal->fd, terminal->group);
        terminal->lent = false;
}

bool terminal_ours(const struct terminal *terminal) {
        return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->group;
}

bool terminal_can_write(int fd) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };

        return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT);
}

void terminal_write(int fd, struct str line) {
        sigset_t stop, before;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        (void)fd_write_all(fd, line.p, line.n);
        sigprocmask(SIG_SETMASK, &before, NULL);
}

bool terminal_is_drawn_on(const struct terminal *terminal) {
        struct termios now;

        if (terminal->fd < 0 || !isatty(STDERR_FILENO))
                return false;
        return tcgetattr(terminal->fd, &now) < 0 || !(now.c_lflag & ICANON) || !(now.c_lflag & ECHO);
}

void terminal_close(struct terminal *terminal) {
        terminal_take(terminal);
        close_fd(&terminal->fd);
}
