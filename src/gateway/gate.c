/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gate.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gateway/ask.h"
#include "gateway/chain.h"
#include "gateway/dns/synthetic.h"
#include "gateway/http/http_session.h"
#include "gateway/quota.h"

#include <assert.h>
#include <errno.h>

enum state {
        GATE_IDLE,
        GATE_TELLING,
        GATE_PACING, /* refused, and so often before that the answer waits */
        GATE_ASKING,
        GATE_SIGNING,
        GATE_RESOLVING,
        GATE_DIALLING,
        GATE_CHAINING,
        GATE_STATES
};
static const char *const state_names[] = { "idle",    "telling",   "pacing",   "asking",
                                           "signing", "resolving", "dialling", "chaining" };
static_assert(sizeof state_names / sizeof state_names[0] == GATE_STATES, "one name per state");

static void enter(struct gate_call *c, enum state s) {
        log_debug("gate: %s:%u: %s to %s", c->target.host.name, c->target.port, state_names[c->state], state_names[s]);
        c->state = (uint8_t)s;
}

static void tell(struct gate_call *c) {
        enter(c, GATE_IDLE);
        c->done(c);
}

static void on_later(struct task *t) {
        tell(link_owner(t, struct gate_call, later));
}

static void tell_later(struct gate_call *c) {
        enter(c, GATE_TELLING);
        loop_defer(c->worker->loop, &c->later);
}

static void on_paced(struct timer *t) {
        struct gate_call *c = link_owner(t, struct gate_call, pacing);

        c->worker->pace.held--;
        tell(c);
}

bool gate_is_paced(const struct worker *w, const struct verdict *v) {
        switch ((enum reason)v->reason) {
        case REASON_NOT_ALLOWED:
        case REASON_DENY_RULE:
        case REASON_ADDRESS_CLASS:
        case REASON_NO_NETWORK:
                return worker_captures(w);
        default:
                return false;
        }
}

static void refuse(struct gate_call *c, struct verdict v) {
        struct worker *w = c->worker;
        uint64_t delay = gate_is_paced(w, &v) ? pace_delay(&w->pace, &c->target.host, loop_now(w->loop)) : 0;

        c->verdict = v;
        c->verdict.decision = DECISION_DENY;
        if (delay == 0) {
                tell_later(c);
                return;
        }
        enter(c, GATE_PACING);
        w->pace.held++;
        timer_start(&c->pacing, delay);
}

/* Allowed, but it did not work: the rule that allowed it stays in the verdict. */
static void fail(struct gate_call *c, enum reason r, int error) {
        c->verdict.decision = DECISION_DENY;
        c->verdict.reason = (uint8_t)r;
        c->error = error;
        tell_later(c);
}

static bool is_exhaustion(int error) {
        return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS || error == -EBUSY;
}

static void fail_to_reach(struct gate_call *c, int error) {
        fail(c, is_exhaustion(error) ? REASON_LIMIT : error == -ETIMEDOUT ? REASON_TIMEOUT : REASON_UPSTREAM, error);
}

/* judging */

enum reason gate_is_closed(struct worker *w) {
        if (atomic_load_explicit(&w->gateway->audit_fails, memory_order_relaxed) || report_is_stuck(&w->report))
                return REASON_AUDIT;
        return quota_may_send(w->gateway->quota) ? REASON_NONE : REASON_LIMIT;
}

static struct verdict denied(enum reason r) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)r, .rule = RULE_NONE };
}

struct verdict gate_judge(struct worker *w, const struct authority *target, bool request_visible) {
        enum reason closed = gate_is_closed(w);
        if (closed != REASON_NONE)
                return denied(closed);
        struct verdict v = verdict_target(worker_snapshot(w), &target->host, target->port);
        if (v.decision == DECISION_DENY)
                return v;
        if (v.needs_request && !request_visible) {
                v.decision = DECISION_DENY;
                v.reason = REASON_NOT_VISIBLE;
                return v;
        }
        bool full;
        struct host_bytes *h = quota_host(w->gateway->quota, &target->host, &full);
        return full || !quota_host_may_send(w->gateway->quota, h) ? denied(REASON_LIMIT) : v;
}

