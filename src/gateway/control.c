/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/control.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "gateway/ask.h"
#include "gateway/creds/vault_client.h"
#include "gateway/programs.h"
#include "gateway/quota.h"
#include "gateway/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The supervisor is trusted, yet every message is checked (ipc/gateway.h): one that is malformed means that something
 * is broken, and the gateway ends rather than guesses. When the supervisor goes away the gateway ends too.
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

static void finish(struct control *c, const char *why) {
        log_debug("control: ending: %s", why);
        loop_stop(c->loop);
}

/* out */

static void watch_for(struct control *c);

static void flush(struct control *c) {
        while (!link_is_empty(&c->outgoing)) {
                struct outgoing *o = link_owner(c->outgoing.next, struct outgoing, link);
                int r = ipc_send(c->fd, IPC_GATEWAY, &o->message, -1);
                if (r == -EAGAIN)
                        break;
                link_remove(&o->link);
                c->n_outgoing--;
                free(o);
                if (r < 0) {
                        finish(c, "the supervisor does not listen");
                        return;
                }
        }
        watch_for(c);
}

static void say(struct control *c, const struct ipc_message *m) {
        struct outgoing *o = c->n_outgoing < OUTGOING_MAX ? calloc(1, sizeof *o) : NULL;
        if (!o) {
                finish(c, "too many messages wait for the supervisor");
                return;
        }
        o->message = *m;
        link_append(&c->outgoing, &o->link);
        c->n_outgoing++;
        flush(c);
}

struct sending {
        struct task task;
        struct control *control;
        struct ipc_message message;
};

static void on_sending(struct task *t) {
        cleanup(free_ptr) struct sending *sending = link_owner(t, struct sending, task);

        say(sending->control, &sending->message);
}

int control_send(struct control *c, const struct ipc_message *message) {
        struct sending *sending = malloc(sizeof *sending);

        if (!sending)
                return -ENOMEM;
        *sending = (struct sending){ .control = c, .message = *message };
        task_init(&sending->task, on_sending);
        loop_post(c->loop, &sending->task);
        return 0;
}

void control_ready(struct control *c) {
        say(c, &(struct ipc_message){ .kind = IPC_READY });
}

void control_failed(struct control *c, const char *why) {
        struct ipc_message m = { .kind = IPC_FAILED };
        snprintf(m.text, sizeof m.text, "%s", why);
        say(c, &m);
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
        struct swap *s = link_owner(t, struct swap, task);
        struct control *c = s->control;
        if (s->generation == c->swap_generation && c->swaps_left > 0 && --c->swaps_left == 0)
                say(c, &(struct ipc_message){ .kind = IPC_SWAPPED, .number = c->swap_generation });
        free(s);
}

static void on_swap(struct task *t) {
        struct swap *s = link_owner(t, struct swap, task);
        worker_set_policy(s->worker, s->policy);
        ask_judge_again(s->worker);
        task_init(&s->task, on_swapped);
        loop_post(s->control->loop, &s->task);
}

