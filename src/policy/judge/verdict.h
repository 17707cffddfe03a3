/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one verdict function over an immutable snapshot (policy/judge/snapshot.h). Order: address class, deny list, allow
 * list, approval, default deny. Pure: no allocation, no clock, no I/O; safe from any number of threads.
 */
#include "policy/match/host.h"

enum decision {
        DECISION_DENY,
        DECISION_ALLOW,
        DECISION_ASK, /* hold the connection while a person is asked; a caller that cannot ask denies */
};

enum reason {
        REASON_NONE,
        REASON_ALLOWED,         /* an allow rule matched */
        REASON_ALLOWED_PRIVATE, /* opened by allow_private */
        REASON_OPEN_NETWORK,    /* mode full-network */
        REASON_DENY_RULE,       /* a deny rule matched */
        REASON_NOT_ALLOWED,     /* no rule matched */
        REASON_ADDRESS_CLASS,   /* loopback, private, metadata, ... */
        REASON_SELF,            /* Bailey's own listener, or an address of this host */
        REASON_NO_NETWORK,      /* the mode has no network */
        REASON_METHOD,          /* the host is allowed, this method is not */
        REASON_PATH,            /* the host is allowed, this path is not */
        REASON_NOT_VISIBLE,     /* a method or path rule, but the request is inside a tunnel */
        REASON_ASK,             /* a person must be asked */
        REASON_BAD_NAME,        /* not a canonical name or address */
        REASON_FRONTING,        /* SNI or Host disagrees with the name that was judged */
        REASON_RESOLVE,         /* the name did not resolve */
        REASON_LIMIT,           /* a limit or rate was reached */
        REASON_AUDIT,           /* the audit log cannot be written */
        REASON_PROTOCOL,        /* malformed or unsupported bytes */
        REASON_UPSTREAM,        /* the far end failed */
        REASON_TIMEOUT,
        REASON_CREDENTIAL,  /* a stand-in heads to another host or place than its own, or would be sent in the clear */
        REASON_VAULT,       /* the vault is not there, or has no value for a credential now */
        REASON_CERTIFICATE, /* the origin's certificate cannot be trusted: nothing was sent */
        REASON_TRANSPORT,   /* neither TCP nor a question for a name: UDP, ICMP, anything else */
        REASON_GIT_REPOSITORY, /* no entry under git names this repository */
        REASON_GIT_SERVICE,    /* an entry does, but allows no fetch, or no push of this kind */
        REASON_GIT_REF,        /* the push changes a ref that it may not */
        REASON_GIT_FORM,       /* git's own protocol, spoken in a way that is not understood */
        REASON_GIT_ONLY,       /* the host is open for git alone, and this request is something else */
        REASON_GRAPHQL,        /* the GraphQL document asks for a field that is not allowed, or is not understood */
        REASON_SIGNING,        /* a signature that the policy grants to nobody, or with a key that it does not name */
        REASON_CLIENT,         /* the service is for other clients */
        REASON_RATCHET,        /* a ratchet has closed, and does not leave this; with DECISION_ASK: a person is asked */
        REASONS
};
/* Stable code for x-bailey-reason, the audit and JSON output: "not-allowed", "address-class", ... */
const char *reason_code(enum reason reason);
/* One short sentence for people, without the host. */
const char *reason_text(enum reason reason);

#define RULE_NONE UINT32_MAX

struct verdict {
        uint8_t decision;   /* enum decision */
        uint8_t reason;     /* enum reason */
        uint8_t class;      /* enum addr_class, when reason is REASON_ADDRESS_CLASS */
        bool needs_request; /* allowed hosts with method or path rules: the request must be seen and judged too */
        bool git;           /* repositories of this host have entries: git's requests are judged by those */
        bool reaches;       /* the host is a trigger of a ratchet: nothing of it before that has closed */
        uint8_t narrowed;   /* with DECISION_ASK by a ratchet: how many have closed */
        bool graphql;       /* of a request: allowed by a GraphQL rule, if what it asks for is (verdict_graphql()) */
        uint32_t rule;      /* index for snapshot_rule(), or RULE_NONE */
};

/* A person's approval of a target: 0 none, else one more than the number of ratchets that were closed at the time. An
 * approval from before a ratchet closed no longer counts. */
typedef uint8_t verdict_yes;
static inline bool verdict_is_agreed(const struct verdict *verdict, verdict_yes yes) {
        return verdict->decision == DECISION_ASK && yes > verdict->narrowed;
}

struct snapshot;

/* A host and port, before any lookup. For HOST_ADDR this includes the address checks. */
struct verdict verdict_target(const struct snapshot *snapshot, const struct host *host, uint16_t port);
/* For a question without a port, as DNS asks: any port may grant, only a rule for all ports may refuse. */
#define PORT_ANY 0
/* One address of the answer for a name that verdict_target allowed: DENY when this address may not be dialled.
 * PORT_ANY is understood. */
struct verdict verdict_address(const struct snapshot *snapshot, const struct host *host, const struct addr *addr,
                               uint16_t port);
/* As verdict_target() with PORT_ANY: whether some port of this name may be allowed (or asked for). */
struct verdict verdict_name(const struct snapshot *snapshot, const struct host *host);
/* A visible request: the target's verdict again and, where it has needs_request set, method and path too. `path` is the
 * request's own bytes without the query. A path that servers may read in two ways (dot segments, backslashes, escaped
 * dots, slashes, backslashes or percent signs, control bytes) matches no path pattern. */
struct verdict verdict_request(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                               struct str method, struct str path);
/* The same request, once its GraphQL document was read (bridge/graphql.h): the names of its fields at the root. */
struct graphql_fields {
        bool mutation;
        const struct str *names;
        size_t n;
};
struct verdict verdict_graphql(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                               struct str method, struct str path, const struct graphql_fields *fields);
/* The GraphQL rules that decide about documents sent so. method and path empty: about any request to the host. How many
 * there are; the first `max` of them in ret. */
size_t verdict_graphql_rules(const struct snapshot *snapshot, const struct authority *target, struct str method,
                             struct str path, uint32_t *ret, size_t max);
