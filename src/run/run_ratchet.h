/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ratchets of one run (policy/judge/ratchet.h): what closes one, and what happens before the caller goes on.
 *
 *     the broker      before a marked file is opened: the caller waits in its call (broker/broker_marks.h)
 *     the gateway     before a trigger host is dialled: the connection is held (gateway/gate.c)
 *     the bridge      before a call that is a trigger starts (run/bridge/run_bridge.c)
 *     the launch      standard input or output is a marked file
 *
 * Closing one means, in this order: record it; end the bridged tools that it refuses, and wait for them; give every
 * gateway worker the narrowed rules, and close the connections that they refuse. Only then does the caller go on.
 * If a step fails, the run ends before the caller sees anything.
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct authority;
struct event;
struct poller;
struct run;

struct run_ratchet {
        int judged;         /* a byte comes when the gateway judges by the narrowed rules; -1: it does */
        bool narrowing;     /* somebody waits */
        bool asked;         /* the broker waits: */
        uint32_t number;    /* for the answer to this question */
        VEC(uint64_t) held; /* connections, by the gateway's numbers */
        struct err failed;  /* why the run must end; code 0: it need not */
};
#define RUN_RATCHET_NONE ((struct run_ratchet){ .judged = -1 })
void run_ratchet_done(struct run_ratchet *ratchet);

/* Before the command runs: its standard descriptors. */
int run_ratchet_launch(struct run *run, struct err *err);
/* EVENT_RATCHET of the broker. */
void run_ratchet_read(void *run, const struct event *event);
/* session_calls.on_ratchet */
void run_ratchet_reach(void *run, uint64_t id, const struct authority *target);
/* A call that closes these: true when it must wait until run_bridge_released(). */
bool run_ratchet_tool(struct run *run, uint32_t rules, const char *call);

void run_ratchet_watch(void *run, struct poller *poller);
int run_ratchet_step(void *run, struct poller *poller, struct err *err);
