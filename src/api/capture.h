/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Serving one job from outside: its two outputs and its link, by the thread that called, until all three have ended.
 * The command's output is kept up to the limit and read beyond it, so that the command never blocks on us and our
 * memory stays bounded.
 *
 * Ending early: our half of the link is shut, upon which the supervisor kills the sandbox and ends in its turn; one
 * that does not within CAPTURE_PATIENCE_MS is killed itself, and the sandbox with it (its init watches).
 */
#include "api/child.h"
#include "api/result.h"
#include "ipc/supervise_messages.h"

enum { CAPTURE_PATIENCE_MS = 3500 }; /* below what bailey_manager_cleanup() waits for calls */

struct capture {
        struct child child;
        bailey_result *result;
        int stop[2]; /* readable: end early; -1: none */
        /* A question about a host; answered on the link by the callback. */
        void (*on_ask)(void *arg, int link, const struct supervise_message *question);
        void *arg;
        /* Afterwards: */
        bool stopped;
        bool told; /* `end` is there */
        struct supervise_message end;
        /* Its own: */
        bool linked;         /* the link has not ended */
        uint64_t kill_at_ns; /* not 0: it is being ended, and has this long */
};

void capture_serve(struct capture *capture);
/* Waits for the process and closes what is open. */
void capture_done(struct capture *capture);
