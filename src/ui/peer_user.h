/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The user behind a TCP connection from this machine. The kernel does not say it on the socket as it does for Unix
 * sockets, but lists the other end with its owner in /proc/net/tcp.
 */
#include <stdbool.h>

/* True when the other end of this accepted IPv4 connection is open and belongs to the user that we are, or to root. If
 * the owner is unknown the answer is false: a closed socket has no owner any more and is listed as root's. */
bool peer_user_is_ours(int fd);
