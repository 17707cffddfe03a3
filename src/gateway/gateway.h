/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What all workers share: the settings from the start block, which never change (workers have the limits that count
 * now), counters for the limits, which are atomic, and the way to the supervisor.
 */
#include "gateway/load/balance.h"
#include "gateway/load/tally.h"
#include "ipc/gateway_messages.h"
#include "policy/judge/snapshot.h"

#include <pthread.h>
#include <stdatomic.h>

struct worker;
struct control;
struct quota;
struct synthetic;
struct chain_bypass;
struct secret;
struct tls_context;
struct credentials;
struct past;

/* A policy snapshot with its number; workers hold references, the last one unmaps it. */
struct policy_ref {
        atomic_uint references;
        uint32_t generation;
        struct snapshot *snapshot;
};
struct policy_ref *policy_ref_new(struct snapshot *snapshot,
                                  uint32_t generation); /* takes the snapshot; NULL: no memory */
struct policy_ref *policy_ref_get(struct policy_ref *ref);
void policy_ref_put(struct policy_ref *ref);

struct gateway {
        struct gateway_start start;
        struct worker **workers;
        unsigned n_workers;
        struct balance balance; /* the first worker's */
        struct control *control;
        struct quota *quota;
        struct synthetic *synthetic;      /* NULL unless DNS_SYNTHETIC; shared, has its own lock */
        struct secret *upstream_password; /* NULL: none */
        struct secret *client_secret;     /* NULL: a client needs none */
        struct chain_bypass *bypass;      /* targets that do not go through the upstream proxy */
        struct tls_context *tls;          /* NULL: no vault, so no TLS is opened */
        struct credentials *credentials;  /* with tls */
        struct past *past;                /* with tls; has its own lock */
        atomic_uint_fast64_t connections_ever;
        struct tally_rate tally_rate; /* of records that a program can cause without being let through */
        atomic_bool audit_fails;      /* IPC_AUDIT 0, or events cannot be delivered: no new work */
        int events_fd;
};
