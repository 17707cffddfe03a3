/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pool of synthetic addresses: each stands for one name, so that a connection to it carries the name it was made for.
 * Shared by all workers, with its own lock. An address is given to another name only after nobody can still hold the old
 * binding; a connection to an address that is bound to nothing is refused.
 */
#include "policy/host.h"

struct synthetic;

/* True when the address lies in the pool's ranges, bound or not: it must never be dialled. */
bool synthetic_contains(const struct addr *a);
/* The name it stands for now. False when it is bound to none. */
bool synthetic_lookup(struct synthetic *s, const struct addr *a, struct host *ret_name);
