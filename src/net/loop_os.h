/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* In what kernels differ for a loop. For net/ only. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the end of a peer and a connection that failed are told apart from bytes and room. */
extern const bool loop_tells_ends;

/* A descriptor that is readable from loop_wake_raise(), which any thread may call, to loop_wake_clear(). -1 and errno
 * when there is none. */
int loop_wake_new(void);
void loop_wake_raise(int fd);
void loop_wake_clear(int fd);

/* recv() and send() on a socket; -1 and errno. */
ssize_t socket_receive(int fd, void *to, size_t n);
ssize_t socket_send(int fd, const void *from, size_t n);
