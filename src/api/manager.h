/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The inside of a manager. One lock guards the state, the list of jobs that run and whether it is closed; it is never
 * held while something is started, read or asked. A call enters (counted, with a state of its own), works, leaves.
 */
#include "api/state.h"
#include "base/map.h"

#include <pthread.h>

/* A job with a link, while it runs: an update must reach it. */
struct running {
        int link;
        struct running *next, **before;
};

struct bailey_manager {
        atomic_uint refs; /* the program's, and one for each gateway */
        pthread_mutex_t lock;
        pthread_cond_t left; /* a call or a gateway's thread ended */
        struct state *state;
        struct running *running;
        unsigned inside; /* calls and threads of gateways */
        bool closed;
        int closing; /* an eventfd, readable when the manager closes */
        char *base;
        char **env;
        bool sandboxed;
        char notice[4096];      /* why not; or, if it is, what is lost on this machine */
        pthread_mutex_t asking; /* one question at a time; guards `approved` */
        struct map approved;    /* rule, newline, command */
};

int manager_enter(bailey_manager *m, struct state **ret, struct bailey_error *error);
void manager_leave(bailey_manager *m);
/* The one that counts now; the caller's to unref. */
struct state *manager_state(bailey_manager *m);
/* From here on updates reach the job; one that came since `began` with is sent at once. */
void manager_add(bailey_manager *m, struct running *running, const struct state *began);
void manager_remove(bailey_manager *m, struct running *running);
void manager_unref(bailey_manager *m);
