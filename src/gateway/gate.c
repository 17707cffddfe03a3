/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gate.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "gateway/ask.h"
#include "gateway/chain.h"
#include "gateway/dns/synthetic.h"
#include "gateway/http/http_session.h"
#include "gateway/load/quota.h"

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

static void gate_enter(struct gate_call *call, enum state state) {
        log_debug("gate: %s:%u: %s to %s", call->target.host.name, call->target.port, state_names[call->state],
                  state_names[state]);
        call->state = (uint8_t)state;
}

static void gate_tell(struct gate_call *call) {
        gate_enter(call, GATE_IDLE);
        call->done(call);
}

static void on_later(struct task *task) {
        gate_tell(link_owner(task, struct gate_call, later));
}

static void tell_later(struct gate_call *call) {
        gate_enter(call, GATE_TELLING);
        loop_defer(call->worker->loop, &call->later);
}

static void on_paced(struct timer *timer) {
        struct gate_call *call = link_owner(timer, struct gate_call, pacing);

        call->worker->pace.held--;
        gate_tell(call);
}

bool gate_is_paced(const struct worker *worker, const struct verdict *verdict) {
        switch ((enum reason)verdict->reason) {
        case REASON_NOT_ALLOWED:
        case REASON_DENY_RULE:
        case REASON_ADDRESS_CLASS:
        case REASON_NO_NETWORK:
                return worker_captures(worker);
        default:
                return false;
        }
}

static void gate_refuse(struct gate_call *call, struct verdict verdict) {
        struct worker *worker = call->worker;
        uint64_t delay =
            gate_is_paced(worker, &verdict) ? pace_delay(&worker->pace, &call->target.host, loop_now(worker->loop)) : 0;

        call->verdict = verdict;
        call->verdict.decision = DECISION_DENY;

        if (delay == 0) {
                tell_later(call);
                return;
        }

        gate_enter(call, GATE_PACING);
        worker->pace.held++;
        timer_start(&call->pacing, delay);
}

/* Allowed, but it did not work: the rule that allowed it stays in the verdict. */
static void gate_fail(struct gate_call *call, enum reason reason, int error) {
        call->verdict.decision = DECISION_DENY;
        call->verdict.reason = (uint8_t)reason;
        call->error = error;
        tell_later(call);
}

static bool is_exhaustion(int error) {
        return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS || error == -EBUSY;
}

static void fail_to_reach(struct gate_call *call, int error) {
        enum reason reason = REASON_UPSTREAM;
        if (is_exhaustion(error))
                reason = REASON_LIMIT;
        else if (error == -ETIMEDOUT)
                reason = REASON_TIMEOUT;

        gate_fail(call, reason, error);
}

/* judging */

enum reason gate_is_closed(struct worker *worker) {
        if (atomic_load_explicit(&worker->gateway->audit_fails, memory_order_relaxed) ||
            report_is_stuck(&worker->report))
                return REASON_AUDIT;
        if (quota_may_send(worker->gateway->quota))
                return REASON_NONE;

        return REASON_LIMIT;
}

static struct verdict gate_denied(enum reason reason) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
}

struct verdict gate_judge(struct worker *worker, const struct authority *target, bool request_visible) {
        enum reason closed = gate_is_closed(worker);
        if (closed != REASON_NONE)
                return gate_denied(closed);

        struct verdict verdict = verdict_target(worker_snapshot(worker), &target->host, target->port);
        if (verdict.decision == DECISION_DENY)
                return verdict;

        if (verdict.needs_request && !request_visible) {
                verdict.decision = DECISION_DENY;
                verdict.reason = REASON_NOT_VISIBLE;
                return verdict;
        }

        bool full;
        struct host_bytes *bytes = quota_host(worker->gateway->quota, &target->host, &full);

        if (full || !quota_host_may_send(worker->gateway->quota, bytes))
                return gate_denied(REASON_LIMIT);

        return verdict;
}

void gate_set_question(struct gate_call *call, struct str text, const struct verdict *verdict) {
        text = str_first(text, sizeof call->question - 1);
        memcpy(call->question, text.p, text.n);
        call->question[text.n] = '\0';
        call->verdict = *verdict;
}

/* About one thing that the policy allows if a person does. */
static struct verdict judge_question(struct gate_call *call) {
        struct verdict verdict = gate_judge(call->worker, &call->target, true);

