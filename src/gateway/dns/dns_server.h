/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* DNS for sandboxes and containers, over UDP and TCP. Theory in dns_server.c. */
#include "gateway/worker.h"

struct dns_udp;

/* Serves questions that arrive on the bound UDP socket, which stays the caller's. Each worker may have one on the same
 * socket. */
int dns_udp_new(struct worker *worker, int fd, struct dns_udp **ret, struct err *err);
void dns_udp_free(struct dns_udp *dns_udp);
/* One TCP client: questions with a length before each, answered in order. Takes the client over, also when it fails. */
int dns_tcp_start(const struct client *client);
