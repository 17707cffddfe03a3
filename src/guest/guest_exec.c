/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_exec.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/agent/agent_wire.h"
#include "guest/guest_pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

enum { SEND_BUFFER = 512 << 10, ANSWER_S = 20 };

static int agent_connect(const struct guest *guest, int *ret, struct err *err) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        int size = SEND_BUFFER;
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/socket", guest->fd);

        if (connect(fd, (struct sockaddr *)&name, sizeof name) < 0) {
                err_blame(err, ERR_UNAVAILABLE);
                return err_set(err, errno, "the guest %s does not run; `bailey guest start %s` starts it",
                               guest->row.name, guest->row.name);
        }

        *ret = take_fd(&fd);
        return 0;
}

static int agent_send(int agent, const struct agent_request *request, const int *fds, size_t n_fds, struct err *err) {
        cleanup(buf_done) struct buf bytes = BUF(AGENT_REQUEST_MAX);
        int r = agent_request_write(request, &bytes);

        if (r < 0)
                return err_set(err, E2BIG, "the command and its variables are longer than %d bytes", AGENT_REQUEST_MAX);
        r = fd_send(agent, buf_str(&bytes), fds, n_fds);
        if (r < 0)
                return err_set(err, -r, "the guest ended: %s", strerror(-r));

        return 0;
}

/* A reply is hostile: its text is cut, its number means nothing by itself. */
static int agent_receive(int agent, struct agent_reply *ret, int *ret_fd, struct err *err) {
        size_t n_fds = 0;
        ssize_t n = fd_receive(agent, ret, sizeof *ret, ret_fd, 1, &n_fds);

        if (n != (ssize_t)sizeof *ret) {
                close_fd(ret_fd);
                return err_set(err, EPIPE, "the guest ended");
        }

        ret->text[sizeof ret->text - 1] = '\0';

        for (char *c = ret->text; *c; c++)
                if ((unsigned char)*c < ' ' || *c == 127)
                        *c = '?';

        return 0;
}

/* The value of its answer. */
static int agent_ask(const struct guest *guest, enum agent_do what, struct err *err) {
        cleanup(close_fd) int agent = -1, none = -1;
        const struct agent_request request = { .what = what, .directory = "" };
        const struct timeval limit = { .tv_sec = ANSWER_S };
        struct agent_reply reply;
        int r = agent_connect(guest, &agent, err);

        if (r == 0 && setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0)
                r = err_errno(err, "cannot limit the time of an answer");
        if (r == 0)
                r = agent_send(agent, &request, NULL, 0, err);
        if (r == 0)
                r = agent_receive(agent, &reply, &none, err);
        if (r == 0 && reply.kind != AGENT_PONG)
                r = err_set(err, EPROTO, "the guest's agent answers something else");
        if (r < 0)
                return r;

        if (reply.value > 0)
                return reply.value;

        return 0;
}

int guest_ping(const struct guest *guest, struct err *err) {
        int r = agent_ask(guest, AGENT_PING, err);

        if (r < 0)
                return r;

        return 0;
}

int guest_sessions(const struct guest *guest) {
        struct err ignored = { 0 };

        return agent_ask(guest, AGENT_PING, &ignored) - 1; /* the question is one */
}

int guest_ask_stop(const struct guest *guest, struct err *err) {
        int r = agent_ask(guest, AGENT_STOP, err);

        if (r < 0)
                return r;

        return 0;
}

static int command_request(const struct guest_command *command, struct agent_request *ret, struct err *err) {
        struct winsize size = { .ws_row = 24, .ws_col = 80 };
        int r = 0;

        ret->what = AGENT_EXEC;
        ret->directory = text_or(command->directory, "");

        if (command->login)
                ret->flags |= AGENT_LOGIN;
        if (command->terminal) {
                ret->flags |= AGENT_TERMINAL;
                (void)ioctl(command->input, TIOCGWINSZ, &size);
        }

        ret->rows = size.ws_row;
        ret->columns = size.ws_col;
        for (char *const *word = command->argv; *word && r == 0; word++)
                r = vec_push(&ret->argv, *word);

        for (char *const *variable = command->variables; variable && *variable && r == 0; variable++)
                r = vec_push(&ret->environment, *variable);

        if (r < 0)
                return err_set(err, ENOMEM, "out of memory");
        if (ret->argv.n > AGENT_WORDS_MAX || ret->environment.n > AGENT_WORDS_MAX)
                return err_set(err, E2BIG, "the command has more than %d words", AGENT_WORDS_MAX);

        return 0;
}

/* Its input, output and errors: one pipe each, this side in the pump. */
static int pipes_open(const struct guest_command *command, struct pump *pump, int inner[static 3], struct err *err) {
        for (int i = 0; i < 3; i++) {
                int ends[2];

                if (pipe2(ends, O_CLOEXEC) < 0)
                        return err_errno(err, "cannot make a pipe");

                inner[i] = ends[i == 0 ? 0 : 1];

                if (i == 0)
                        pump->to_input = ends[1];
                else if (i == 1)
                        pump->from_output = ends[0];
                else
                        pump->from_errors = ends[0];
        }

        if (command->input < 0)
                close_fd(&pump->to_input);

        return 0;
}

/* Only a terminal is shown on ours. */
static int terminal_check(int fd, struct err *err) {
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || !isatty(fd))
                return err_set(err, EPROTO, "the guest's agent gave something else than a terminal");
        return 0;
}

static int command_start(const struct guest *guest, const struct guest_command *command, struct pump *pump,
                         int *ret_status, struct err *err) {
        cleanup(agent_request_done) struct agent_request request = { 0 };
        struct agent_reply reply;
        int inner[3] = { -1, -1, -1 }, terminal = -1;
        int r = command_request(command, &request, err);

        if (r == 0)
                r = agent_connect(guest, &pump->agent, err);
        if (r == 0 && !command->terminal)
                r = pipes_open(command, pump, inner, err);
        if (r == 0)
                r = agent_send(pump->agent, &request, inner, command->terminal ? 0 : 3, err);

        for (int i = 0; i < 3; i++)
                close_fd(&inner[i]);

        if (r == 0)
                r = agent_receive(pump->agent, &reply, &terminal, err);
        if (r < 0)
                return r;

        if (reply.kind == AGENT_FAILED) {
                close_fd(&terminal);
                *ret_status = reply.value == ENOENT ? 127 : 126;
                (void)err_set(err, reply.value > 0 && reply.value < 4096 ? reply.value : EIO, "%s", reply.text);
                return 1;
        }

        if (command->terminal) {
                r = terminal_check(terminal, err);
                if (r < 0) {
                        close_fd(&terminal);
                        return r;
                }

                pump->terminal = terminal;
                return 0;
        }

        close_fd(&terminal);
        return 0;
}

int guest_exec(const struct guest *guest, const struct guest_command *command, void (*started)(void *arg), void *arg,
               int *ret_status, struct err *err) {
        cleanup(pump_done) struct pump pump = PUMP_NONE;
        int r = command_start(guest, command, &pump, ret_status, err);

        if (r < 0)
                return r;
        if (r != 0)
                return 0;
        if (started)
                started(arg);

        pump.input = command->input;
        pump.output = command->output;
        pump.errors = command->errors;
        pump.left = command->output_max ? command->output_max : UINT64_MAX;
        if (command->timeout_ns)
                pump.due_ns = clock_ns() + command->timeout_ns;
        else
                pump.due_ns = CLOCK_NEVER;
        pump.on_output = command->on_output;
        pump.on_output_arg = command->on_output_arg;

        return pump_run(&pump, ret_status, err);
}
