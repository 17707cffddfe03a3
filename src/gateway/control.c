/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/control.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "gateway/ask.h"
#include "gateway/creds/vault_client.h"
#include "gateway/load/quota.h"
#include "gateway/programs.h"
#include "gateway/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The supervisor is trusted, yet every message is checked (ipc/gateway_messages.h): one that is malformed means that
 * something is broken, and the gateway ends rather than guesses. When the supervisor goes away the gateway ends too.
 *
 * The socket is non-blocking. Messages to the supervisor are few (a question, its withdrawal); those that do not fit
 * wait in order, up to a limit that only a supervisor that has stopped working can reach.
 */
enum { OUTGOING_MAX = 4096 };

struct question {
        struct link link;
        uint64_t id;
        struct authority target;
        bool single; /* about one request: nobody else waits for its answer */
        struct {
                uint64_t serial; /* 0: this worker does not wait */
        } waiting[];             /* by worker */
};

struct outgoing {
        struct link link;
        struct ipc_message message;
};

struct control {
        struct gateway *gateway;
        struct loop *loop;
        int fd;
        struct watch watch;
        struct link questions;
        struct link outgoing;
        size_t n_outgoing;
        uint64_t last_id;
        unsigned swaps_left; /* workers that have not taken the newest policy yet */
        uint32_t swap_generation;
};

static void control_finish(struct control *control, const char *why) {
        log_debug("control: ending: %s", why);
        loop_stop(control->loop);
}

/* out */

static void watch_for(struct control *control);

static void control_flush(struct control *control) {
        while (!link_is_empty(&control->outgoing)) {
                struct outgoing *outgoing = link_owner(control->outgoing.next, struct outgoing, link);
                int r = ipc_send(control->fd, IPC_GATEWAY, &outgoing->message, -1);
                if (r == -EAGAIN)
                        break;

                link_remove(&outgoing->link);
                control->n_outgoing--;
                free(outgoing);

                if (r < 0) {
                        control_finish(control, "the supervisor does not listen");
                        return;
                }
        }

        watch_for(control);
}

static void control_say(struct control *control, const struct ipc_message *message) {
        struct outgoing *outgoing = control->n_outgoing < OUTGOING_MAX ? calloc(1, sizeof *outgoing) : NULL;
        if (!outgoing) {
                control_finish(control, "too many messages wait for the supervisor");
                return;
        }

        outgoing->message = *message;
        link_append(&control->outgoing, &outgoing->link);
        control->n_outgoing++;
        control_flush(control);
}

struct sending {
        struct task task;
        struct control *control;
        struct ipc_message message;
};

static void on_sending(struct task *t) {
        cleanup(free_ptr) struct sending *sending = link_owner(t, struct sending, task);

        control_say(sending->control, &sending->message);
}

int control_send(struct control *control, const struct ipc_message *message) {
        struct sending *sending = malloc(sizeof *sending);

        if (!sending)
                return -ENOMEM;

        *sending = (struct sending){ .control = control, .message = *message };
        task_init(&sending->task, on_sending);
        loop_post(control->loop, &sending->task);

        return 0;
}

void control_ready(struct control *control) {
        control_say(control, &(struct ipc_message){ .kind = IPC_READY });
}

void control_failed(struct control *control, const char *why) {
        struct ipc_message message = { .kind = IPC_FAILED };
        snprintf(message.text, sizeof message.text, "%s", why);
        control_say(control, &message);
}

/* workers */

static void on_call(struct task *task) {
        struct worker *worker = link_owner(task, struct worker, call);
        int r = worker_start(worker);

        if (r < 0)
                log_error("cannot start a worker thread: %s",
                          strerror(-r)); /* those that run go on; it is called again */
}

void control_call_worker(struct control *control, struct worker *worker) {
        unsigned rests = WORKER_RESTS;

        if (!atomic_compare_exchange_strong(&worker->stage, &rests, WORKER_CALLED))
                return;

        task_init(&worker->call, on_call);
        loop_post(control->loop, &worker->call);
}

