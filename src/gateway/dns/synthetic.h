/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Synthetic addresses: names that DNS answered, bound to private addresses, so that a connection made to one carries
 * the name it was made for. One index gives both addresses: 198.18.0.0 plus index and fd00:ba11:: plus index.
 *
 * An address means one name for as long as anyone may remember it: it is never given to another name while a connection
 * made through it is open, nor before the time to live of the last answer and a long grace after it (programs keep
 * addresses longer than they were told to). When no address is free the answer is a failure, never a wrong name. Memory
 * is bounded by the size of the pool. Safe from all threads.
 */
#include "base/err.h"
#include "policy/match/host.h"

struct synthetic;

struct synthetic_settings {
        uint32_t size;     /* addresses, at most SYNTHETIC_SIZE_MAX; 0 for the default */
        uint64_t grace_ns; /* after the last answer or connection; 0 for the default */
};
#define SYNTHETIC_FIRST 256u /* below: the sandbox's own addresses */
#define SYNTHETIC_SIZE_MAX (131072u - SYNTHETIC_FIRST - 1u)
#define SYNTHETIC_SIZE 65536u
#define SYNTHETIC_GRACE_NS (3600ULL * 1000000000ULL)

int synthetic_new(const struct synthetic_settings *settings, struct synthetic **ret, struct err *err);
void synthetic_free(struct synthetic *synthetic);
void synthetic_freep(struct synthetic **synthetic);

/* The addresses of a canonical name, bound now if they were not. -ENOSPC: exhausted. */
int synthetic_bind(struct synthetic *synthetic, const struct host *name, uint64_t now_ns, struct addr *ret_v4,
                   struct addr *ret_v6);

/* A hold on a binding, for the life of one connection. Zeroed: holds nothing. */
struct synthetic_hold {
        uint32_t index;
        uint32_t generation;
};
/* The name that the address stands for, held until released. -ENOENT: no name has this address (now). */
int synthetic_acquire(struct synthetic *synthetic, const struct addr *addr, uint64_t now_ns, struct host *ret_name,
                      struct synthetic_hold *ret_hold);
void synthetic_release(struct synthetic *synthetic, struct synthetic_hold *hold, uint64_t now_ns);
/* The name that it stands for now, without holding it. False when it is bound to none. */
bool synthetic_lookup(struct synthetic *synthetic, const struct addr *addr, struct host *ret_name);
/* Whether the address lies in the pool's networks, bound or not: it must never be dialled. */
bool synthetic_contains(const struct addr *addr);
