/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HTTP/2 inside TLS that was opened (gateway/intercept.h): one connection of a client joined to one of the origin, each
 * request judged by itself. Theory in h2_session.c.
 */
#include "gateway/http/http_session.h"

/* Where both sides chose "h2", or the client did and there is no origin (inside->spoilt). Takes client and upstream
 * over, also when it fails (-ENOMEM: all is closed). */
int h2_session_start(const struct client *client, const struct http_inside *inside);
