/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * File descriptors: close-on-exec always, EINTR handled, whole reads and writes, passing over sockets.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Closes and sets to -1; errno is kept. For cleanup(close_fd). */
void close_fd(int *fd);
/* Closes every descriptor from `first` up. */
int fd_close_from(int first);
int fd_set_nonblocking(int fd, bool on);

/* All of it or an error. */
int fd_write_all(int fd, const void *p, size_t n);
/* Reads exactly n bytes; -EPIPE when the end comes earlier. */
int fd_read_exact(int fd, void *p, size_t n);
/* Reads to the end into the buffer; -EMSGSIZE when it holds more than the buffer's maximum. */
int fd_read_all(int fd, struct buf *into);

/* An anonymous file with this content, sealed against every change. */
int fd_sealed(const char *name, struct str content, int *ret_fd, struct err *err);

/* Whether it is sealed as fd_sealed() does, so that what was checked once stays so; with its size. */
bool fd_is_sealed(int fd, size_t *ret_size);
/* A sealed file in memory, for reading; ended by munmap(). `what` names it in errors: -EPERM for one that could change,
 * -EMSGSIZE for one that is empty or larger than max. */
int fd_map_sealed(int fd, const char *what, size_t max, struct str *ret, struct err *err);

/* Both ends of a channel for the next two, non-blocking: what is sent as one message arrives as one. */
int fd_pair(int ret[static 2]);
int fd_pair_blocking(int ret[static 2]);
/* Whether it is an end of one, as far as the kind of socket tells. */
bool fd_is_pair(int fd);
/* One message with descriptors over a Unix socket. Received ones are close-on-exec; more than max is an error, and then
 * none is kept. */
int fd_send(int sock, struct str payload, const int *fds, size_t n_fds);
/* Returns the payload's length or a negative errno; 0 at the end of the stream, also when whoever closed it had not
 * read everything. What was said before that comes first. */
ssize_t fd_receive(int sock, void *payload, size_t payload_max, int *ret_fds, size_t max_fds, size_t *ret_n_fds);
