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

static struct ask *ask_find(struct worker *worker, const struct gate_call *call, const char *question, size_t *ret_asks,
                            size_t *ret_calls) {
        struct ask *found = NULL;

        *ret_asks = *ret_calls = 0;

        for (struct link *l = worker->asks.next; l != &worker->asks; l = l->next) {
                struct ask *ask = link_owner(l, struct ask, link);

                ++*ret_asks;
                for (struct link *k = ask->calls.next; k != &ask->calls; k = k->next)
                        ++*ret_calls;

                if (ask->target.port == call->target.port && host_equal(&ask->target.host, &call->target.host) &&
                    !gate_asks_apart(ask->question) && !gate_asks_apart(question))
                        found = ask; /* what is asked about one request is asked for each anew */
        }

        return found;
}

static void ask_drop(struct ask *ask) {
        link_remove(&ask->link);
        free(ask);
}

/* The question that a held call waits for. */
static const struct ask *find_holder(const struct gate_call *call) {
        for (struct link *l = call->worker->asks.next; l != &call->worker->asks; l = l->next) {
                const struct ask *ask = link_owner(l, struct ask, link);
                for (const struct link *k = ask->calls.next; k != &ask->calls; k = k->next)
                        if (k == &call->asking)
                                return ask;
        }
        return NULL;
}

static void on_limit(struct timer *timer) {
        struct gate_call *call = link_owner(timer, struct gate_call, ask_limit);
        const struct ask *holder = find_holder(call);
        ask_answered_fn *answered = holder ? holder->answered : NULL; /* leaving may free it */

        ask_leave(call, true);
        if (answered)
                answered(call, DECISION_DENY, -ETIMEDOUT);
}

int ask_hold(struct gate_call *call, const char *question, ask_answered_fn *answered) {
        struct worker *worker = call->worker;
        size_t asks, calls;
        struct ask *ask = ask_find(worker, call, question, &asks, &calls);
        if (calls >= CALLS_MAX || (!ask && asks >= QUESTIONS_MAX))
                return -ENOSPC;

        if (!ask) {
                ask = calloc(1, sizeof *ask);
                if (!ask)
                        return -ENOMEM;

                ask->target = call->target;
                ask->answered = answered;
                (void)snprintf(ask->question, sizeof ask->question, "%s", question);
                ask->serial = new_serial();
                link_init(&ask->calls);

                int r =
                    control_ask(worker->gateway->control, worker, ask->serial, &ask->target, call->via, ask->question);
                if (r < 0) {
                        free(ask);
                        return r;
                }

                link_append(&worker->asks, &ask->link);
        }

        link_append(&ask->calls, &call->asking);
        timer_init(&call->ask_limit, worker->loop, on_limit);
        timer_start(&call->ask_limit, worker->ask_timeout_ns);

        return 0;
}

void ask_leave(struct gate_call *call, bool expired) {
        struct worker *worker = call->worker;

        timer_stop(&call->ask_limit);
        link_remove(&call->asking);
        struct link *l = worker->asks.next;
        while (l != &worker->asks) {
                struct ask *ask = link_owner(l, struct ask, link);

                l = l->next;

                if (link_is_empty(&ask->calls)) {
                        control_ask_gone(worker->gateway->control, worker, ask->serial, expired);
                        ask_drop(ask);
                }
        }
}

static void ask_settle(struct ask *ask, enum decision decision) {
        ask_answered_fn *answered = ask->answered;
        struct link calls;

        link_take_all(&ask->calls, &calls);
        ask_drop(ask);

        while (!link_is_empty(&calls)) {
                struct gate_call *call = link_owner(calls.next, struct gate_call, asking);

                link_remove(&call->asking);
                timer_stop(&call->ask_limit);
                answered(call, decision, decision == DECISION_DENY ? -EACCES : 0);
        }
}

void ask_answer(struct worker *worker, uint64_t serial, enum decision decision) {
        for (struct link *l = worker->asks.next; l != &worker->asks; l = l->next) {
                struct ask *ask = link_owner(l, struct ask, link);
                if (ask->serial == serial) {
                        ask_settle(ask, decision);
                        return;
                }
        }
}

void ask_judge_again(struct worker *worker) {
        struct link *l = worker->asks.next;
        while (l != &worker->asks) {
                struct ask *ask = link_owner(l, struct ask, link);

                l = l->next;
                struct verdict verdict = verdict_target(worker_snapshot(worker), &ask->target.host, ask->target.port);
                if (verdict.decision == DECISION_ASK ||
                    (gate_asks_apart(ask->question) && verdict.decision == DECISION_ALLOW))
                        continue;

                control_ask_gone(worker->gateway->control, worker, ask->serial, false);

                /* DECISION_ASK makes each call judge anew, so that the deciding rule is the one that is reported. */
                ask_settle(ask, DECISION_ASK);
        }
}
