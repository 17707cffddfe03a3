/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the lab's own programs share: the load generator, the origin and the bare relay. They are measuring instruments
 * on loopback, not servers: a fault ends them with a message.
 */
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Noreturn void tool_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "127.0.0.1:8080", loopback only. */
struct sockaddr_in tool_address(const char *text);
uint64_t tool_number(const char *text, uint64_t max);
/* Bounded, non-blocking, without the delay of small packets. */
int tool_socket(void);
int tool_listen(const struct sockaddr_in *at);
/* As many descriptors as the system gives. */
void tool_raise_limits(void);
int tool_epoll(void);
/* Edge-triggered both ways, once for the life of the descriptor. */
void tool_watch(int epoll, int fd, void *owner);
