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
#include "gateway/gate_call.h"

/* Whether a tunnel to this target is to be opened. */
bool gate_wants_interception(const struct worker *worker, const struct authority *target);

/* Whether the gateway is for a client at this address, of any family. */
bool gate_is_for(const struct gateway *gateway, const struct addr *client);

/* Only the judgement that needs no waiting: limits, audit, verdict_target. For a request on a connection that is
 * already open (a pooled one: also verdict_address() for where it leads). DECISION_ASK is left to gate_open(). */
struct verdict gate_judge(struct worker *worker, const struct authority *target, bool request_visible);
void gate_open(struct gate_call *call);
/* Before gate_open(): a person is asked about this one thing that the target's policy allows, and that is all: nothing
 * is resolved or dialled. `v`: the verdict that asks. */
void gate_set_question(struct gate_call *call, struct str text, const struct verdict *verdict);
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
