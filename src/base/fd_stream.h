/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Messages over a stream, for a system whose Unix sockets keep no boundaries between them: macOS has no SOCK_SEQPACKET.
 * Each message is its length (32 bits, native) and its bytes; descriptors come with the first byte of the length.
 *
 * A message that has begun is finished, or the socket is shut down: nothing may follow half a message. So a sender may
 * wait for room, and a receiver for the rest, for FD_STREAM_WAIT_MS each. A peer that stops in the middle of a message
 * can hold its reader for that long, once.
 */
#include "base/str.h"

#include <sys/types.h>

enum { FD_STREAM_WAIT_MS = 2000 };

/* As fd_send() and fd_receive(). -EPIPE: the socket was shut down, now or before. */
int fd_stream_send(int sock, struct str payload, const int *fds, size_t n_fds);
ssize_t fd_stream_receive(int sock, void *payload, size_t payload_max, int *ret_fds, size_t max_fds, size_t *ret_n_fds);
