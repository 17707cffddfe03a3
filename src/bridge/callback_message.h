/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between the supervisor and `bailey-gateway callback`, the process that reads what comes to the port of one callback.
 * Packets of fixed form over a SOCK_SEQPACKET socket:
 *
 *   fd 3  the socket: first struct callback_start, answered by one struct callback_word for each thing that happens;
 * its end on either side is the end of the flow fd 4  the listener on this host's loopback address fd 5  a TCP socket
 * that was made inside the sandbox, and is connected to nothing; fd 6: the same for IPv6, or none
 */
#include "bridge/page.h"

enum { CALLBACK_FD = 3, CALLBACK_FD_LISTENER = 4, CALLBACK_FD_INSIDE = 5, CALLBACK_INSIDE_MAX = 2 };

struct callback_start {
        uint64_t time_ms;   /* for the callback to come */
        uint64_t linger_ms; /* how long what comes after it, or too late, is still told so */
        uint32_t n_inside;
        struct page_callback callback;
};

enum callback_happening {
        CALLBACK_READY = 1, /* it accepts */
        CALLBACK_REFUSED,   /* number: enum callback_verdict */
        CALLBACK_CARRIED,   /* number: the status that was answered inside, 0: none that can be read */
        CALLBACK_NOBODY,    /* nobody listens inside; the next request is tried again */
        CALLBACK_HAPPENINGS
};

struct callback_word {
        uint32_t happening, number;
};
