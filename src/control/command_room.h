/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A command that the classifier escalated waits here: it is recorded, and a person is asked as about a host. It does
 * not run meanwhile. See command_room.c.
 */
#include "control/judged.h"
#include "policy/load.h"

struct room_request {
        const struct policy_request *policy;
        const struct option_values *options; /* the policy's, for who wants it read again; NULL: none */
        char *const *argv;                   /* for `bailey ps` */
        struct judged judged;                /* with `by`: it was refused already, and is only recorded */
        bool runs;                           /* with judged.by: recorded as one that runs, without a sandbox */
        bool ask_terminal;                   /* a policy that names no way to ask means the terminal, if there is one */
        int link;                            /* its end is the end of waiting; -1: none */
};

enum room_word {
        ROOM_APPROVED,
        ROOM_REFUSED,
        ROOM_NOBODY, /* nobody is there to be asked */
        ROOM_LATE,   /* nobody answered in time */
        ROOM_LEFT,   /* the asker went away */
};

enum { ROOM_ID_MAX = 13 };
struct room_outcome {
        enum room_word word;
        char by[112]; /* who approved or refused */
        /* The run that follows goes on under this name and in this file. */
        char id[ROOM_ID_MAX];
        char *audit_path;
};
void room_outcome_done(struct room_outcome *outcome);

/* An error means that nothing was asked: the policy is wrong, or the record cannot be written. */
int room_wait(const struct room_request *request, struct room_outcome *ret, struct err *err);
