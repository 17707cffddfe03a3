/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The gateway of one run on a Mac. It listens on the Mac's own loopback, where every program can reach it, so each run
 * has a secret that its clients must bring. The profile of the run lets its programs connect to these two ports and to
 * nothing else.
 */
#include "base/processes/poller.h"
#include "policy/policy.h"
#include "store/audit.h"

#include <stdint.h>

struct gateway_process;
struct vault_session;
struct macos_link;
struct link_heard;

struct macos_gateway {
        struct gateway_process *process; /* NULL: none yet */
        struct poller poller;
        const struct policy *policy;
        struct policy *network;      /* not NULL: judges in its place */
        struct macos_link *link;     /* hears of refusals and questions; NULL: nobody does */
        struct vault_session *vault; /* opened; NULL: none */
        const char *ca_bundle;       /* roots that it trusts; NULL: the system's */
        int listeners[2];            /* HTTP, SOCKS5 */
        uint16_t http_port, socks_port;
        char secret[PROXY_SECRET_MAX + 1];
        bool quiet; /* refusals are on record only */
};
#define MACOS_GATEWAY_NONE ((struct macos_gateway){ .listeners = { -1, -1 } })

/* Listens, and makes the secret: the ports are part of the profile. Nothing to do in a mode without a network. */
int macos_gateway_listen(struct macos_gateway *gateway, const struct policy *policy, struct err *err);
/* Starts it, if something listens. The struct must not move from here on; policy and audit must outlive it. The
 * hosts file may be NULL. */
int macos_gateway_start(struct macos_gateway *gateway, struct audit *audit, const char *id, const char *hosts_file,
                        struct err *err);
/* What it has reported is recorded, and one that died is replaced when somebody connects. Does not wait. */
void macos_gateway_turn(struct macos_gateway *gateway);
/* An answer to a question that the link was asked. */
void macos_gateway_answer(struct macos_gateway *gateway, uint64_t id, bool allow);
/* Connections are judged by this policy from now on. Takes what was heard. */
int macos_gateway_use(struct macos_gateway *gateway, const struct link_heard *heard, struct err *err);
/* With its last word. */
void macos_gateway_done(struct macos_gateway *gateway);
