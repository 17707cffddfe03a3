/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ask.h"

#include "gateway/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* More open questions than a person can look at, and more held connections than anyone needs, are an attack. */
enum { QUESTIONS_MAX = 64, CALLS_MAX = 1024 };

struct ask {
        struct link link;  /* in worker.asks */
        struct link calls; /* struct gate_call.asking */
        uint64_t serial;
        struct authority target;
        ask_answered_fn *answered;
        char question[GATE_QUESTION_MAX]; /* "": about the target itself */
};

static uint64_t new_serial(void) {
        static atomic_uint_fast64_t last;
        return atomic_fetch_add(&last, 1) + 1;
}

static struct ask *find(struct worker *w, const struct gate_call *call, const char *question, size_t *ret_asks,
                        size_t *ret_calls) {
        struct ask *found = NULL;
        *ret_asks = *ret_calls = 0;
        for (struct link *l = w->asks.next; l != &w->asks; l = l->next) {
                struct ask *a = link_owner(l, struct ask, link);
                ++*ret_asks;
                for (struct link *k = a->calls.next; k != &a->calls; k = k->next)
                        ++*ret_calls;
                if (a->target.port == call->target.port && host_equal(&a->target.host, &call->target.host) &&
                    !gate_asks_apart(a->question) && !gate_asks_apart(question))
                        found = a; /* what is asked about one request is asked for each anew */
        }
        return found;
}

static void drop(struct ask *a) {
        link_remove(&a->link);
        free(a);
}

/* The question that a held call waits for. */
static const struct ask *find_holder(const struct gate_call *c) {
        for (struct link *l = c->worker->asks.next; l != &c->worker->asks; l = l->next) {
                const struct ask *a = link_owner(l, struct ask, link);
                for (const struct link *k = a->calls.next; k != &a->calls; k = k->next)
                        if (k == &c->asking)
                                return a;
        }
        return NULL;
}

static void on_limit(struct timer *t) {
        struct gate_call *c = link_owner(t, struct gate_call, ask_limit);
        const struct ask *holder = find_holder(c);
        ask_answered_fn *answered = holder ? holder->answered : NULL; /* leaving may free it */

        ask_leave(c, true);
        if (answered)
                answered(c, DECISION_DENY, -ETIMEDOUT);
}

int ask_hold(struct gate_call *c, const char *question, ask_answered_fn *answered) {
        struct worker *w = c->worker;
        size_t asks, calls;
        struct ask *a = find(w, c, question, &asks, &calls);
        if (calls >= CALLS_MAX || (!a && asks >= QUESTIONS_MAX))
                return -ENOSPC;
        if (!a) {
                a = calloc(1, sizeof *a);
                if (!a)
                        return -ENOMEM;
                a->target = c->target;
                a->answered = answered;
                (void)snprintf(a->question, sizeof a->question, "%s", question);
                a->serial = new_serial();
                link_init(&a->calls);
                int r = control_ask(w->gateway->control, w, a->serial, &a->target, c->via, a->question);
                if (r < 0) {
                        free(a);
                        return r;
                }
                link_append(&w->asks, &a->link);
        }
        link_append(&a->calls, &c->asking);
        timer_init(&c->ask_limit, w->loop, on_limit);
        timer_start(&c->ask_limit, w->ask_timeout_ns);
        return 0;
}

void ask_leave(struct gate_call *c, bool expired) {
        struct worker *w = c->worker;
        timer_stop(&c->ask_limit);
        link_remove(&c->asking);
        struct link *l = w->asks.next;
        while (l != &w->asks) {
                struct ask *a = link_owner(l, struct ask, link);
                l = l->next;
                if (link_is_empty(&a->calls)) {
                        control_ask_gone(w->gateway->control, w, a->serial, expired);
                        drop(a);
                }
        }
}

static void settle(struct ask *a, enum decision d) {
        ask_answered_fn *answered = a->answered;
        struct link calls;

        link_take_all(&a->calls, &calls);
        drop(a);
        while (!link_is_empty(&calls)) {
                struct gate_call *c = link_owner(calls.next, struct gate_call, asking);
                link_remove(&c->asking);
                timer_stop(&c->ask_limit);
                answered(c, d, d == DECISION_DENY ? -EACCES : 0);
        }
}

void ask_answer(struct worker *w, uint64_t serial, enum decision d) {
        for (struct link *l = w->asks.next; l != &w->asks; l = l->next) {
                struct ask *a = link_owner(l, struct ask, link);
                if (a->serial == serial) {
                        settle(a, d);
                        return;
                }
        }
}

void ask_judge_again(struct worker *w) {
        struct link *l = w->asks.next;
        while (l != &w->asks) {
                struct ask *a = link_owner(l, struct ask, link);
                l = l->next;
                struct verdict v = verdict_target(worker_snapshot(w), &a->target.host, a->target.port);
                if (v.decision == DECISION_ASK || (gate_asks_apart(a->question) && v.decision == DECISION_ALLOW))
                        continue;
                control_ask_gone(w->gateway->control, w, a->serial, false);
                /* DECISION_ASK makes each call judge anew, so that the deciding rule is the one that is reported. */
                settle(a, DECISION_ASK);
        }
}
