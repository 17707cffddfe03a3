/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_pump.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/signals.h"
#include "guest/agent/agent_wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { PIECE = 64 << 10, DRAIN_MS = 200, SIGNALLED = 128 };

void pump_done(struct pump *pump) {
        close_fd(&pump->agent);
        close_fd(&pump->terminal);
        close_fd(&pump->to_input);
        close_fd(&pump->from_output);
        close_fd(&pump->from_errors);
}

/* What is over the limit is read, so that the command goes on, and dropped. False at the end. */
static bool pump_carry(struct pump *pump, int from, int to) {
        static char piece[PIECE];
        ssize_t n = read(from, piece, sizeof piece);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN;
        if (n == 0)
                return false;

        size_t shown = (uint64_t)n < pump->left ? (size_t)n : (size_t)pump->left;
        pump->left -= shown;
        if (pump->on_output && shown)
                pump->on_output(pump->on_output_arg, str_n(piece, shown));
        if (to >= 0 && shown && fd_write_all(to, piece, shown) < 0)
                return false;

        return true;
}

/* False at the end of the input. */
static bool feed_read(struct pump *pump) {
        ssize_t n = read(pump->input, pump->pending, sizeof pump->pending);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN;
        pump->n_pending = (size_t)n;
        return n > 0;
}

/* As much as the command takes now. A command that waits until its output is read must not be waited for. False when
 * it reads no more. */
static bool feed_write(struct pump *pump, int to) {
        ssize_t n = write(to, pump->pending, pump->n_pending);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN;
        pump->n_pending -= (size_t)n;
        memmove(pump->pending, pump->pending + n, pump->n_pending);
        return true;
}

static void input_end(struct pump *pump) {
        pump->input = -1;
        pump->n_pending = 0;
        close_fd(&pump->to_input);
}

static void pump_signal(const struct pump *pump, int number) {
        const struct agent_signal sent = { number };
        struct winsize size;

        if (number == SIGWINCH) {
                if (pump->terminal >= 0 && ioctl(pump->input, TIOCGWINSZ, &size) == 0)
                        (void)ioctl(pump->terminal, TIOCSWINSZ, &size);
                return;
        }

        (void)fd_send(pump->agent, str_n(&sent, sizeof sent), NULL, 0);
}

/* 1: the command ended. */
static int pump_reply(struct pump *pump, int *ret_status, struct err *err) {
        struct agent_reply reply;
        int none = -1;
        size_t n_fds = 0;
        ssize_t n = fd_receive(pump->agent, &reply, sizeof reply, &none, 1, &n_fds);

        close_fd(&none);
        if (n != (ssize_t)sizeof reply)
                return err_set(err, EPIPE, "the guest ended");
        if (reply.kind != AGENT_EXITED)
                return 0;

        *ret_status = WIFSIGNALED(reply.value) ? SIGNALLED + WTERMSIG(reply.value) : WEXITSTATUS(reply.value);
        return 1;
}

/* What was written before the end may still be on its way; what a process in the background writes later is not
 * waited for. */
static void pump_drain(struct pump *pump) {
        int *const from[] = { &pump->from_output, &pump->from_errors, &pump->terminal };
        const int to[] = { pump->output, pump->errors, pump->output };

        for (size_t i = 0; i < 3; i++)
                while (*from[i] >= 0) {
                        struct pollfd ready = { .fd = *from[i], .events = POLLIN };
                        if (poll(&ready, 1, i == 2 ? DRAIN_MS : 0) <= 0 || !pump_carry(pump, *from[i], to[i]))
                                break;
                }
}

static int pump_step(struct pump *pump, int signals, int *ret_status, struct err *err) {
        int inward = pump->terminal >= 0 ? pump->terminal : pump->to_input;
        int outward = pump->terminal >= 0 ? pump->terminal : pump->from_output;
        struct pollfd fds[] = {
                { .fd = pump->agent, .events = POLLIN },
                { .fd = signals, .events = POLLIN },
                { .fd = outward, .events = POLLIN },
                { .fd = pump->from_errors, .events = POLLIN },
                { .fd = -1, .events = POLLIN }, /* input, when there is room for more of it */
                { .fd = -1 },                   /* where it goes */
        };
        struct signalfd_siginfo info;

        if (pump->n_pending) {
                fds[5].fd = inward;
                fds[5].events = POLLOUT;
        } else if (inward >= 0) {
                fds[4].fd = pump->input;
        }
        if (pump->to_input >= 0)
                fds[5].fd = inward; /* without events: it tells of its end */

        if (poll(fds, sizeof fds / sizeof *fds, clock_left_ms(pump->due_ns)) < 0 && errno != EINTR)
                return err_errno(err, "cannot wait");
        if (pump->due_ns != CLOCK_NEVER && clock_ns() >= pump->due_ns)
                return err_set(err, ETIMEDOUT, "it did not end within its time limit");

        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
                pump_signal(pump, (int)info.ssi_signo);

        if (fds[2].revents && !pump_carry(pump, outward, pump->output))
                close_fd(pump->terminal >= 0 ? &pump->terminal : &pump->from_output);
        if (fds[3].revents && !pump_carry(pump, pump->from_errors, pump->errors))
                close_fd(&pump->from_errors);
        if (fds[4].revents && !feed_read(pump))
                input_end(pump);
        if (pump->n_pending && fds[5].revents && inward >= 0 && !feed_write(pump, inward))
                input_end(pump);
        if (pump->to_input >= 0 && (fds[5].revents & POLLERR))
                input_end(pump);

        if (fds[0].revents)
                return pump_reply(pump, ret_status, err);

        return 0;
}

int pump_run(struct pump *pump, int *ret_status, struct err *err) {
        static const int handed_on[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH };
        struct termios before;
        bool raw = pump->terminal >= 0 && tcgetattr(pump->input, &before) == 0;
        int input = pump->input, r = 0;
        sigset_t mask;

        sigemptyset(&mask);
        (void)signal(SIGPIPE, SIG_IGN);
        cleanup(close_fd) int signals = signals_catch(handed_on, sizeof handed_on / sizeof *handed_on, &mask);

        if (raw) {
                struct termios now = before;

                cfmakeraw(&now);
                (void)tcsetattr(input, TCSADRAIN, &now);
        }

        (void)fd_set_nonblocking(pump->terminal >= 0 ? pump->terminal : pump->to_input, true);
        while (r == 0)
                r = pump_step(pump, signals, ret_status, err);

        if (r > 0)
                pump_drain(pump);
        if (raw)
                (void)tcsetattr(input, TCSADRAIN, &before);

        sigprocmask(SIG_SETMASK, &mask, NULL);
        if (r < 0)
                return r;

        return 0;
}
