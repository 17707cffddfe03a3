/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The secret of a run, as clients of a proxy bring it: user and password of the proxy variables. Where others can reach
 * the listener (on a Mac it is on the loopback of everybody), it tells the run's own clients from all the rest. Pure.
 */
#include "gateway/wire/http1.h"

/* Takes the same time for every secret of one length. */
bool proxy_auth_fits(struct str secret, struct str user, struct str password);
/* Exactly one Proxy-Authorization header, of the Basic scheme (RFC 7617), with that user and secret. */
bool proxy_auth_head_fits(struct str secret, const struct http1_head *head);
