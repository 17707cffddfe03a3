/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/keeper.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEEPER_STACK = 256 << 10 }; /* the broker's first thread goes on with it */

struct keeper {
        struct command *command; /* init's, gone when `started` is posted */
        const struct plan *plan;
        int control, record;
        uint64_t began_ns;
        pid_t pid;
        sem_t started;
};

static int open_reports(int control) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -errno;
        struct sandbox_event event = { .kind = SANDBOX_EVENTS };
        (void)fd_send(control, str_n(&event, offsetof(struct sandbox_event, text)), &ends[0],
                      1); /* gone: then all ends */
        close(ends[0]);
        return ends[1];
}

/* False when no caller is left. A umask needs no judgement, and is no reason to start a process: shells set it when
 * they start. */
static bool await_first_call(int notify, struct seccomp_notif *call, size_t size) {
        for (;;) {
                struct pollfd first = { .fd = notify, .events = POLLIN };
                struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

                while (poll(&first, 1, -1) < 0 && errno == EINTR)
                        ;

                if (!(first.revents & POLLIN))
                        return false;

                memset(call, 0, size);
                if (ioctl(notify, SECCOMP_IOCTL_NOTIF_RECV, call) < 0)
                        continue; /* it is gone again */
                if (call->data.nr != SYS_umask)
                        return true;

                answer.id = call->id;
                (void)ioctl(notify, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
}

/* Without a broker calls that wait would wait for ever: with the descriptor closed they fail. */
static void keeper_keep(const struct keeper *keeper, int taken) {
        cleanup(close_fd) int notify = taken;
        size_t size = broker_call_size();
        cleanup(free_ptr) struct seccomp_notif *first = malloc(size);
        if (!first || !await_first_call(notify, first, size))
                return;

        cleanup(close_fd) int reports = open_reports(keeper->control);
        if (reports >= 0 && fork() == 0)
                broker_main(keeper->plan, notify, reports, keeper->record, keeper->began_ns, first);
}

static void *keeper_main(void *argument) {
        struct keeper *keeper = argument,
                      own = { .plan = keeper->plan, .control = keeper->control, .record = keeper->record };

        prctl(PR_SET_NAME, "bailey-keeper", 0, 0, 0);
        if (command_enter_landlock(keeper->command) < 0)
                keeper->pid = -errno;
        else
                keeper->pid = command_start(keeper->command);
        int notify = keeper->pid > 0 ? keeper->command->notify : -1;
        own.began_ns = clock_ns();
        sem_post(&keeper->started); /* k is not ours any more */

        if (notify >= 0)
                keeper_keep(&own, notify);

        return NULL;
}

pid_t keeper_start_command(struct command *command, int control) {
        static _Alignas(64) char stack[KEEPER_STACK]; /* there is one keeper: no mapping to be made for it */
        struct keeper keeper = {
                .command = command, .plan = command->plan, .control = control, .record = command->record
        };
        pthread_t thread;
        pthread_attr_t small;

        sem_init(&keeper.started, 0, 0);
        pthread_attr_init(&small);
        pthread_attr_setstack(&small, stack, sizeof stack);
        pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
        mallopt(M_ARENA_MAX, 1); /* no second heap for the few bytes that a second thread asks for */

        int r = pthread_create(&thread, &small, keeper_main, &keeper);
        pthread_attr_destroy(&small);
        if (r != 0)
                return -r;

        while (sem_wait(&keeper.started) < 0)
                ;

        sem_destroy(&keeper.started);
        return keeper.pid;
}
