/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A worker: one thread, one loop, and everything that connections pinned to it share without locks: the policy they are
 * judged by, the resolver, borrowed buffers, the batch of events. What all workers share is struct gateway.
 */
#include "gateway/event_report.h"
#include "gateway/gateway.h"
#include "gateway/load/pace.h"
#include "ipc/event.h"
#include "net/loop.h"
#include "net/pool.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "policy/judge/snapshot.h"

#include <errno.h>

struct acceptor;
struct vault_client;
struct swap_cache;
struct git_http;
struct tls;
struct upstream_pool; /* of the HTTP sessions: idle connections to origins */

struct worker {
        struct gateway *gateway;
        unsigned index;
        struct loop *loop;
        struct pool pool;
        struct resolver *resolver;
        struct policy_ref *policy; /* what to judge by now; changes only between callbacks, and so do the next two */
        struct gateway_limits limits;
        uint64_t ask_timeout_ns;
        struct link http_sessions; /* struct http_session: all of them, for the end */
        struct link judged;        /* struct judged: what is open under a verdict, for new policies */
        struct link programs;      /* struct program_call: programs of the host that sessions wait for or use */
        struct link ssh_sessions, agent_sessions;
        uint64_t programs_ever;
        struct link asks; /* struct ask: questions that calls of this worker wait for */
        struct report report;
        struct pace pace; /* of refusals that are repeated */
        struct upstream_pool *upstreams;
        struct tls *tls;            /* NULL: no TLS is opened */
        struct vault_client *vault; /* with tls */
        struct swap_cache *swaps;   /* gateway/creds/swap.h */
        atomic_uint clients;        /* connections pinned here; acceptors read it to choose */
        unsigned crowd;             /* the most of them since memory was given back */
        struct timer trim;          /* runs while memory is to be given back */
        struct acceptor *acceptors; /* the listeners that this worker accepts on */
        pthread_t thread;           /* once it runs */
        atomic_uint stage;          /* enum worker_stage; the main thread makes it run, nobody makes it rest again */
        struct task call;           /* on its way to the main thread while it is called */
};

/* One that rests has no thread, and belongs to the main thread. */
enum worker_stage { WORKER_RESTS, WORKER_CALLED, WORKER_RUNS };
static inline bool worker_runs(const struct worker *worker) {
        return atomic_load_explicit(&worker->stage, memory_order_acquire) == WORKER_RUNS;
}

/* On the main thread. */
int worker_start(struct worker *worker);
/* From the main thread: fn runs where the worker runs, or at once while it rests. */
void worker_tell(struct worker *worker, struct task *task);

/* The thread: runs until loop_stop(). */
void *worker_main(void *worker);

static inline const struct snapshot *worker_snapshot(const struct worker *worker) {
        return worker->policy->snapshot;
}

/* Whether it serves a sandbox whose connections are captured. */
bool worker_captures(const struct worker *worker);

/*
 * An accepted connection. It is counted against the limits from accept until client_done(), and travels by value: into
 * the session that speaks its protocol, then into the tunnel.
 */
struct client {
        struct worker *worker;
        struct stream *stream;
        const struct gateway_listener *listener;
        uint64_t number; /* of the connection, joins its events */
        uint64_t since;  /* loop_now() at accept */
        uint8_t via;     /* enum event_via */
};

/* Whether a credential of this sandbox goes there. */
bool worker_has_credential(const struct worker *worker, const struct authority *target);

/* One of `before` connections has left this worker. */
void worker_left(struct worker *worker, unsigned before);
/* The place of one connection, which was counted when it was accepted. */
void worker_takes_place_back(struct worker *worker);
/* Closes the stream, if it is still there, and gives the place back. */
void client_done(struct client *client);
/* There is no memory for its session: the same, and -ENOMEM. */
static inline int client_has_no_room(const struct client *client) {
        struct client copy = *client;
        client_done(&copy);
        return -ENOMEM;
}

/*
 * Something open under a verdict: a tunnel, or a request on its way. When the policy changes each is judged again, and
 * revoke() is called for those that the new one refuses (it removes itself from the list and closes).
 */
struct judged {
        struct link link;
        const struct authority *target;
        struct addr addr;           /* dialled; ADDR_NONE while it is not known */
        verdict_yes asked;          /* a person approved it: a policy that would ask again leaves it open */
        struct str method, path;    /* of the one request that it is; empty: not one request */
        const struct git_http *git; /* it is one of git's: judged by repository, not by path; NULL: it is not */
        bool narrow_only;           /* a port of the host, which no rule opened: only a ratchet closes it */
        bool opaque;                /* its requests are not seen: a policy that wants to see them closes it */
        void (*revoke)(struct judged *j, struct verdict v);
};

void judged_add(struct worker *worker, struct judged *judged);
static inline void judged_remove(struct judged *judged) {
        link_remove(&judged->link);
}

/* The new policy for this worker; takes one reference. Judges all that is open again; what is held is for
 * ask_judge_again(). On the worker's thread. */
void worker_set_policy(struct worker *worker, struct policy_ref *ref);
/* The end: everything that is open is closed and reported. */
void worker_revoke_all(struct worker *worker);
/* The timer behind worker_left(). */
void worker_on_trim(struct timer *timer);
