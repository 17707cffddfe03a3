/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between the supervisor and bailey-probe, which plays both ends of a request for `bailey secrets test`: the origin (a
 * TLS server on the listener that it is given, with a CA of its own) and the client, through a gateway. It is given
 * stand-ins only.
 *
 *   fd 3  start block: a sealed anonymous file holding struct probe_start
 *   fd 4  the origin's listener
 *   fd 5  of fd_pair(): first the probe says the CA of its origin (DER); then it hears struct probe_go; then it says
 *         struct probe_result and ends
 */
#include "policy/match/host.h"

#define PROBE_VERSION 1
enum { PROBE_FD_START = 3, PROBE_FD_LISTENER, PROBE_FD_TALK };
enum { PROBE_REQUEST_MAX = 40960, PROBE_CA_MAX = 8192, PROBE_STAND_IN_MAX = 16385 };

struct probe_start {
        uint32_t version, size;
        struct authority origin;
        char request[PROBE_REQUEST_MAX]; /* what the client sends; the stand-in is in it */
        uint32_t request_n;
        char stand_in[PROBE_STAND_IN_MAX]; /* what must not arrive */
        char marker[256]; /* "authorization: bearer ", in lower case: what must stand before the value */
};

struct probe_go {
        uint16_t proxy_port; /* of the gateway, on 127.0.0.1 */
        uint32_t ca_n;
        char ca[PROBE_CA_MAX]; /* what the client trusts: the session's CA (DER) */
};

struct probe_result {
        uint32_t connected; /* the gateway let the client through, with a certificate that it trusts */
        uint32_t arrived;   /* the origin got a request */
        uint32_t swapped;   /* with another value than the stand-in in its place, and the stand-in nowhere */
        uint32_t hidden;    /* what the origin repeated of it was not in the answer */
        char text[256];     /* what went wrong */
};