void gate_set_question(struct gate_call *c, struct str text, const struct verdict *v) {
        text = str_first(text, sizeof c->question - 1);
        memcpy(c->question, text.p, text.n);
        c->question[text.n] = '\0';
        c->verdict = *v;
}

/* About one thing that the policy allows if a person does. */
static struct verdict judge_question(struct gate_call *c) {
        struct verdict v = gate_judge(c->worker, &c->target, true);

        /* Whoever asks back asks nobody, so that a policy that asks nobody does not matter. */
        if (v.decision == DECISION_DENY && !str_starts(str_of(c->question), STR(ASK_AGREED)))
                return v;
        v.rule = c->verdict.rule;
        v.decision = c->asked ? DECISION_ALLOW : DECISION_ASK;
        v.reason = c->asked ? REASON_ALLOWED : REASON_ASK;
        return v;
}

/* With the vault's help a tunnel's requests can be seen too. */
static struct verdict judge(struct gate_call *c) {
        if (gate_asks_apart(c->question))
                return judge_question(c);
        c->intercept = !c->request_visible && gate_wants_interception(c->worker, &c->target);
        struct verdict v = gate_judge(c->worker, &c->target, c->request_visible || c->intercept);
        if (verdict_is_agreed(&v, c->asked) || verdict_is_agreed(&v, c->approved)) {
                v.decision = DECISION_ALLOW;
                c->asked = c->asked > c->approved ? c->asked : c->approved;
        }
        return v;
}

bool gate_unmask(struct worker *w, struct authority *target) {
        if (target->host.kind != HOST_ADDR || !w->gateway->synthetic || !synthetic_contains(&target->host.addr))
                return true;
        struct host name;
        if (!synthetic_lookup(w->gateway->synthetic, &target->host.addr, &name))
                return false;
        target->host = name;
        return true;
}

/* Every address must pass; the first that does not decides. */
static struct verdict judge_addresses(struct worker *w, const struct authority *target, const struct addr *addrs,
                                      size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (w->gateway->synthetic && synthetic_contains(&addrs[i]))
                        return denied(REASON_SELF);
                struct verdict v = verdict_address(worker_snapshot(w), &target->host, &addrs[i], target->port);
                if (v.decision != DECISION_ALLOW)
                        return v;
        }
        return (struct verdict){ .decision = DECISION_ALLOW, .rule = RULE_NONE };
}

/* reaching */

/* The policy may have changed while we waited, or the audit may have failed: what is refused now is not handed out. */
static struct verdict still_allowed(struct gate_call *c) {
        struct worker *w = c->worker;
        struct verdict v = c->verdict;
        enum reason closed = gate_is_closed(w);
        if (closed != REASON_NONE)
                return denied(closed);
        if (c->generation == w->policy->generation)
                return v;
        c->generation = w->policy->generation;
        v = judge(c);
        if (v.decision != DECISION_ALLOW || c->chained || c->target.host.kind == HOST_ADDR)
                return v;
        struct verdict a = judge_addresses(w, &c->target, &c->addr, 1);
        return a.decision == DECISION_ALLOW ? v : a;
}

static void get_leaf(struct gate_call *c);

static bool has_leaf(const struct gate_call *c) {
        return !c->intercept || vault_leaf(c->worker->vault, &c->target.host);
}

/* A policy that wants to see the requests may have come while it was dialled: then the leaf is still missing. */
static void hand_over(struct gate_call *c) {
        struct verdict v = still_allowed(c);
        if (v.decision != DECISION_ALLOW) {
                stream_close(take_ptr(&c->upstream));
                refuse(c, v);
                return;
        }
        c->verdict = v;
        if (has_leaf(c))
                tell(c);
        else
                get_leaf(c);
}

static void reached(struct gate_call *c, int error, struct stream *s, const struct addr *addr) {
        if (error < 0) {
                fail_to_reach(c, error);
                return;
        }
        c->addr = *addr;
        c->upstream = s;
        hand_over(c);
}

static void on_dialled(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct gate_call *c = owner;
        c->dial = NULL;
        reached(c, error, s, addr);
}

static void on_chained(void *owner, int error, struct stream *s, const struct addr *addr) {
        struct gate_call *c = owner;
        c->chain = NULL;
        reached(c, error, s, addr);
}

