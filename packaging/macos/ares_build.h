/* SPDX-License-Identifier: Apache-2.0 */
/* For scripts/macos: the types that c-ares' header speaks of. */
#pragma once
#include <sys/socket.h>
#include <sys/types.h>

#define CARES_TYPEOF_ARES_SOCKLEN_T socklen_t
typedef socklen_t ares_socklen_t;

#define CARES_TYPEOF_ARES_SSIZE_T ssize_t
typedef ssize_t ares_ssize_t;
