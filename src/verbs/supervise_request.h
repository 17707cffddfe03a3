/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What libbailey hands to `bailey supervise` (ipc/supervise_messages.h), taken from its descriptors or its variable. */
#include "control/judged.h"
#include "control/link.h"

struct supervise_call {
        struct supervise_request request;
        struct link_settings settings; /* settings.policy: its layers */
        struct link socket;
        const struct link *link; /* NULL: the status is for our parent, as with `bailey run` */
};

/* The struct must not move afterwards. On failure the link is there all the same, if there was one: the other side is
 * to hear why. */
int supervise_call_take(struct supervise_call *call, struct err *err);
void supervise_call_done(struct supervise_call *call);

/* The words of the command, NULL-terminated; they belong to the request. And the current directory is where it starts.
 */
char **supervise_call_enter(const struct supervise_call *call, struct err *err);
/* The verdict on it; all NULL where there is none. */
struct judged supervise_call_judged(const struct supervise_call *call);
