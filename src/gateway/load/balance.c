/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/load/balance.h"

#include "base/clock.h"
#include "gateway/control.h"
#include "gateway/worker.h"

/*
 * Processor time, not time that passed: on a machine that has no processor to spare a worker that waits for its turn is
 * not one that another thread could help. Between the two shares the number stays, so that it does not swing. A burst
 * is over before another worker is any use, and each connection costs more with two of them: the load has to last.
 */
enum { FULL_PERCENT = 95, ROOM_PERCENT = 60, STEP = 2 /* fewer connections than the first has */ };
#define WINDOW_NS (20 * NS_PER_MS)
#define LASTS_NS (100 * NS_PER_MS)

unsigned balance_wanted(unsigned in_use, unsigned most, uint64_t used, uint64_t passed, uint64_t clients) {
        uint64_t fewer = in_use - 1;

        if (in_use < most &&
            (used * 100 >= passed * in_use * FULL_PERCENT || clients >= (uint64_t)BALANCE_CROWD * in_use))
                return in_use + 1;

        if (in_use > 1 && used * 100 < passed * fewer * ROOM_PERCENT && clients < BALANCE_CROWD * fewer)
                return in_use - 1;

        return in_use;
}

void balance_settle(struct balance *balance, unsigned wanted, bool crowded, uint64_t now) {
        if (wanted <= balance->in_use)
                balance->full_since = 0;
        else if (balance->full_since == 0)
                balance->full_since = balance->since;

        bool lasts = balance->full_since && now - balance->full_since >= LASTS_NS;
        if (wanted <= balance->in_use || crowded || lasts) {
                balance->in_use = wanted;
                balance->full_since = 0; /* for the next one it has to last again */
        }
}

static unsigned worker_clients(const struct worker *worker) {
        return atomic_load_explicit(&worker->clients, memory_order_relaxed);
}

/* Looks at the load once in a while, and at the number of connections whenever the first worker has very many. */
static void balance_look(struct balance *balance, struct worker *self) {
        const struct gateway *gateway = self->gateway;
        uint64_t now = loop_now(self->loop), used = 0, clients = 0;
        bool due = now - balance->since >= WINDOW_NS;

        if (!due && worker_clients(self) < BALANCE_CROWD)
                return;

        for (unsigned i = 0; i < gateway->n_workers; i++) {
                clients += worker_clients(gateway->workers[i]);
                if (due && worker_runs(gateway->workers[i]))
                        used += balance_thread_ns(gateway->workers[i]->thread);
        }

        uint64_t spent = due && balance->since ? used - balance->used : 0;
        uint64_t passed = due && balance->since ? now - balance->since : WINDOW_NS;
        unsigned wanted = balance_wanted(balance->in_use, gateway->n_workers, spent, passed, clients);

        bool crowded = clients >= (uint64_t)BALANCE_CROWD * balance->in_use;

        if (due || crowded)
                balance_settle(balance, wanted, crowded, now);

        if (due) {
                balance->since = now;
                balance->used = used;
        }
}

struct worker *balance_choose(struct worker *self) {
        struct gateway *gateway = self->gateway;
        struct balance *balance = &gateway->balance;
        struct worker *best = self;

        if (gateway->n_workers == 1)
                return self;

        if (balance->in_use == 0)
                balance->in_use = 1;

        balance_look(balance, self);

        for (unsigned i = 1; i < balance->in_use; i++) {
                struct worker *worker = gateway->workers[i];

                if (!worker_runs(worker))
                        control_call_worker(gateway->control, worker);
                else if (worker_clients(worker) < worker_clients(best))
                        best = worker;
        }

        return worker_clients(self) - worker_clients(best) >= STEP ? best : self;
}
