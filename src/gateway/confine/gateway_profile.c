/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/confine/gateway_profile.h"

/* Loopback stays open: a policy may allow it, and the gate judges every address before it is dialled. */
const char gateway_profile[] = "(version 1)\n"
                               "(deny default)\n"
                               "(allow network-outbound (remote ip \"*:*\"))\n"
                               "(allow system-socket (socket-domain AF_INET) (socket-domain AF_INET6))\n"
                               "(allow sysctl-read (sysctl-name \"hw.ncpu\") (sysctl-name \"hw.activecpu\")\n"
                               "    (sysctl-name \"hw.pagesize\"))\n";
