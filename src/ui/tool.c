/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs verbs as children: everything that is not live is done by its verb, so that the page can do neither more nor
 * less. The arguments are ours; a value from a request is one argument, after "--" if it could be taken for an option.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "ui/ui_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOL_NS (60 * NS_PER_SECOND)
enum { READ_BYTES = 65536 };

void tool_free(struct tool *tool) {
        if (tool->pid > 0) {
                kill(tool->pid, SIGKILL);
                waitpid(tool->pid, NULL, 0);
        }

        close_fd(&tool->out);
        close_fd(&tool->errors);
        buf_done(&tool->text);
        buf_done(&tool->error_text);
        free(tool);
}

static int spawn_self(const char *const *words, int out, int errors, pid_t *ret_pid) {
        cleanup(free_ptr) char *self = realpath("/proc/self/exe", NULL);
        const char *argv[16] = { "bailey" };
        struct err ignored = { 0 };
        size_t n = 1;

        if (!self)
                return -errno;

        for (; words[n - 1] && n < 15; n++)
                argv[n] = words[n - 1];

        const struct spawn spawn = { .program = self,
                                     .argv = (char *const *)argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = out,
                                     .errors = errors };
        return spawn_start(&spawn, ret_pid, &ignored);
}

void tool_start(struct ui *ui, const struct ui_request *request, const char *const *words, const char *type) {
        cleanup(close_fd) int out_read = -1, out_write = -1, error_read = -1, error_write = -1;
        struct tool *tool = NULL;
        int out[2], errors[2], pid = 0;

        if (ui->tools.n >= UI_TOOLS_MAX) {
                connection_fault(request->connection, 503, "too much is being looked up at once; try again");
                return;
        }

        if (pipe2(out, O_CLOEXEC) == 0) {
                out_read = out[0];
                out_write = out[1];
        }

        if (pipe2(errors, O_CLOEXEC) == 0) {
                error_read = errors[0];
                error_write = errors[1];
        }

        tool = calloc(1, sizeof *tool);
        if (out_read < 0 || error_read < 0 || !tool || vec_reserve(&ui->tools, 1) < 0 ||
            fd_set_nonblocking(out_read, true) < 0 || fd_set_nonblocking(error_read, true) < 0 ||
            spawn_self(words, out_write, error_write, &pid) < 0) {
                free(tool);
                connection_fault(request->connection, 500, "the verb could not be started");
                return;
        }

        *tool = (struct tool){ .pid = pid,
                               .out = take_fd(&out_read),
                               .errors = take_fd(&error_read),
                               .ticket = ui_ticket(ui, request->connection),
                               .deadline_ns = clock_ns() + TOOL_NS,
                               .text = BUF(UI_REPLY_MAX),
                               .error_text = BUF(READ_BYTES),
                               .type = type };
        (void)vec_push(&ui->tools, tool); /* the room was reserved */
}

/* True at the end of it. */
static bool tool_drain(int *fd, struct buf *into) {
        for (;;) {
                char bytes[READ_BYTES];
                ssize_t n = read(*fd, bytes, sizeof bytes);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return false;
                if (n <= 0 || buf_append(into, str_n(bytes, (size_t)n)) < 0)
                        return true;
        }
}

static void tool_end(struct ui *ui, struct tool *tool) {
        int status = 0;

        waitpid(tool->pid, &status, 0);
        tool->pid = 0;

        /* 1 is an answer too: "not whole", "denied". */
        bool answered = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 1 && tool->text.n));
        if (answered && tool->text.n)
                ui_reply(ui, tool->ticket, 200, tool->type, buf_str(&tool->text));
        else if (answered)
                ui_reply(ui, tool->ticket, 200, "application/json", STR("{}"));
        else
                ui_reply_fault(ui, tool->ticket, 409,
                               tool->error_text.n && buf_text(&tool->error_text) ? buf_text(&tool->error_text)
                                                                                 : "the verb failed");
}

void tool_step(struct ui *ui, struct tool *tool) {
        if (tool->errors >= 0 && tool_drain(&tool->errors, &tool->error_text))
                close_fd(&tool->errors);
        if (tool->out >= 0 && tool_drain(&tool->out, &tool->text))
                close_fd(&tool->out);

        if (tool->out < 0 && tool->errors < 0) {
                tool_end(ui, tool);
        } else if (clock_ns() > tool->deadline_ns) {
                ui_reply_fault(ui, tool->ticket, 504, "the verb took too long");
                close_fd(&tool->out);
                close_fd(&tool->errors);
        }
}
