/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets of a gateway that runs by itself: on loopback, or on a container bridge's address, never where
 * other machines can reach them.
 */
#include "base/err.h"
#include "policy/match/addr.h"

/* "127.0.0.1:3128", "[::1]:0"; port 0 takes a free one. Says why an address is not accepted. */
int listen_parse(struct str text, struct endpoint *ret, struct err *err);
/* The first container bridge of a known name that has a private address: bailey0, then those that docker and podman
 * make by themselves. Asked of the kernel, not of a program. False: none. */
bool listen_bridge(struct addr *ret, char ret_name[static 16]);
#define LISTEN_BRIDGE "bailey0" /* a bridge that somebody made for the gateway by hand */
/* Bound, listening, non-blocking. at->port is filled in when it was 0. */
int listen_tcp(struct endpoint *at, int *ret_fd, struct err *err);
/* UDP and TCP on the same port. */
int listen_dns(struct endpoint *at, int *ret_udp, int *ret_tcp, struct err *err);
/* "127.0.0.1:3128", "[::1]:3128" */
#define LISTEN_TEXT_MAX (ADDR_TEXT_MAX + 8)
void listen_text(const struct endpoint *at, char ret[static LISTEN_TEXT_MAX]);
