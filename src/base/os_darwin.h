/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the C library of macOS lacks and the portable part uses. Included before every file by scripts/macos, and by
 * nothing else. */
#include <stddef.h>

/* Errors that it has no number for; above its own. */
#define ENOTUNIQ 1076
#define EREMOTEIO 1077

/* To look at what is there, on Linux without opening it. Here it is opened for reading, and a pipe does not wait. */
#define O_PATH O_NONBLOCK

/* Flags for socket(), which has none here. */
#define SOCK_CLOEXEC 0x10000000
#define SOCK_NONBLOCK 0x20000000
int os_socket(int domain, int type, int protocol);
#define socket(domain, type, protocol) os_socket(domain, type, protocol)

void *reallocarray(void *memory, size_t n, size_t size);
void *memrchr(const void *memory, int c, size_t n);
void explicit_bzero(void *memory, size_t n);

extern char **environ;