/* policies */

struct swap {
        struct task task;
        struct control *control;
        struct worker *worker;
        struct policy_ref *policy;
        uint32_t generation;
};

/* Only the newest policy is announced, and when every worker has taken that one: what is still heard of an older swap
 * does not count for it. */
static void on_swapped(struct task *t) {
        struct swap *swap = link_owner(t, struct swap, task);
        struct control *control = swap->control;
        if (swap->generation == control->swap_generation && control->swaps_left > 0 && --control->swaps_left == 0)
                control_say(control, &(struct ipc_message){ .kind = IPC_SWAPPED, .number = control->swap_generation });
        free(swap);
}

static void on_swap(struct task *t) {
        struct swap *swap = link_owner(t, struct swap, task);
        worker_set_policy(swap->worker, swap->policy);
        ask_judge_again(swap->worker);
        task_init(&swap->task, on_swapped);
        loop_post(swap->control->loop, &swap->task);
}

/* All or none: the tasks are allocated before the first worker is told. */
static int swap_policy(struct control *control, int fd, uint64_t generation, struct err *err) {
        struct gateway *gateway = control->gateway;
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;
        int r = snapshot_open_fd(fd, &snapshot, err);
        if (r < 0)
                return r;

        struct policy_ref *ref = policy_ref_new(snapshot, (uint32_t)generation);
        if (!ref)
                return err_set(err, ENOMEM, "no memory for a policy");

        snapshot = NULL;
        VEC(struct swap *) swaps = { 0 };

        for (unsigned i = 0; i < gateway->n_workers; i++) {
                struct swap *s = calloc(1, sizeof *s);
                if (!s || vec_push(&swaps, s) < 0) {
                        free(s);
                        r = err_set(err, ENOMEM, "no memory to change the policy");
                        break;
                }
        }

        for (size_t i = 0; i < swaps.n; i++) {
                if (r < 0) {
                        free(swaps.p[i]);
                        continue;
                }

                *swaps.p[i] = (struct swap){ .control = control,
                                             .worker = gateway->workers[i],
                                             .policy = policy_ref_get(ref),
                                             .generation = (uint32_t)generation };
                task_init(&swaps.p[i]->task, on_swap);
                worker_tell(gateway->workers[i], &swaps.p[i]->task);
        }

        if (r == 0) {
                control->swaps_left = gateway->n_workers; /* an earlier swap that is not complete yet is overtaken */
                control->swap_generation = (uint32_t)generation;
        }

        vec_done(&swaps);
        policy_ref_put(ref);

        return r;
}

/* limits */

struct change {
        struct task task;
        struct worker *worker;
        struct gateway_limits limits;
        uint64_t ask_timeout_ns;
};

static void on_change(struct task *t) {
        cleanup(free_ptr) struct change *change = link_owner(t, struct change, task);
        change->worker->limits = change->limits;
        change->worker->ask_timeout_ns = change->ask_timeout_ns;
}

static int change_limits(struct control *control, int fd, struct err *err) {
        struct gateway_start block;
        int r = gateway_start_read(fd, &block, err);
        if (r < 0)
                return r;

        const struct change what = { .limits = gateway_start_limits(&block), .ask_timeout_ns = block.ask_timeout_ns };

        for (unsigned i = 0; i < control->gateway->n_workers; i++) {
                struct change *change = malloc(sizeof *change);
                if (!change)
                        return err_set(err, ENOMEM, "no memory to change the limits");

                *change = what;
                change->worker = control->gateway->workers[i];
                task_init(&change->task, on_change);
                worker_tell(change->worker, &change->task);
        }

        quota_set(control->gateway->quota, &what.limits);
        return 0;
}

/* questions */

struct note { /* from a worker to this thread, or an answer back */
        struct task task;
        struct control *control;
        struct worker *worker;
        uint64_t serial;
        struct authority target;
        char question[GATE_QUESTION_MAX];
        uint8_t via, decision;
        bool expired;
};

