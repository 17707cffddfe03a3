/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools that stand still with the sandbox that called them. A tool may have the caller's terminal, and print what the
 * caller wants printed: while a question is shown there (control/live_prompt.c), or while a person has paused the
 * sandbox, nobody else may write to it. Each tool's supervisor freezes its own sandbox and says when it stands; a call
 * that would begin meanwhile waits.
 *
 * A tool never keeps the sandbox from standing: one that is about to end is waited for, and one that cannot stand is
 * ended.
 */
#include "control/live.h"
#include "ipc/supervise_messages.h"
#include "run/bridge/run_bridge_internal.h"

#include <errno.h>

/* If it cannot be told, its link has broken, and that ends it. */
static void tell_stand(const struct run_bridge *bridge, const struct bridge_call *call, bool stand) {
        const struct supervise_message message = { .kind = SUPERVISE_STAND, .id = bridge->stand, .number = stand };

        if (call->state == BRIDGE_RUNNING && call->link >= 0)
                (void)supervise_send(call->link, &message, NULL);
}

void run_bridge_stand(struct run *run) {
        struct run_bridge *bridge = &run->bridge;

        bridge->standing = true;
        bridge->stand++;
        bridge->stood_self = false;
        bridge->self_error = 0;

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &bridge->calls[i];

                call->to_stand = call->state == BRIDGE_RUNNING || call->state == BRIDGE_ENDING;
                tell_stand(bridge, call, true);
        }
}

void run_bridge_go_on(struct run *run) {
        struct run_bridge *bridge = &run->bridge;

        bridge->standing = false;

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                bridge->calls[i].to_stand = false;
                tell_stand(bridge, &bridge->calls[i], false);
        }

        if (!run->ratchet.narrowing) /* else they run when it has closed */
                run_bridge_released(run);
}

/* All of them stand or are gone. If the sandbox itself cannot stand, nobody needs to. */
static void stand_settle(struct run *run) {
        struct run_bridge *bridge = &run->bridge;
        int error = bridge->self_error;

        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (bridge->calls[i].to_stand)
                        return;
        if (!bridge->standing || !bridge->stood_self)
                return;

        bridge->stood_self = false;
        if (error)
                run_bridge_go_on(run);

        live_frozen(run->session.control, error);
}

void run_bridge_stood(struct run *run, int error) {
        run->bridge.stood_self = true;
        run->bridge.self_error = error;
        stand_settle(run);
}

/* What it says of an earlier time is no answer to the last: it may have gone on in between. */
bool bridge_stood(struct run *run, struct bridge_call *call, uint64_t stand, int error) {
        if (!call->to_stand || stand != run->bridge.stand || error == EPIPE) /* its sandbox is over: its end follows */
                return true;
        if (error)
                return false;

        call->to_stand = false;
        stand_settle(run);
        return true;
}

void bridge_stand_without(struct run *run) {
        stand_settle(run);
}