        /* Whoever asks back asks nobody, so that a policy that asks nobody does not matter. */
        if (verdict.decision == DECISION_DENY && !str_starts(str_of(call->question), STR(ASK_AGREED)))
                return verdict;

        verdict.rule = call->verdict.rule;
        verdict.decision = call->asked ? DECISION_ALLOW : DECISION_ASK;
        verdict.reason = call->asked ? REASON_ALLOWED : REASON_ASK;

        return verdict;
}

/* With the vault's help a tunnel's requests can be seen too. */
static struct verdict judge_gated(struct gate_call *call) {
        if (gate_asks_apart(call->question))
                return judge_question(call);

        call->intercept = !call->request_visible && gate_wants_interception(call->worker, &call->target);
        struct verdict verdict = gate_judge(call->worker, &call->target, call->request_visible || call->intercept);
        if (verdict_is_agreed(&verdict, call->asked) || verdict_is_agreed(&verdict, call->approved)) {
                verdict.decision = DECISION_ALLOW;
                if (call->asked <= call->approved)
                        call->asked = call->approved;
        }

        return verdict;
}

bool gate_unmask(struct worker *worker, struct authority *target) {
        if (target->host.kind != HOST_ADDR || !worker->gateway->synthetic || !synthetic_contains(&target->host.addr))
                return true;
        struct host name;
        if (!synthetic_lookup(worker->gateway->synthetic, &target->host.addr, &name))
                return false;
        target->host = name;
        return true;
}

static struct verdict judge_address(struct worker *worker, const struct authority *target, const struct addr *addr) {
        if (worker->gateway->synthetic && synthetic_contains(addr))
                return gate_denied(REASON_SELF);
        return verdict_address(worker_snapshot(worker), &target->host, addr, target->port);
}

/* Every address must pass; the first that does not decides, and is on record. */
static struct verdict judge_addresses(struct gate_call *call, const struct addr *addrs, size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct verdict verdict = judge_address(call->worker, &call->target, &addrs[i]);

                if (verdict.decision != DECISION_ALLOW) {
                        call->addr = addrs[i];
                        return verdict;
                }
        }

        return (struct verdict){ .decision = DECISION_ALLOW, .rule = RULE_NONE };
}

/* reaching */

/* The policy may have changed while we waited, or the audit may have failed: what is refused now is not handed out. */
static struct verdict still_allowed(struct gate_call *call) {
        struct worker *worker = call->worker;
        struct verdict verdict = call->verdict;
        enum reason closed = gate_is_closed(worker);
        if (closed != REASON_NONE)
                return gate_denied(closed);
        if (call->generation == worker->policy->generation)
                return verdict;

        call->generation = worker->policy->generation;
        verdict = judge_gated(call);
        if (verdict.decision != DECISION_ALLOW || call->chained || call->target.host.kind == HOST_ADDR)
                return verdict;

        struct verdict a = judge_address(worker, &call->target, &call->addr);
        return a.decision == DECISION_ALLOW ? verdict : a;
}

static void get_leaf(struct gate_call *call);

static bool has_leaf(const struct gate_call *call) {
        return !call->intercept || vault_leaf(call->worker->vault, &call->target.host);
}

/* A policy that wants to see the requests may have come while it was dialled: then the leaf is still missing. */
static void hand_over(struct gate_call *call) {
        struct verdict verdict = still_allowed(call);
        if (verdict.decision != DECISION_ALLOW) {
                stream_close(take_ptr(&call->upstream));
                gate_refuse(call, verdict);
                return;
        }

        call->verdict = verdict;
        if (has_leaf(call))
                gate_tell(call);
        else
                get_leaf(call);
}

static void gate_reached(struct gate_call *call, int error, struct stream *stream, const struct addr *addr) {
        if (error < 0) {
                fail_to_reach(call, error);
                return;
        }
        call->addr = *addr;
        call->upstream = stream;
        hand_over(call);
}

static void on_dialled(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct gate_call *call = owner;
        call->dial = NULL;
        gate_reached(call, error, stream, addr);
}

static void on_chained(void *owner, int error, struct stream *stream, const struct addr *addr) {
        struct gate_call *call = owner;
        call->chain = NULL;
        gate_reached(call, error, stream, addr);
}

static void reach_chained(struct gate_call *call) {
        gate_enter(call, GATE_CHAINING);
        call->chained = true;
        int r = chain_start(call->worker, &call->target, on_chained, call, &call->chain);
        if (r < 0)
                fail_to_reach(call, r);
}

