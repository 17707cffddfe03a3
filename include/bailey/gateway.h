/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_GATEWAY_H
#define BAILEY_GATEWAY_H
#include "bailey/manager.h"
BAILEY_BEGIN

/*
 * A gateway for programs that are not run by the manager: an HTTP and a SOCKS5 proxy on loopback that judge by the
 * manager's network policy. It runs in processes of its own. bailey_manager_update() gives it the new rules at once,
 * bailey_manager_cleanup() ends it.
 */
typedef struct bailey_gateway bailey_gateway;

/* Where it listens: "127.0.0.1:3128"; port 0 takes a free one. NULL stands for "127.0.0.1:0", "" for no listener. */
struct bailey_gateway_addresses {
        const char *http, *socks;
};

/* Starts it and returns when both halves accept connections; if one of them cannot, neither does. `at` may be NULL.
 * BAILEY_E_PROXY, BAILEY_E_CLOSED, BAILEY_E_CONFIG, BAILEY_E_DEPENDENCY (also where the manager has no sandbox and the
 * executable is missing). */
BAILEY_API int bailey_gateway_start(bailey_manager *m, const struct bailey_gateway_addresses *at, bailey_gateway **ret,
                                    struct bailey_error *e);
/* The port of the HTTP proxy, or 0. */
BAILEY_API uint16_t bailey_gateway_http_port(const bailey_gateway *g);
/* The port of the SOCKS5 proxy, or 0. */
BAILEY_API uint16_t bailey_gateway_socks_port(const bailey_gateway *g);
/* The address of both as text, "127.0.0.1"; "" when it does not run any more. */
BAILEY_API const char *bailey_gateway_address(const bailey_gateway *g);
/* 1 while it runs. */
BAILEY_API int bailey_gateway_running(const bailey_gateway *g);
/* Ends it, open connections included, within 5 seconds, and frees it; NULL is allowed. */
BAILEY_API void bailey_gateway_stop(bailey_gateway *g);

BAILEY_END
#endif
