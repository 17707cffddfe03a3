/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How a run ends, for its caller: a verb, or libbailey on the other side of a socket (supervise_messages.h). */
enum run_end {
        RUN_ENDED,      /* with a status: the command's, 126 and 127 as a shell has them, 128 and the signal's number */
        RUN_BAD_POLICY, /* a layer of the policy is wrong */
        RUN_REFUSED,    /* the workspace's file asks for more than was granted */
        RUN_UNAVAILABLE, /* this machine cannot make the sandbox */
        RUN_TIMED_OUT,
        RUN_CANCELLED, /* the program behind the link is gone */
        RUN_FAILED,    /* a part of Bailey or of the system failed */
        RUN_ENDS
};