static void gate_reach(struct gate_call *call, const struct addr *addrs, size_t n) {
        if (chain_is_used(call->worker->gateway, &call->target)) {
                reach_chained(call);
                return;
        }

        gate_enter(call, GATE_DIALLING);
        uint64_t limit = call->worker->limits.connect_ns;
        int r = dial_start(call->worker->loop, addrs, n, call->target.port, limit, on_dialled, call, &call->dial);
        if (r < 0)
                fail_to_reach(call, r);
}

/* No resolver here knows the name. That there was an answer and it cannot be used, or no room to ask, is not that. */
static bool is_unknown_here(const struct resolve_answer *answer) {
        return answer->error == -ENOENT || answer->error == -ETIMEDOUT || answer->error == -EIO;
}

/* Where a proxy does the resolving for a network without DNS, the name's own verdict has to do: addresses that are
 * known here are judged here, and a name that is unknown here is left to the proxy. */
static void use_answer(struct gate_call *call, const struct resolve_answer *answer) {
        if (is_unknown_here(answer) && chain_is_used(call->worker->gateway, &call->target)) {
                reach_chained(call);
        } else if (answer->error) {
                gate_fail(call, answer->error == -EBUSY ? REASON_LIMIT : REASON_RESOLVE, answer->error);
        } else {
                struct verdict verdict = judge_addresses(call, answer->addrs, answer->n);
                if (verdict.decision == DECISION_ALLOW)
                        gate_reach(call, answer->addrs, answer->n);
                else
                        gate_refuse(call, verdict);
        }
}

static void on_resolved(struct resolve_call *call, const struct resolve_answer *answer) {
        struct gate_call *gate_call = link_owner(call, struct gate_call, resolving);
        if (answer->error == -ECANCELED)
                gate_fail(gate_call, REASON_RESOLVE, answer->error);
        else
                use_answer(gate_call, answer);
}

/* A connection that rests in the pool was dialled after the same judgement, and its address will be judged once more.
 */
static void find_addresses(struct gate_call *call) {
        if (call->intercept && upstream_pool_has(call->worker->upstreams, &call->target)) {
                call->pooled = true;
                tell_later(call);
                return;
        }

        const struct host *host = &call->target.host;
        if (host->kind == HOST_ADDR) {
                gate_reach(call, &host->addr, 1); /* judged with the target */
                return;
        }

        const struct resolve_answer *known = resolve_cached(call->worker->resolver, host);
        if (known) {
                use_answer(call, known);
                return;
        }

        gate_enter(call, GATE_RESOLVING);
        call->resolving.done = on_resolved;
        if (resolve_start(call->worker->resolver, host, &call->resolving) < 0)
                gate_fail(call, REASON_LIMIT, -ENOMEM);
}

static void fail_to_sign(struct gate_call *call, int error) {
        stream_close(take_ptr(&call->upstream));
        gate_fail(call, REASON_VAULT, error);
}

static void on_signed(struct vault_call *call, int error) {
        struct gate_call *gate_call = link_owner(call, struct gate_call, signing);
        if (error == 0 && !has_leaf(gate_call))
                error = -EIO; /* one that is of no use: asking again would give another */

        if (error < 0)
                fail_to_sign(gate_call, error);
        else if (gate_call->upstream)
                hand_over(gate_call);
        else
                find_addresses(gate_call);
}

static void get_leaf(struct gate_call *call) {
        gate_enter(call, GATE_SIGNING);
        call->signing.done = on_signed;
        int r = vault_ask_leaf(call->worker->vault, &call->target.host, &call->signing);
        if (r < 0)
                fail_to_sign(call, r);
}

/* First of all what the client will be shown: without it, nobody is bothered. */
static void go_on(struct gate_call *call) {
        if (gate_asks_apart(call->question))
                tell_later(call);
        else if (has_leaf(call))
                find_addresses(call);
        else
                get_leaf(call);
}

/* opening */

static void gate_answered(struct gate_call *call, enum decision d, int error);
static void gate_decide(struct gate_call *call);

static void ratchet_answered(struct gate_call *call, enum decision decision, int error) {
        call->generation = call->worker->policy->generation;

        if (decision == DECISION_DENY) {
                call->error = error;
                gate_refuse(call, gate_denied(REASON_RATCHET));
                return;
        }

        call->ratcheted = call->ratcheted || decision == DECISION_ALLOW;
        call->verdict = judge_gated(call);
        gate_decide(call);
}