static void control_drop(struct question *question) {
        link_remove(&question->link);
        free(question);
}

static void on_ask(struct task *t) {
        cleanup(free_ptr) struct note *note = link_owner(t, struct note, task);
        struct control *control = note->control;
        for (struct link *l = control->questions.next; l != &control->questions; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->target.port != note->target.port || !host_equal(&q->target.host, &note->target.host) ||
                    q->single || gate_asks_apart(note->question))
                        continue;

                q->waiting[note->worker->index].serial = note->serial;
                return;
        }

        struct question *q = calloc(1, sizeof *q + control->gateway->n_workers * sizeof q->waiting[0]);
        if (!q)
                return; /* the callers' time limits end it */

        q->id = ++control->last_id;
        q->target = note->target;
        q->single = gate_asks_apart(note->question);
        q->waiting[note->worker->index].serial = note->serial;
        link_append(&control->questions, &q->link);

        struct ipc_message asks = { .kind = IPC_ASK, .id = q->id, .authority = q->target, .number = note->via };
        memcpy(asks.text, note->question, sizeof asks.text);
        control_say(control, &asks);
}

static void on_gone(struct task *t) {
        cleanup(free_ptr) struct note *note = link_owner(t, struct note, task);
        struct control *control = note->control;
        for (struct link *l = control->questions.next; l != &control->questions; l = l->next) {
                struct question *question = link_owner(l, struct question, link);
                if (question->waiting[note->worker->index].serial != note->serial)
                        continue;

                question->waiting[note->worker->index].serial = 0;

                for (unsigned i = 0; i < control->gateway->n_workers; i++)
                        if (question->waiting[i].serial)
                                return;

                control_say(control,
                            &(struct ipc_message){ .kind = IPC_ASK_GONE, .id = question->id, .number = note->expired });
                control_drop(question);
                return;
        }
}

static void on_answer(struct task *t) {
        cleanup(free_ptr) struct note *note = link_owner(t, struct note, task);
        ask_answer(note->worker, note->serial, (enum decision)note->decision);
}

static int post_note(struct loop *to, const struct note *what, task_fn *fn) {
        struct note *note = malloc(sizeof *note);
        if (!note)
                return -ENOMEM;
        *note = *what;
        task_init(&note->task, fn);
        loop_post(to, &note->task);
        return 0;
}

int control_ask(struct control *control, struct worker *worker, uint64_t serial, const struct authority *target,
                uint8_t via, const char *question) {
        struct note note = { .control = control, .worker = worker, .serial = serial, .target = *target, .via = via };
        (void)snprintf(note.question, sizeof note.question, "%s", question);
        return post_note(control->loop, &note, on_ask);
}

void control_ask_gone(struct control *control, struct worker *worker, uint64_t serial, bool expired) {
        struct note note = { .control = control, .worker = worker, .serial = serial, .expired = expired };
        post_note(control->loop, &note,
                  on_gone); /* without memory the question stays: harmless, nobody acts on its answer */
}

static void control_answered(struct control *control, uint64_t id, uint64_t decision) {
        for (struct link *l = control->questions.next; l != &control->questions; l = l->next) {
                struct question *question = link_owner(l, struct question, link);
                if (question->id != id)
                        continue;

                for (unsigned i = 0; i < control->gateway->n_workers; i++) {
                        struct worker *worker = control->gateway->workers[i];
                        struct note note = { .worker = worker,
                                             .serial = question->waiting[i].serial,
                                             .decision = (uint8_t)decision };
                        if (note.serial)
                                post_note(worker->loop, &note, on_answer);
                }

                control_drop(question);
                return;
        }
}

/* vaults */

struct arrival {
        struct task task;
        struct worker *worker;
        int fd;
};

static void on_arrival(struct task *t) {
        struct arrival *arrival = link_owner(t, struct arrival, task);
        vault_client_connect(arrival->worker->vault, arrival->fd);
        free(arrival);
}

