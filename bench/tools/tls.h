/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The client's side of TLS for the load generator: reads and writes as on a socket. It takes every certificate: the lab
 * measures who signs them, and its servers are its own.
 */
#include <stddef.h>
#include <sys/types.h>

struct tls;

/* Once, before the clock runs: OpenSSL takes some milliseconds to get ready. */
void tls_prepare(void);
/* A full handshake each time, HTTP/1.1 only. */
struct tls *tls_open(int fd, const char *name);
/* 1 when it is done, 0 to be called again after the next edge, -1 when it failed. */
int tls_handshake(struct tls *t);
/* As recv and send on a socket that does not block: -1 with EAGAIN when there is nothing now. */
ssize_t tls_recv(struct tls *t, void *to, size_t n);
ssize_t tls_send(struct tls *t, const void *from, size_t n);
/* Leaves the descriptor open; t may be NULL. */
void tls_close(struct tls *t);