/* The ratchet closes first, everywhere: then nothing that comes from there finds a door that it should not. */
static void close_ratchet(struct gate_call *call) {
        gate_enter(call, GATE_ASKING);
        int r = ask_hold(call, ASK_RATCHET, ratchet_answered);
        if (r == 0)
                return;
        call->error = r;
        gate_refuse(call, gate_denied(REASON_LIMIT));
}

static void gate_decide(struct gate_call *call) {
        switch (call->verdict.decision) {
        case DECISION_ALLOW:
                if (call->verdict.reaches && !call->ratcheted && !gate_asks_apart(call->question))
                        close_ratchet(call);
                else
                        go_on(call);
                return;
        case DECISION_ASK:
                if (call->worker->gateway->start.can_ask) {
                        gate_enter(call, GATE_ASKING);
                        int r = ask_hold(call, call->question, gate_answered);
                        if (r == 0)
                                return;

                        call->error = r;
                        gate_refuse(call, gate_denied(REASON_LIMIT));
                        return;
                }
                gate_refuse(call, call->verdict);

                return;
        default:
                gate_refuse(call, call->verdict);
        }
}

static void gate_answered(struct gate_call *call, enum decision decision, int error) {
        call->generation = call->worker->policy->generation;

        if (decision == DECISION_ASK) {
                call->verdict = judge_gated(call);
                gate_decide(call);
        } else if (decision == DECISION_ALLOW) {
                call->asked = (verdict_yes)(call->verdict.narrowed + 1);
                call->verdict.decision = DECISION_ALLOW;
                call->verdict.reason = REASON_ALLOWED;
                gate_decide(call);
        } else {
                call->error = error;
                gate_refuse(call, call->verdict);
        }
}

void gate_open(struct gate_call *call) {
        struct worker *worker = call->worker;

        call->state = GATE_IDLE;
        call->error = 0;
        call->why = NULL;
        call->asked = 0;
        call->ratcheted = call->chained = call->pooled = false;
        call->upstream = NULL;
        call->addr = (struct addr){ .family = ADDR_NONE };
        call->dial = NULL;
        call->chain = NULL;
        link_init(&call->asking);
        link_init(&call->resolving.link);
        timer_init(&call->ask_limit, worker->loop, NULL);
        timer_init(&call->pacing, worker->loop, on_paced);
        task_init(&call->later, on_later);
        call->generation = worker->policy->generation;
        call->verdict = judge_gated(call);
        gate_decide(call);
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

bool gate_is_held(const struct gate_call *call) {
        return call->state == GATE_ASKING;
}

void gate_cancel(struct gate_call *call) {
        switch ((enum state)call->state) {
        case GATE_IDLE:
        case GATE_STATES:
                return;
        case GATE_TELLING:
                task_cancel(&call->later);
                break;
        case GATE_PACING:
                timer_stop(&call->pacing);
                call->worker->pace.held--;
                break;
        case GATE_ASKING:
                ask_leave(call, false);
                break;
        case GATE_SIGNING:
                vault_call_cancel(&call->signing);
                stream_close(take_ptr(&call->upstream));
                break;
        case GATE_RESOLVING:
                resolve_cancel(&call->resolving);
                break;
        case GATE_DIALLING:
                dial_cancel(call->dial);
                break;
        case GATE_CHAINING:
                chain_cancel(call->chain);
                break;
        }

        gate_enter(call, GATE_IDLE);
}

void gate_report_refused(const struct client *client, const struct gate_call *call, uint16_t status) {
        const struct addr none = { .family = ADDR_NONE }; /* a proxy's own address is not what was tried */

        report_event(&client->worker->report,
                     &(struct event){ .kind = EVENT_TUNNEL_OPEN,
                                      .connection = client->number,
                                      .rule = call->verdict.rule,
                                      .generation = call->generation,
                                      .via = call->via,
                                      .scheme = SCHEME_TCP,
                                      .reason = call->verdict.reason,
                                      .allowed = !gate_was_refused(&call->verdict),
                                      .status = status,
                                      .port = call->target.port,
                                      .duration_us = (loop_now(client->worker->loop) - client->since) / 1000,
                                      .addr = call->chained ? none : call->addr,
                                      .domain = host_str(&call->target.host) });
}
