/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run that is made before its command is known: `bailey exec --warm` leaves one behind for the next call with the
 * same policy (verbs/warm.h). It is a run like any other, with everything of its own, that stops before the audit is
 * opened and goes on when somebody connects and brings a command. It serves one command, and ends with it.
 *
 * What holds at any time of a run holds here, since it has only begun earlier: denied paths are watched while it waits,
 * and what is done by path is judged when it is done. What a launch looks at once is looked at again when the command
 * comes: the policy is read anew and must be the same to the letter; the streams are judged as at any launch; the
 * guards of sandboxes that run meanwhile must be the ones in the plan. Whatever does not fit is answered by WARM_NOT,
 * and the caller launches by itself.
 *
 * It is in nobody's way: no slot among the guards, no lock on the caches, no record, no control socket before there is
 * a command. So a policy that holds something of the host (published ports, an overlay, doors to host programs) is not
 * made ahead.
 */
#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/processes/poller.h"
#include "ipc/run_end.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"

struct run;

struct run_spare {
        int listener;                    /* non-blocking, SOCK_SEQPACKET; closed when a command was taken */
        uint64_t until_ns;               /* it ends when nobody has come by then */
        unsigned char key[DIGEST_BYTES]; /* whose commands it is for (verbs/warm_key.h) */
        /* Whether this command may run at once; then it is the request's, with what belongs to it. `link`: the caller
         * captures the output (-1: it does not). */
        int (*judge)(void *arg, const struct policy *policy, char **words, size_t n, int link, struct err *err);
        /* Nobody else must find it. */
        void (*on_taken)(void *arg);
        void *arg;

        /* Its own: */
        unsigned char policy[DIGEST_BYTES]; /* as it was loaded */
        struct sandbox_event mounted;       /* init's word, kept until the run takes it */
        bool is_mounted;
        int connection; /* of the caller; -1: there is no command yet */
        struct buf words;
        char **argv;
};
#define RUN_SPARE_NONE                                                                                                 \
        { .listener = -1, .connection = -1 }

/* When the policy has just been read. -ENOTSUP: such a sandbox is not made ahead. */
int run_spare_begin(struct run *run, struct err *err);
/* Until there is a command. -ESTALE: one that is made now would be another one. -ETIMEDOUT: nobody came. */
int run_spare_wait(struct run *run, struct err *err);
/* The last step before init is told to go: the caller still waits, and init gets the command. */
int run_spare_go(struct run *run, struct err *err);
/* A part of the run's poller: what the caller says. */
void run_spare_watch(void *run, struct poller *poller);
int run_spare_step(void *run, struct poller *poller, struct err *err);
/* The last word to the caller, when nothing is left that it could see unfinished. */
void run_spare_end(struct run *run, enum run_end end, const struct err *err);
void run_spare_done(struct run_spare *spare);