/* All or none: the tasks are allocated before the first worker is told. */
static int swap_policy(struct control *c, int fd, uint64_t generation, struct err *e) {
        struct gateway *g = c->gateway;
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;
        int r = snapshot_open_fd(fd, &snapshot, e);
        if (r < 0)
                return r;
        struct policy_ref *p = policy_ref_new(snapshot, (uint32_t)generation);
        if (!p)
                return err_set(e, ENOMEM, "no memory for a policy");
        snapshot = NULL;
        VEC(struct swap *) swaps = { 0 };
        for (unsigned i = 0; i < g->n_workers; i++) {
                struct swap *s = calloc(1, sizeof *s);
                if (!s || vec_push(&swaps, s) < 0) {
                        free(s);
                        r = err_set(e, ENOMEM, "no memory to change the policy");
                        break;
                }
        }
        for (size_t i = 0; i < swaps.n; i++) {
                if (r < 0) {
                        free(swaps.p[i]);
                        continue;
                }
                *swaps.p[i] = (struct swap){ .control = c,
                                             .worker = g->workers[i],
                                             .policy = policy_ref_get(p),
                                             .generation = (uint32_t)generation };
                task_init(&swaps.p[i]->task, on_swap);
                loop_post(g->workers[i]->loop, &swaps.p[i]->task);
        }
        if (r == 0) {
                c->swaps_left = g->n_workers; /* an earlier swap that is not complete yet is overtaken */
                c->swap_generation = (uint32_t)generation;
        }
        vec_done(&swaps);
        policy_ref_put(p);
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

static int change_limits(struct control *c, int fd, struct err *e) {
        struct gateway_start block;
        int r = gateway_start_read(fd, &block, e);
        if (r < 0)
                return r;
        const struct change what = { .limits = gateway_start_limits(&block), .ask_timeout_ns = block.ask_timeout_ns };
        for (unsigned i = 0; i < c->gateway->n_workers; i++) {
                struct change *change = malloc(sizeof *change);
                if (!change)
                        return err_set(e, ENOMEM, "no memory to change the limits");
                *change = what;
                change->worker = c->gateway->workers[i];
                task_init(&change->task, on_change);
                loop_post(change->worker->loop, &change->task);
        }
        quota_set(c->gateway->quota, &what.limits);
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

static void drop(struct question *q) {
        link_remove(&q->link);
        free(q);
}

static void on_ask(struct task *t) {
        cleanup(free_ptr) struct note *n = link_owner(t, struct note, task);
        struct control *c = n->control;
        for (struct link *l = c->questions.next; l != &c->questions; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->target.port != n->target.port || !host_equal(&q->target.host, &n->target.host) || q->single ||
                    gate_asks_apart(n->question))
                        continue;
                q->waiting[n->worker->index].serial = n->serial;
                return;
        }
        struct question *q = calloc(1, sizeof *q + c->gateway->n_workers * sizeof q->waiting[0]);
        if (!q)
                return; /* the callers' time limits end it */
        q->id = ++c->last_id;
        q->target = n->target;
        q->single = gate_asks_apart(n->question);
        q->waiting[n->worker->index].serial = n->serial;
        link_append(&c->questions, &q->link);
        struct ipc_message asks = { .kind = IPC_ASK, .id = q->id, .authority = q->target, .number = n->via };
        memcpy(asks.text, n->question, sizeof asks.text);
        say(c, &asks);
}

static void on_gone(struct task *t) {
        cleanup(free_ptr) struct note *n = link_owner(t, struct note, task);
        struct control *c = n->control;
        for (struct link *l = c->questions.next; l != &c->questions; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->waiting[n->worker->index].serial != n->serial)
                        continue;
                q->waiting[n->worker->index].serial = 0;
                for (unsigned i = 0; i < c->gateway->n_workers; i++)
                        if (q->waiting[i].serial)
                                return;
                say(c, &(struct ipc_message){ .kind = IPC_ASK_GONE, .id = q->id, .number = n->expired });
                drop(q);
                return;
        }
}

static void on_answer(struct task *t) {
        cleanup(free_ptr) struct note *n = link_owner(t, struct note, task);
        ask_answer(n->worker, n->serial, (enum decision)n->decision);
}

static int post_note(struct loop *to, const struct note *what, task_fn *fn) {
        struct note *n = malloc(sizeof *n);
        if (!n)
                return -ENOMEM;
        *n = *what;
        task_init(&n->task, fn);
        loop_post(to, &n->task);
        return 0;
}

int control_ask(struct control *c, struct worker *w, uint64_t serial, const struct authority *target, uint8_t via,
                const char *question) {
        struct note n = { .control = c, .worker = w, .serial = serial, .target = *target, .via = via };
        (void)snprintf(n.question, sizeof n.question, "%s", question);
        return post_note(c->loop, &n, on_ask);
}

void control_ask_gone(struct control *c, struct worker *w, uint64_t serial, bool expired) {
        struct note n = { .control = c, .worker = w, .serial = serial, .expired = expired };
        post_note(c->loop, &n, on_gone); /* without memory the question stays: harmless, nobody acts on its answer */
}

