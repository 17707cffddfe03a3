/* SPDX-License-Identifier: Apache-2.0 */
#include "run/terminal_state.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const int kept_flags = O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT;

static bool device_find(struct terminal_state *s) {
        struct stat st;

        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++)
                if (isatty(fd) && fstat(fd, &st) == 0) {
                        s->device = fd;
                        s->mode = st.st_mode;
                        return true;
                }
        return false;
}

void terminal_state_save(struct terminal_state *s, int terminal) {
        *s = (struct terminal_state){ .device = -1 };
        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++)
                s->flags[fd] = fcntl(fd, F_GETFL);
        s->has_mode = device_find(s);
        if (terminal < 0)
                return;
        s->has_lines = tcgetattr(terminal, &s->lines) == 0;
        if (ioctl(terminal, TIOCGEXCL, &s->exclusive) < 0)
                s->exclusive = 0;
}

/* Member by member: between them there may be bytes that mean nothing. */
static bool same_lines(const struct termios *a, const struct termios *b) {
        return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
               a->c_lflag == b->c_lflag && a->c_line == b->c_line && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0 &&
               cfgetispeed(a) == cfgetispeed(b) && cfgetospeed(a) == cfgetospeed(b);
}

static void lines_restore(const struct terminal_state *s, int terminal) {
        struct termios now;
        int exclusive = 0;

        if (ioctl(terminal, TIOCGEXCL, &exclusive) == 0 && exclusive != s->exclusive)
                (void)ioctl(terminal, s->exclusive ? TIOCEXCL : TIOCNXCL);
        (void)tcflow(terminal, TCOON); /* nothing, unless somebody stopped it by the same call */
        if (s->has_lines && tcgetattr(terminal, &now) == 0 && !same_lines(&now, &s->lines))
                (void)tcsetattr(terminal, TCSANOW, &s->lines);
}

void terminal_state_restore(const struct terminal_state *s, int terminal) {
        struct stat st;
        sigset_t stop, before;

        for (int fd = 0; fd < TERMINAL_STATE_FDS; fd++) {
                int flags = fcntl(fd, F_GETFL);
                if (flags >= 0 && s->flags[fd] >= 0 && ((flags ^ s->flags[fd]) & kept_flags))
                        (void)fcntl(fd, F_SETFL, s->flags[fd]);
        }
        if (s->has_mode && fstat(s->device, &st) == 0 && st.st_mode != s->mode)
                (void)fchmod(s->device, s->mode & 07777);
        if (terminal < 0)
                return;

        sigemptyset(&stop);
        sigaddset(&stop, SIGTTOU);
        sigprocmask(SIG_BLOCK, &stop, &before);
        lines_restore(s, terminal);
        sigprocmask(SIG_SETMASK, &before, NULL);
}
