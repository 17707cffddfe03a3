/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Events: what the gateway (and the sandbox's tracer) tell the supervisor about every attempt. A fixed-format record
 * with bounded strings; several may share one SOCK_SEQPACKET message. The supervisor trusts nothing in it: lengths,
 * enums and sizes are checked by event_decode(), strings are escaped wherever they are shown.
 */
#include "base/buf.h"
#include "policy/judge/verdict.h"
#include "policy/match/addr.h"

enum event_kind {
        EVENT_REQUEST,      /* a visible HTTP request, allowed or refused, at its end */
        EVENT_TUNNEL_OPEN,  /* CONNECT, SOCKS5 or transparent connection judged: opened or refused */
        EVENT_TUNNEL_CLOSE, /* with bytes and duration */
        EVENT_DNS,          /* a question, answered or refused */
        EVENT_PACKET,       /* a packet that the sandbox's network namespace refused */
        EVENT_FILE,         /* a denied file access seen by the tracer */
        EVENT_SYSCALL,      /* a denied system call seen by the tracer */
        EVENT_COMMAND,      /* judged by the classifier: method: its decision, path: the command, detail: why */
        EVENT_RATCHET, /* a ratchet closes: method: read, tool, reach or launch, path: what was seen, detail: why */
        EVENT_HELD,  /* the broker holds an open until a person answers: generation: its number, method: read, write, or
                        gone for one that is withdrawn, path, connection: its flags, detail: who opens; never recorded
                      */
        EVENT_NOTE,  /* start, stop, reload, gateway failure: text in detail */
        EVENT_NAMED, /* the broker asks what git's configuration has come to name (sandbox/named.h): generation: its
                        number; never recorded */
        EVENT_KINDS
};
enum event_via {
        VIA_NONE,
        VIA_HTTP,
        VIA_CONNECT,
        VIA_SOCKS5,
        VIA_TRANSPARENT,
        VIA_DNS,
        VIA_API,
        VIA_PACKET,
        VIA_SSH,
        VIA_AGENT,
        VIA_GPG,
        VIAS
};
enum event_scheme {
        SCHEME_NONE,
        SCHEME_HTTP,
        SCHEME_HTTPS,
        SCHEME_TCP,
        SCHEME_UDP,
        SCHEME_ICMP,
        SCHEME_IP,
        SCHEME_SSH,
        SCHEMES
};

#define EVENT_TEXT_MAX 2048   /* longest of each string; event_encode() cuts longer ones */
#define EVENT_BATCH_MAX 65536 /* longest message */
#define EVENT_STATUS_MAX 999

struct event {
        uint64_t wall_us;
        uint64_t connection;                       /* number of the client connection, to join open and close */
        uint64_t bytes_in, bytes_out, duration_us; /* in: from the far end to the sandbox */
        uint32_t rule;                             /* index in the snapshot of `generation`, or RULE_NONE */
        uint32_t generation;                       /* of the policy snapshot that judged */
        uint32_t count;                            /* attempts of this kind that the record stands for; 0 means 1 */
        uint16_t kind, via, scheme, reason, port, status;
        bool allowed;
        struct addr addr; /* dialled, or ADDR_NONE */
        struct str domain, method, path, swapped, detail;
        struct str act; /* what a request of git or GraphQL would do: "SERVICE HOST/PATH", a line "REF OLD NEW" for each
                           ref; or "graphql query|mutation", a line for each field */
};

/* Stable names for the audit and JSON output; NULL for a value outside the enum. */
const char *event_kind_name(enum event_kind kind);
const char *event_via_name(enum event_via event_via);
const char *event_scheme_name(enum event_scheme scheme);
/* Of a packet: TCP, UDP, ICMP (also of IPv6), or IP for every other protocol. */
enum event_scheme event_scheme_of(uint8_t protocol);
/* For people: beside the address, where a request has its method. */
struct str event_scheme_word(enum event_scheme scheme);

/* Appends one record, whole or not at all; -EMSGSIZE when the batch is full (send it, then add again). Strings that are
 * too long are cut; a value outside its enum is -EINVAL. A record always fits into an empty batch. */
int event_encode(struct buf *batch, const struct event *ev);
/* Takes one record off the front. Strings point into the batch. 1: got one, 0: at the end, -EBADMSG: malformed (what
 * came before in the batch was valid; what follows cannot be trusted). */
int event_decode(struct str *batch, struct event *ret);