static void reach_chained(struct gate_call *c) {
        enter(c, GATE_CHAINING);
        c->chained = true;
        int r = chain_start(c->worker, &c->target, on_chained, c, &c->chain);
        if (r < 0)
                fail_to_reach(c, r);
}

static void reach(struct gate_call *c, const struct addr *addrs, size_t n) {
        if (chain_is_used(c->worker->gateway, &c->target)) {
                reach_chained(c);
                return;
        }
        enter(c, GATE_DIALLING);
        uint64_t limit = c->worker->limits.connect_ns;
        int r = dial_start(c->worker->loop, addrs, n, c->target.port, limit, on_dialled, c, &c->dial);
        if (r < 0)
                fail_to_reach(c, r);
}

/* No resolver here knows the name. That there was an answer and it cannot be used, or no room to ask, is not that. */
static bool is_unknown_here(const struct resolve_answer *a) {
        return a->error == -ENOENT || a->error == -ETIMEDOUT || a->error == -EIO;
}

/* Where a proxy does the resolving for a network without DNS, the name's own verdict has to do: addresses that are
 * known here are judged here, and a name that is unknown here is left to the proxy. */
static void use_answer(struct gate_call *c, const struct resolve_answer *a) {
        if (is_unknown_here(a) && chain_is_used(c->worker->gateway, &c->target)) {
                reach_chained(c);
        } else if (a->error) {
                fail(c, a->error == -EBUSY ? REASON_LIMIT : REASON_RESOLVE, a->error);
        } else {
                struct verdict v = judge_addresses(c->worker, &c->target, a->addrs, a->n);
                if (v.decision == DECISION_ALLOW)
                        reach(c, a->addrs, a->n);
                else
                        refuse(c, v);
        }
}

static void on_resolved(struct resolve_call *r, const struct resolve_answer *a) {
        struct gate_call *c = link_owner(r, struct gate_call, resolving);
        if (a->error == -ECANCELED)
                fail(c, REASON_RESOLVE, a->error);
        else
                use_answer(c, a);
}

/* A connection that rests in the pool was dialled after the same judgement, and its address will be judged once more.
 */
static void find_addresses(struct gate_call *c) {
        if (c->intercept && upstream_pool_has(c->worker->upstreams, &c->target)) {
                c->pooled = true;
                tell_later(c);
                return;
        }
        const struct host *h = &c->target.host;
        if (h->kind == HOST_ADDR) {
                reach(c, &h->addr, 1); /* judged with the target */
                return;
        }
        const struct resolve_answer *known = resolve_cached(c->worker->resolver, h);
        if (known) {
                use_answer(c, known);
                return;
        }
        enter(c, GATE_RESOLVING);
        c->resolving.done = on_resolved;
        if (resolve_start(c->worker->resolver, h, &c->resolving) < 0)
                fail(c, REASON_LIMIT, -ENOMEM);
}

static void fail_to_sign(struct gate_call *c, int error) {
        stream_close(take_ptr(&c->upstream));
        fail(c, REASON_VAULT, error);
}

static void on_signed(struct vault_call *call, int error) {
        struct gate_call *c = link_owner(call, struct gate_call, signing);
        if (error == 0 && !has_leaf(c))
                error = -EIO; /* one that is of no use: asking again would give another */
        if (error < 0)
                fail_to_sign(c, error);
        else if (c->upstream)
                hand_over(c);
        else
                find_addresses(c);
}

static void get_leaf(struct gate_call *c) {
        enter(c, GATE_SIGNING);
        c->signing.done = on_signed;
        int r = vault_ask_leaf(c->worker->vault, &c->target.host, &c->signing);
        if (r < 0)
                fail_to_sign(c, r);
}

/* First of all what the client will be shown: without it, nobody is bothered. */
static void go_on(struct gate_call *c) {
        if (gate_asks_apart(c->question))
                tell_later(c);
        else if (has_leaf(c))
                find_addresses(c);
        else
                get_leaf(c);
}

/* opening */

static void gate_answered(struct gate_call *c, enum decision d, int error);
static void decide(struct gate_call *c);

