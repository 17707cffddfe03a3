/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A netlink socket that gets what rules of this network namespace log to a group (nfnetlink_log). */
#include "base/err.h"

#include <stdint.h>

/* Needs rights over the network namespace; to read from it needs none. -EBUSY: another socket has the group. */
int packets_open(uint16_t group, int *ret, struct err *err);
