/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One client's way through the gate (gateway/gate.h): what it asks for, what came of it, and how far it is. */
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

/* Before another request on the same connection: what came of the one before is forgotten. */
static inline void gate_call_forget(struct gate_call *call) {
        call->verdict = (struct verdict){ .rule = RULE_NONE };
        call->addr = (struct addr){ 0 };
        call->asked = false;
        call->question[0] = '\0';
        call->error = 0;
        call->why = NULL;
}
/* A person is asked about something else than the target itself. */
static inline bool gate_asks_apart(const char *question) {
        return question[0] && strncmp(question, ASK_BECAUSE, strlen(ASK_BECAUSE)) != 0;
}
