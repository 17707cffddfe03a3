/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An internal network of a container engine has no way out, but it may have one to this host: some engines give its
 * containers a default route, and every service on every address of the host is behind it. Where we may (root, with nft
 * installed), rules on the network's own bridge leave the gateway and nothing else.
 */
#include "base/err.h"

#include <stdint.h>

/* Packets from the bridge reach this address and port only, and are not forwarded. Replaces the rules of before.
 * -EPERM: this account may not; -ENOENT: nft is not installed. */
int egress_firewall_up(const char *bridge, const char *address, uint16_t port, struct err *err);
void egress_firewall_down(void);
