/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A guest's run: `bailey guest start` leaves a supervisor behind, without a terminal, whose sandbox has the agent
 * (guest/agent/agent.h) as its command. It is a run like any other, with a record, a control socket and a place in
 * `bailey ps`.
 */
#include "conf/option.h"
#include "guest/guest_place.h"

/* Rows of the policy's tables: what the guest was made with, its grants, and `extra` (or NULL), in this order. */
int guest_options(struct guests *guests, const struct guest *guest, const struct option_values *extra,
                  struct option_values *ret, struct err *err);
/* For one start. */
struct guest_extra {
        const struct option_values *options; /* rows of the policy's tables; others are ignored */
        const char *hosts_file, *ca_bundle;  /* as in struct run_request */
        const char *doing, *note;            /* an operation that goes on: the caller keeps holding the guest */
};
/* Returns when the agent answers. The caller holds the guest; it is let go, unless an
 * operation goes on. -EALREADY: it runs. */
int guest_start(struct guests *guests, struct guest *guest, const struct guest_extra *extra, struct err *err);
/* Asks the agent to end everything; after `grace_s` the supervisor is made to. Returns when it is gone. */
int guest_stop(const struct guest *guest, unsigned grace_s, struct err *err);
/* The id of its run, as `bailey ps` has it; "" where it is not known. */
void guest_run_id(const struct guest *guest, char ret[static 32]);
/* Everything inside is frozen, or goes on. */
int guest_freeze(const struct guest *guest, bool on, struct err *err);
