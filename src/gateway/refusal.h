/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a refused client is told: one line for the agent that reads it. That policy refused it, by which rule, that
 * trying again will not help (or when it may), and how a person can allow it. And the whole answer over HTTP, which is
 * the same for HTTP/1 and HTTP/2.
 */
#include "base/buf.h"
#include "policy/judge/snapshot.h"

#define REFUSAL_TEXT_MAX 2048
#define REFUSAL_LARGE_BODY "its body is larger than the policy allows (network.limits.body_bytes)"

/* Appends the text, without a line end. `error` as in struct gate_call, 0 when there is none. */
int refusal_text(struct buf *out, const struct snapshot *snapshot, const struct authority *target,
                 const struct verdict *verdict, int error, const char *why);
/* For a request that was cut off: its beginning has been sent. */
int refusal_rest_text(struct buf *out, const struct authority *target, enum reason reason, const char *why);
/* The HTTP status for it: 403, 405, 429, 503, 502 or 504, ... */
unsigned refusal_status(const struct verdict *verdict, int error);

/* The verdict on something that was allowed, and failed or was found out since. */
static inline void refusal_decide(struct verdict *verdict, enum reason reason) {
        verdict->decision = DECISION_DENY;
        verdict->reason = (uint8_t)reason;
}

/*
 * An answer of our own over HTTP, whatever its version: the session or stream writes status, headers and content, and
 * leaves the content out where the method wants that. Each has a text for people, whose second line is meant for an
 * agent, and x-bailey-reason for programs.
 */
struct refusal {
        unsigned status;
        enum reason reason;
        const char *type; /* of the content */
        struct buf text;
};

/* A request that was refused, or that failed: what its text is made of. */
struct refused {
        const struct snapshot *snapshot;
        const struct authority *target;
        const struct verdict *verdict;
        int error;
        const char *why;
};

/* Each is without content when there is no memory for it. refusal_done() then. */
struct refusal refusal_of(const struct refused *refused);
/* Bytes that are no request, or not one that is served. what: the rest of a sentence. */
struct refusal refusal_of_bytes(unsigned status, enum reason reason, const char *what);
/* A request whose beginning has been sent. */
struct refusal refusal_of_rest(const struct refused *refused);
void refusal_done(struct refusal *refusal);

/* The headers of an answer. Names as HTTP/1 has them; `lower` as HTTP/2 wants them. */
enum { REFUSAL_HEADERS = 4 };
struct refusal_head {
        struct refusal_header {
                struct str name, lower, value;
        } at[REFUSAL_HEADERS];
        char length[24];
};
void refusal_head(struct refusal_head *head, enum reason reason, const char *type, size_t n);
