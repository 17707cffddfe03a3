/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The broker's side of sandbox/named.h: whether git's configuration has changed, before a call that may change files.
 */
#include <stdint.h>

struct broker;
struct news;

/* `due_ns`: when the first question is due. */
int news_new(uint64_t due_ns, struct news **ret);
/* Before a call that may change files, while no other is judged. Costs one system call, or none before the first
 * question is due. -EAGAIN: it is not known what is closed, and the call is refused. */
int news_look(const struct broker *broker);
