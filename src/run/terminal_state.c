/* SPDX-License-Identifier: Apache-2.0 */
#include "run/terminal_state.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const int kept_flags = O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT;

/* A terminal, or a pipe with a name: whoever has a descriptor of it can change its mode, and no mount holds it. */
static bool is_lent(int fd, const struct stat *st) {
        return S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && isatty(fd));
}

static void modes_save(struct terminal_state *terminal_state) {
        struct stat st;

        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++) {
                terminal_state->has_mode[fd] = fstat(fd, &st) == 0 && is_lent(fd, &st);
                if (terminal_state->has_mode[fd])
                        terminal_state->modes[fd] = st.st_mode;
        }
}

static void modes_restore(const struct terminal_state *terminal_state) {
        struct stat st;

        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++)
                if (terminal_state->has_mode[fd] && fstat(fd, &st) == 0 && st.st_mode != terminal_state->modes[fd])
                        (void)fchmod(fd, terminal_state->modes[fd] & 07777);
}

void terminal_state_save(struct terminal_state *terminal_state, int terminal) {
        *terminal_state = (struct terminal_state){ 0 };
        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++)
                terminal_state->flags[fd] = fcntl(fd, F_GETFL);

        modes_save(terminal_state);
        if (terminal < 0)
                return;

        terminal_state->has_lines = tcgetattr(terminal, &terminal_state->lines) == 0;
        if (ioctl(terminal, TIOCGEXCL, &terminal_state->exclusive) < 0)
                terminal_state->exclusive = 0;
}

/* Member by member: between them there may be bytes that mean nothing. */
static bool same_lines(const struct termios *a, const struct termios *b) {
        return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
               a->c_lflag == b->c_lflag && a->c_line == b->c_line && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0 &&
               cfgetispeed(a) == cfgetispeed(b) && cfgetospeed(a) == cfgetospeed(b);
}

static void lines_restore(const struct terminal_state *terminal_state, int terminal) {
        struct termios now;
        int exclusive = 0;

        if (ioctl(terminal, TIOCGEXCL, &exclusive) == 0 && exclusive != terminal_state->exclusive)
                (void)ioctl(terminal, terminal_state->exclusive ? TIOCEXCL : TIOCNXCL);

        (void)tcflow(terminal, TCOON); /* nothing, unless somebody stopped it by the same call */
        if (terminal_state->has_lines && tcgetattr(terminal, &now) == 0 && !same_lines(&now, &terminal_state->lines))
                (void)tcsetattr(terminal, TCSANOW, &terminal_state->lines);
}

void terminal_state_restore(const struct terminal_state *terminal_state, int terminal) {
        sigset_t stop, before;

        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++) {
                int flags = fcntl(fd, F_GETFL);
                if (flags >= 0 && terminal_state->flags[fd] >= 0 && ((flags ^ terminal_state->flags[fd]) & kept_flags))
                        (void)fcntl(fd, F_SETFL, terminal_state->flags[fd]);
        }

        modes_restore(terminal_state);
        if (terminal < 0)
                return;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        lines_restore(terminal_state, terminal);
        sigprocmask(SIG_SETMASK, &before, NULL);
}
