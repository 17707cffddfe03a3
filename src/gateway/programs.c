/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/programs.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "gateway/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* The number of a call says which worker it belongs to. */
enum { WORKER_BITS = 8 };

int program_open(struct program_call *call, struct ipc_message *message) {
        struct worker *worker = call->worker;
        int r;

        call->id = ++worker->programs_ever << WORKER_BITS | worker->index;
        message->id = call->id;
        r = control_send(worker->gateway->control, message);
        if (r < 0) {
                call->id = 0;
                return r;
        }

        link_append(&worker->programs, &call->link);
        return 0;
}

void program_close(struct program_call *call) {
        const struct ipc_message message = { .kind = IPC_PROGRAM_GONE, .id = call->id };

        if (!call->id)
                return;
        link_remove(&call->link);
        call->id = 0;
        (void)control_send(call->worker->gateway->control, &message); /* without memory it ends when its socket does */
}

struct heard {
        struct task task;
        struct worker *worker;
        struct ipc_message message;
        int fd;
};

static void on_heard(struct task *t) {
        cleanup(free_ptr) struct heard *heard = link_owner(t, struct heard, task);
        cleanup(close_fd) int fd = heard->fd;

        for (struct link *l = heard->worker->programs.next; l != &heard->worker->programs; l = l->next) {
                struct program_call *call = link_owner(l, struct program_call, link);
                if (call->id != heard->message.id)
                        continue;

                if (heard->message.kind == IPC_PROGRAM_FD)
                        call->on_fd(call, (enum ipc_program_fd)heard->message.number, take_fd(&fd));
                else
                        call->on_status(call, (int)heard->message.number, heard->message.text);

                return;
        }
}

void program_heard(struct gateway *gateway, const struct ipc_message *message, int fd) {
        cleanup(close_fd) int own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        uint64_t index = message->id & ((1U << WORKER_BITS) - 1);
        struct heard *heard = index < gateway->n_workers ? malloc(sizeof *heard) : NULL;

        if (!heard)
                return; /* the session's time limit ends it */

        *heard = (struct heard){ .worker = gateway->workers[index], .message = *message, .fd = take_fd(&own) };
        task_init(&heard->task, on_heard);
        loop_post(heard->worker->loop, &heard->task);
}
