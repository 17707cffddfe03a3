/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names to addresses, with c-ares, which stays inside resolve.c. One resolver per loop: no locks, and a name is asked
 * for at most once per worker and lifetime. Only canonical names (struct host) come in; the system's search list, host
 * file and name service switch play no part.
 *
 * Loopback names (host_is_loopback_name) are answered here and never sent to a server: a server could otherwise choose
 * where this host's own services are.
 *
 * Answers are cached, good and bad, between limits of time and number; identical questions in flight are one. A static
 * host file ("address name..." lines) comes before everything.
 */
#include "base/clock.h"
#include "net/loop.h"
#include "policy/match/host.h"

#define RESOLVE_TIMEOUT_NS (5 * NS_PER_SECOND)
#define RESOLVE_ADDRS_MAX 32 /* more addresses than these in one answer are an error: all must be judged */

struct resolver;

struct resolve_server {
        struct addr addr;
        uint16_t port; /* 0: 53 */
};

struct resolver_settings {
        const struct resolve_server *servers; /* none: those of /etc/resolv.conf, read once, at the start */
        size_t n_servers;
        const char *hosts_file; /* NULL or "": none */
        uint64_t timeout_ns;    /* for the whole question; 0: RESOLVE_TIMEOUT_NS */
        size_t cache_max;       /* names; 0: 2048 */
        size_t flight_max;      /* questions at once; 0: 1024 */
};

/* Reads its files now; needs no file later. */
int resolver_new(struct loop *loop, const struct resolver_settings *settings, struct resolver **ret, struct err *err);
/* Pending calls get -ECANCELED. */
void resolver_free(struct resolver *resolver);

struct resolve_answer {
        uint16_t n;   /* 0 when error is set */
        int error;    /* 0, -ENOENT (no such name or no address), -ETIMEDOUT, -EBUSY (too many in flight), -E2BIG, -EIO,
                         -ECANCELED */
        uint32_t ttl; /* seconds that it may be kept */
        struct addr addrs[];
};

/* Waits for an answer; embedded in its caller. */
struct resolve_call {
        struct link link;
        void (*done)(struct resolve_call *c, const struct resolve_answer *a);
};

/* A cached or static answer, or NULL. Valid until the loop's next turn. */
const struct resolve_answer *resolve_cached(struct resolver *resolver, const struct host *name);
/* done() comes later, never from inside. 0, or -ENOMEM or -ECANCELED at the resolver's end (then it never comes). */
int resolve_start(struct resolver *resolver, const struct host *name, struct resolve_call *call);
void resolve_cancel(struct resolve_call *call);