static int bring_vault(struct control *control, int fd, uint64_t worker) {
        if (!control->gateway->tls || worker >= control->gateway->n_workers)
                return -EINVAL;

        struct arrival *arrival = malloc(sizeof *arrival);
        if (!arrival)
                return -ENOMEM;

        arrival->worker = control->gateway->workers[worker];
        arrival->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (arrival->fd < 0) {
                free(arrival);
                return -errno;
        }

        task_init(&arrival->task, on_arrival);
        worker_tell(arrival->worker, &arrival->task);

        return 0;
}

/* in */

static void control_act(struct control *control, const struct ipc_message *message, int fd) {
        struct err err = { 0 };

        switch (message->kind) {
        case IPC_SNAPSHOT:
                if (swap_policy(control, fd, message->number, &err) < 0) {
                        /* The supervisor validated it: this is a failure of one of us, and the old rules may be too
                         * wide. */
                        control_failed(control, err_text(&err));
                        control_finish(control, err_text(&err));
                }
                return;
        case IPC_GO:
                if (worker_start(control->gateway->workers[0]) < 0) {
                        control_failed(control, "cannot start a worker thread");
                        control_finish(control, "cannot start a worker thread");
                }
                return;
        case IPC_AUDIT:
                atomic_store(&control->gateway->audit_fails, message->number == 0);
                return;
        case IPC_ANSWER:
                control_answered(control, message->id, message->number);

                return;
        case IPC_LIMITS:
                if (change_limits(control, fd, &err) < 0) {
                        control_failed(control, err_text(&err));
                        control_finish(control, err_text(&err));
                }
                return;
        case IPC_PROGRAM_FD:
        case IPC_PROGRAM_STATUS:
                program_heard(control->gateway, message, fd);

                return;
        case IPC_VAULT:
                if (bring_vault(control, fd, message->number) < 0)
                        control_finish(control, "a vault for no worker");
                return;
        default:
                control_finish(control, "told to stop");
        }
}

static void on_watch(struct watch *w, unsigned ready) {
        struct control *control = link_owner(w, struct control, watch);

        if (ready & WATCH_WRITE)
                control_flush(control);

        for (int i = 0; i < 64; i++) {
                struct ipc_message message;
                cleanup(close_fd) int fd = -1;
                int r = ipc_receive(control->fd, IPC_SUPERVISOR, &message, &fd);
                if (r == -EAGAIN)
                        return;

                if (r <= 0) {
                        control_finish(control,
                                       r == 0 ? "the supervisor has gone" : "a malformed message from the supervisor");
                        return;
                }

                control_act(control, &message, fd);
        }
}

static void watch_for(struct control *control) {
        unsigned interest = WATCH_READ | (link_is_empty(&control->outgoing) ? 0u : WATCH_WRITE);
        if (watch_start_level(control->loop, &control->watch, control->fd, interest, on_watch) < 0)
                control_finish(control, "cannot watch the control socket");
}

int control_new(struct gateway *gateway, struct loop *loop, int fd, struct control **ret, struct err *err) {
        int r = fd_set_nonblocking(fd, true);
        if (r < 0)
                return err_set(err, -r, "the control socket cannot be made non-blocking");

        struct control *control = calloc(1, sizeof *control);
        if (!control)
                return err_set(err, ENOMEM, "no memory for the control channel");

        control->gateway = gateway;
        control->loop = loop;
        control->fd = fd;
        link_init(&control->questions);
        link_init(&control->outgoing);
        watch_for(control);
        *ret = control;

        return 0;
}

void control_free(struct control *control) {
        if (!control)
                return;

        watch_stop(&control->watch);
        while (!link_is_empty(&control->questions))
                control_drop(link_owner(control->questions.next, struct question, link));

        while (!link_is_empty(&control->outgoing)) {
                struct link *l = control->outgoing.next;

                link_remove(l);
                free(link_owner(l, struct outgoing, link));
        }

        free(control);
}
