/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The gate: the one way from a client's request to a connection that leads out.
 *
 *     judge (verdict_target) -> refuse
 *                            -> hold while a person is asked -> refuse
 *     get a leaf certificate ready, where TLS will be opened (gateway/intercept.h)
 *     resolve -> judge every address, one bad one refuses the name
 *     dial the judged addresses, directly or through the configured proxy
 *
 * Nothing is asked of a resolver before the name was allowed, and nothing is dialled that was not judged. Limits and
 * the state of the audit come first. The caller is told exactly once, unless it cancels, never from inside gate_open().
 */
#include "gateway/creds/vault_client.h"
#include "gateway/worker.h"
#include "net/dial.h"

#define GATE_QUESTION_MAX 256

struct gate_call {
        /* set by the caller before gate_open() */
        struct worker *worker;
        struct authority target;
        uint8_t via;          /* enum event_via: shown to the person who is asked */
        bool request_visible; /* the caller sees the request and judges it (verdict_request); else needs_request refuses
                               */
        verdict_yes approved; /* a person has said yes to this target on this connection before */
        void (*done)(struct gate_call *c);
        char question[GATE_QUESTION_MAX]; /* gate_set_question(); "": none */

        /* the result */
        struct verdict verdict; /* DECISION_ALLOW and upstream set, or DECISION_DENY and why */
        uint32_t generation;    /* of the policy that judged */
        int error;         /* negative errno behind REASON_UPSTREAM, REASON_TIMEOUT, REASON_RESOLVE, REASON_LIMIT */
        const char *why;   /* more about it, for people; NULL: the reason says it all */
        verdict_yes asked; /* a person said yes */
        bool ratcheted;    /* the target is a trigger, and its ratchet has closed */
        bool intercept;    /* what the caller does not see is to be opened: intercept_start(), not tunnel_start() */
        struct stream *upstream; /* the caller's from now on */
        bool pooled;      /* with intercept, no upstream: an HTTP session will find a connection to it in the pool */
        struct addr addr; /* where it leads (the proxy's own address when chained) */
        bool chained;     /* through the configured proxy */

        /* the gate's own */
        uint8_t state;
        struct vault_call signing;
        struct resolve_call resolving;
        struct dial *dial;
        struct chain *chain;
        struct link asking; /* in a struct ask */
        struct timer ask_limit, pacing;
        struct task later;
};

/* Whether a tunnel to this target is to be opened. */
bool gate_wants_interception(const struct worker *worker, const struct authority *target);

/* Whether the gateway is for a client at this address, of any family. */
bool gate_is_for(const struct gateway *gateway, const struct addr *client);

/* Only the judgement that needs no waiting: limits, audit, verdict_target. For a request on a connection that is
 * already open (a pooled one: also verdict_address() for where it leads). DECISION_ASK is left to gate_open(). */
struct verdict gate_judge(struct worker *worker, const struct authority *target, bool request_visible);
/* Before another request on the same connection: what came of the one before is forgotten. */
static inline void gate_call_forget(struct gate_call *call) {
        call->verdict = (struct verdict){ .rule = RULE_NONE };
        call->addr = (struct addr){ 0 };
        call->asked = false;
        call->question[0] = '\0';
        call->error = 0;
        call->why = NULL;
}
void gate_open(struct gate_call *call);
/* Before gate_open(): a person is asked about this one thing that the target's policy allows, and that is all: nothing
 * is resolved or dialled. `v`: the verdict that asks. */
void gate_set_question(struct gate_call *call, struct str text, const struct verdict *verdict);
/* A person is asked about something else than the target itself. */
static inline bool gate_asks_apart(const char *question) {
        return question[0] && strncmp(question, ASK_BECAUSE, strlen(ASK_BECAUSE)) != 0;
}
/* Whether a refusal of this kind, repeated, is answered later and later (gateway/load/pace.h). */
bool gate_is_paced(const struct worker *worker, const struct verdict *verdict);
/* Forgets the call: closes what is under way, takes back the question. Harmless when nothing is under way. */
void gate_cancel(struct gate_call *call);
/* Whether a person is being asked. Then a client that has sent its end is taken to have given up, so that nobody looks
 * at a question that nobody waits for; in the other states, which are short, it may still want to hear the answer. */
bool gate_is_held(const struct gate_call *call);

/* What was asked for can be had. */
static inline bool gate_is_through(const struct gate_call *call) {
        return call->verdict.decision == DECISION_ALLOW && (call->upstream || call->pooled);
}

/* A synthetic address stands for a name: the target becomes that name. False when it is bound to none (now). */
bool gate_unmask(struct worker *worker, struct authority *target);
/* Whether it was refused (by policy, a limit or the audit), as opposed to allowed and then failed. */
static inline bool gate_was_refused(const struct verdict *verdict) {
        return verdict->decision != DECISION_ALLOW && verdict->reason != REASON_UPSTREAM &&
               verdict->reason != REASON_TIMEOUT && verdict->reason != REASON_RESOLVE;
}

/* May new work begin at all? REASON_NONE, REASON_AUDIT or REASON_LIMIT. */
enum reason gate_is_closed(struct worker *worker);
/* A tunnel that the call was for and that there is not: only the event. `status` is what the client was told (HTTP
 * status or SOCKS reply). */
void gate_report_refused(const struct client *client, const struct gate_call *call, uint16_t status);
