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

int program_open(struct program_call *call, struct ipc_message *m) {
        struct worker *w = call->worker;
        int r;

        call->id = ++w->programs_ever << WORKER_BITS | w->index;
        m->id = call->id;
        r = control_send(w->gateway->control, m);
        if (r < 0) {
                call->id = 0;
                return r;
        }
        link_append(&w->programs, &call->link);
        return 0;
}

void program_close(struct program_call *call) {
        const struct ipc_message m = { .kind = IPC_PROGRAM_GONE, .id = call->id };

        if (!call->id)
                return;
        link_remove(&call->link);
        call->id = 0;
        (void)control_send(call->worker->gateway->control, &m); /* without memory it ends when its socket does */
}

struct heard {
        struct task task;
        struct worker *worker;
        struct ipc_message message;
        int fd;
};

static void on_heard(struct task *t) {
        cleanup(free_ptr) struct heard *h = link_owner(t, struct heard, task);
        cleanup(close_fd) int fd = h->fd;

        for (struct link *l = h->worker->programs.next; l != &h->worker->programs; l = l->next) {
                struct program_call *call = link_owner(l, struct program_call, link);
                if (call->id != h->message.id)
                        continue;
                if (h->message.kind == IPC_PROGRAM_FD)
                        call->on_fd(call, (enum ipc_program_fd)h->message.number, take_fd(&fd));
                else
                        call->on_status(call, (int)h->message.number, h->message.text);
                return;
        }
}

void program_heard(struct gateway *g, const struct ipc_message *m, int fd) {
        cleanup(close_fd) int own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        uint64_t index = m->id & ((1U << WORKER_BITS) - 1);
        struct heard *h = index < g->n_workers ? malloc(sizeof *h) : NULL;

        if (!h)
                return; /* the session's time limit ends it */
        *h = (struct heard){ .worker = g->workers[index], .message = *m, .fd = take_fd(&own) };
        task_init(&h->task, on_heard);
        loop_post(h->worker->loop, &h->task);
}