static void answered(struct control *c, uint64_t id, uint64_t decision) {
        for (struct link *l = c->questions.next; l != &c->questions; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->id != id)
                        continue;
                for (unsigned i = 0; i < c->gateway->n_workers; i++) {
                        struct worker *w = c->gateway->workers[i];
                        struct note n = { .worker = w, .serial = q->waiting[i].serial, .decision = (uint8_t)decision };
                        if (n.serial)
                                post_note(w->loop, &n, on_answer);
                }
                drop(q);
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
        struct arrival *a = link_owner(t, struct arrival, task);
        vault_client_connect(a->worker->vault, a->fd);
        free(a);
}

static int bring_vault(struct control *c, int fd, uint64_t worker) {
        if (!c->gateway->tls || worker >= c->gateway->n_workers)
                return -EINVAL;
        struct arrival *a = malloc(sizeof *a);
        if (!a)
                return -ENOMEM;
        a->worker = c->gateway->workers[worker];
        a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (a->fd < 0) {
                free(a);
                return -errno;
        }
        task_init(&a->task, on_arrival);
        loop_post(a->worker->loop, &a->task);
        return 0;
}

/* in */

static void act(struct control *c, const struct ipc_message *m, int fd) {
        struct err e = { 0 };
        switch (m->kind) {
        case IPC_SNAPSHOT:
                if (swap_policy(c, fd, m->number, &e) < 0) {
                        /* The supervisor validated it: this is a failure of one of us, and the old rules may be too
                         * wide. */
                        control_failed(c, err_text(&e));
                        finish(c, err_text(&e));
                }
                return;
        case IPC_AUDIT:
                atomic_store(&c->gateway->audit_fails, m->number == 0);
                return;
        case IPC_ANSWER:
                answered(c, m->id, m->number);
                return;
        case IPC_LIMITS:
                if (change_limits(c, fd, &e) < 0) {
                        control_failed(c, err_text(&e));
                        finish(c, err_text(&e));
                }
                return;
        case IPC_PROGRAM_FD:
        case IPC_PROGRAM_STATUS:
                program_heard(c->gateway, m, fd);
                return;
        case IPC_VAULT:
                if (bring_vault(c, fd, m->number) < 0)
                        finish(c, "a vault for no worker");
                return;
        default:
                finish(c, "told to stop");
        }
}

static void on_watch(struct watch *w, unsigned ready) {
        struct control *c = link_owner(w, struct control, watch);
        if (ready & WATCH_WRITE)
                flush(c);
        for (int i = 0; i < 64; i++) {
                struct ipc_message m;
                cleanup(close_fd) int fd = -1;
                int r = ipc_receive(c->fd, IPC_SUPERVISOR, &m, &fd);
                if (r == -EAGAIN)
                        return;
                if (r <= 0) {
                        finish(c, r == 0 ? "the supervisor has gone" : "a malformed message from the supervisor");
                        return;
                }
                act(c, &m, fd);
        }
}

static void watch_for(struct control *c) {
        unsigned interest = WATCH_READ | (link_is_empty(&c->outgoing) ? 0u : WATCH_WRITE);
        if (watch_start_level(c->loop, &c->watch, c->fd, interest, on_watch) < 0)
                finish(c, "cannot watch the control socket");
}

int control_new(struct gateway *g, struct loop *l, int fd, struct control **ret, struct err *e) {
        int r = fd_set_nonblocking(fd, true);
        if (r < 0)
                return err_set(e, -r, "the control socket cannot be made non-blocking");
        struct control *c = calloc(1, sizeof *c);
        if (!c)
                return err_set(e, ENOMEM, "no memory for the control channel");
        c->gateway = g;
        c->loop = l;
        c->fd = fd;
        link_init(&c->questions);
        link_init(&c->outgoing);
        watch_for(c);
        *ret = c;
        return 0;
}

void control_free(struct control *c) {
        if (!c)
                return;
        watch_stop(&c->watch);
        while (!link_is_empty(&c->questions))
                drop(link_owner(c->questions.next, struct question, link));
        while (!link_is_empty(&c->outgoing)) {
                struct link *l = c->outgoing.next;
                link_remove(l);
                free(link_owner(l, struct outgoing, link));
        }
        free(c);
}
