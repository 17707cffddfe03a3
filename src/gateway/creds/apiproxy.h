/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The API proxy: for SDKs that take a base URL. http://127.0.0.1:PORT/NAME/PATH is https://HOST/PATH, where NAME is a
 * credential and HOST the first of its hosts that is one name. Theory in apiproxy.c.
 */
#include "gateway/wire/http1.h"
#include "ipc/credentials.h"

/* Redirects the request to its origin: removes /NAME from its path and replaces its Host. 0, or the status to refuse it
 * with and *ret_what. Pure. */
unsigned apiproxy_route(const struct credentials *credentials, struct http1_request *request,
                        struct authority *ret_target, const char **ret_what);
