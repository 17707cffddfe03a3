/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The states of a guest and the one table of changes between them. Pure. Nothing else in Bailey says which change is
 * allowed; what an interrupted one leaves is finished or rolled back by guest/guest_mend.h.
 */
#include "base/err.h"

#include <stdbool.h>

enum guest_state {
        GUEST_CREATING, /* its home is being made */
        GUEST_READY,    /* made, and never started */
        GUEST_RUNNING,
        GUEST_STOPPED,
        GUEST_ARCHIVED, /* its home is packed, and not there */
        GUEST_DELETED,  /* only its rows are left */
        GUEST_BROKEN,   /* it is not as its rows say; the reason is in them */
        GUEST_STATES
};
const char *guest_state_name(enum guest_state state);
bool guest_state_parse(const char *text, enum guest_state *ret);

enum guest_step_kind {
        STEP_CREATED,
        STEP_START,
        STEP_END, /* it was stopped, ended by itself, or was found ended */
        STEP_ARCHIVE,
        STEP_UNARCHIVE,
        STEP_RESTORE,
        STEP_SNAPSHOT,
        STEP_PROVISION,
        STEP_DELETE,
        STEP_BREAK,
        STEP_MEND, /* what was broken is as its rows say again: back to the state before */
        GUEST_STEPS
};
const char *guest_step_name(enum guest_step_kind step);

/* The state that this step leads to. -EBUSY, -EINVAL: not from this state; the text says what a person can do. `before`
 * is where STEP_MEND leads. */
int guest_step(enum guest_step_kind step, enum guest_state from, enum guest_state before, const char *name,
               enum guest_state *ret, struct err *err);
