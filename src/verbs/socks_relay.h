/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Standard input and output through the gateway's SOCKS5 port to a host and port: what ssh's ProxyCommand needs.
 */
#include "base/err.h"

struct relay_settings {
        const char *via; /* "ADDRESS:PORT" or "socks5h://ADDRESS:PORT" */
        const char *host, *port;
        int in, out; /* both are closed as their side ends */
};

int relay_run(const struct relay_settings *settings, struct err *err);
