/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The internals of a manager. One lock guards the state, the list of jobs that run and whether it is closed; it is
 * never held while something is started, read or asked. A call enters (counted, with a state of its own), works,
 * leaves.
 */
#include "api/api_state.h"
#include "base/map.h"

#include <pthread.h>

/* A job with a link, while it runs: an update must reach it. */
struct running {
        int link;
        uint64_t number; /* of the manager's jobs, from 1 on */
        struct running *next, **before;
};

struct bailey_manager {
        atomic_uint refs; /* the program's, and one for each gateway */
        pthread_mutex_t lock;
        pthread_cond_t left; /* a call or a gateway's thread ended */
        struct state *state;
        struct running *running;
        uint64_t jobs;   /* that were added so far */
        unsigned inside; /* calls and threads of gateways */
        bool closed;
        int closing; /* api_flag_new(), raised when the manager closes */
        char *base;
        char **env;
        bool sandboxed;
        char notice[4096];      /* why not; or, if it is, what is lost on this machine */
        pthread_mutex_t asking; /* one question at a time; guards `approved` */
        struct map approved;    /* rule, newline, command */
};

int manager_enter(bailey_manager *manager, struct state **ret, struct bailey_error *error);
void manager_leave(bailey_manager *manager);
/* The one that counts now; the caller's to unref. */
struct state *manager_state(bailey_manager *manager);
/* A job that was sent a new policy, and the socket that says when that judges. */
struct told {
        uint64_t number;
        int judged; /* -1: it was sent none */
};
/* From here on updates reach the job. If one came since it began with `began`, that is sent at once. */
struct told manager_add(bailey_manager *manager, struct running *running, const struct state *began);
/* Returns when each of them judges by its new policy or has ended. One that does not take it must not go on under the
 * old one: it is ended. */
void manager_await(bailey_manager *manager, struct told *told, size_t n);
void manager_remove(bailey_manager *manager, struct running *running);
void manager_unref(bailey_manager *manager);
/* What `bailey doctor --json` of this program answers within the limit. */
int manager_ask_doctor(const char *program, uint64_t limit_ns, bailey_result **ret, struct bailey_error *error);