static void ratchet_answered(struct gate_call *c, enum decision d, int error) {
        c->generation = c->worker->policy->generation;
        if (d == DECISION_DENY) {
                c->error = error;
                refuse(c, denied(REASON_RATCHET));
                return;
        }
        c->ratcheted = c->ratcheted || d == DECISION_ALLOW;
        c->verdict = judge(c);
        decide(c);
}

/* The ratchet closes first, everywhere: then nothing that comes from there finds a door that it should not. */
static void close_ratchet(struct gate_call *c) {
        enter(c, GATE_ASKING);
        int r = ask_hold(c, ASK_RATCHET, ratchet_answered);
        if (r == 0)
                return;
        c->error = r;
        refuse(c, denied(REASON_LIMIT));
}

static void decide(struct gate_call *c) {
        switch (c->verdict.decision) {
        case DECISION_ALLOW:
                if (c->verdict.reaches && !c->ratcheted && !gate_asks_apart(c->question))
                        close_ratchet(c);
                else
                        go_on(c);
                return;
        case DECISION_ASK:
                if (c->worker->gateway->start.can_ask) {
                        enter(c, GATE_ASKING);
                        int r = ask_hold(c, c->question, gate_answered);
                        if (r == 0)
                                return;
                        c->error = r;
                        refuse(c, denied(REASON_LIMIT));
                        return;
                }
                refuse(c, c->verdict);
                return;
        default:
                refuse(c, c->verdict);
        }
}

static void gate_answered(struct gate_call *c, enum decision d, int error) {
        c->generation = c->worker->policy->generation;
        if (d == DECISION_ASK) {
                c->verdict = judge(c);
                decide(c);
        } else if (d == DECISION_ALLOW) {
                c->asked = (verdict_yes)(c->verdict.narrowed + 1);
                c->verdict.decision = DECISION_ALLOW;
                c->verdict.reason = REASON_ALLOWED;
                decide(c);
        } else {
                c->error = error;
                refuse(c, c->verdict);
        }
}

void gate_open(struct gate_call *c) {
        struct worker *w = c->worker;
        c->state = GATE_IDLE;
        c->error = 0;
        c->why = NULL;
        c->asked = 0;
        c->ratcheted = c->chained = c->pooled = false;
        c->upstream = NULL;
        c->addr = (struct addr){ .family = ADDR_NONE };
        c->dial = NULL;
        c->chain = NULL;
        link_init(&c->asking);
        link_init(&c->resolving.link);
        timer_init(&c->ask_limit, w->loop, NULL);
        timer_init(&c->pacing, w->loop, on_paced);
        task_init(&c->later, on_later);
        c->generation = w->policy->generation;
        c->verdict = judge(c);
        decide(c);
}

bool gate_wants_interception(const struct worker *worker, const struct authority *target) {
        if (!worker->tls)
                return false;

        return worker_has_credential(worker, target) ||
               verdict_target(worker_snapshot(worker), &target->host, target->port).needs_request;
}

bool gate_is_for(const struct gateway *gateway, const struct addr *client) {
        const struct gateway_start *start = &gateway->start;

        for (uint32_t i = 0; i < start->n_clients; i++)
                if (cidr_contains(&start->clients[i], client))
                        return true;
        return start->n_clients == 0;
}

bool gate_is_held(const struct gate_call *c) {
        return c->state == GATE_ASKING;
}

void gate_cancel(struct gate_call *c) {
        switch ((enum state)c->state) {
        case GATE_IDLE:
        case GATE_STATES:
                return;
        case GATE_TELLING:
                task_cancel(&c->later);
                break;
        case GATE_PACING:
                timer_stop(&c->pacing);
                c->worker->pace.held--;
                break;
        case GATE_ASKING:
                ask_leave(c, false);
                break;
        case GATE_SIGNING:
                vault_call_cancel(&c->signing);
                stream_close(take_ptr(&c->upstream));
                break;
        case GATE_RESOLVING:
                resolve_cancel(&c->resolving);
                break;
        case GATE_DIALLING:
                dial_cancel(c->dial);
                break;
        case GATE_CHAINING:
                chain_cancel(c->chain);
                break;
        }
        enter(c, GATE_IDLE);
}
