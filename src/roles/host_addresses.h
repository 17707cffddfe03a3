/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* This host's own addresses: what a sandbox must not reach by going around through the gateway. */
#include "base/err.h"
#include "base/vec.h"
#include "policy/policy.h"

typedef VEC(struct endpoint) endpoints;
void endpoints_done(endpoints *list);
/* Of every interface, with port 0: all ports. Adds to the list. */
int host_addresses(endpoints *ret, struct err *err);
/* A descriptor that becomes readable when an address comes or goes. To be opened before the addresses are read, so that
 * no change is missed. */
int host_addresses_watch(int *ret_fd, struct err *err);
/* Reads what it says; false when that was nothing. */
bool host_addresses_changed(int fd);

/* The policy's network rules, with the addresses that this host has now. */
int host_addresses_compile(const struct policy *policy, void **ret, size_t *ret_n, struct err *err);
