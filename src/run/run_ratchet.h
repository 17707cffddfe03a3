/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ratchets of one run (policy/ratchet.h): who asks for one to be closed, and what happens before the answer.
 *
 *     the broker      a marked file is about to be opened: the caller waits in its call (sandbox/linux/broker_marks.h)
 *     the gateway     a host that is a trigger is about to be dialled: the connection is held (gateway/gate.c)
 *     the bridge      a call that is a trigger is about to be started (run_bridge.c)
 *     the launch      standard input or output is a marked file
 *
 * Closing one means, in this order: it is on record; bridged tools that it does not leave are ended, and waited for;
 * the gateway has the narrowed rules in every worker, and has closed what they refuse. Only then is whoever asked told.
 * If any of it fails, the run ends: what was to be seen has not been shown.
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
