/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Standard input and output through the gateway's SOCKS5 port to a host and port: what ssh's ProxyCommand needs.
 */
#include "base/err.h"

enum relay_fault {
        RELAY_USAGE,       /* the target or the proxy is not understood */
        RELAY_NO_GATEWAY,  /* the gateway cannot be reached, or does not answer as one */
        RELAY_REFUSED,     /* policy refuses the target */
        RELAY_UNREACHABLE, /* the target cannot be reached */
        RELAY_SYSTEM,
};

struct relay_settings {
        const char *via; /* "ADDRESS:PORT" or "socks5h://ADDRESS:PORT" */
        const char *host, *port;
        int in, out; /* both are closed as their side ends */
};

int relay_run(const struct relay_settings *s, enum relay_fault *ret_fault, struct err *e);
