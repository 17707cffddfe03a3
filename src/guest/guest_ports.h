/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ports of a running guest, offered on this host's loopback. A keeper outside, one process for each, listens; for each
 * connection it runs a connector inside, whose input and output are the connection. What is published at the start of
 * a guest (--publish) needs none of this.
 *
 *     guests/ID/ports/PORT    held by its keeper, which ends when the file goes
 */
#include "guest/guest_place.h"

/* Returns when the port is open. The guest must run. */
int guest_port_open(struct guests *guests, const struct guest *guest, uint16_t outside, uint16_t inside,
                    struct err *err);
/* 1: it was open and is not any more; 0: no keeper had it. */
int guest_port_close(const struct guest *guest, uint16_t outside, struct err *err);
/* All of them: keepers of an earlier run may not have seen its end yet. */
int guest_ports_close(const struct guest *guest, struct err *err);

/* Inside: standard input and output to this port of the loopback, until one side ends. Returns the exit status. */
int guest_connect(uint16_t port);
