/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a reader and its clients say to each other. Both are the host user's, on the same machine. */
#include <stdint.h>

#define FIREWALL_SOCKET "firewall"

enum firewall_ask { FIREWALL_NOTHING, FIREWALL_WATCH, FIREWALL_TRY, FIREWALL_END };
struct firewall_request {
        enum firewall_ask what;
        uint16_t port; /* of FIREWALL_TRY */
};

/* Single bytes, to whoever tries. */
enum { FIREWALL_READY = 'r', FIREWALL_TCP = 't', FIREWALL_UDP = 'u' };
