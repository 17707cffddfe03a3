/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A user namespace with two identities: 0 is its creator, and one more is a guest, which on this host is a subordinate
 * id or an account of its own. The first lays out files; the command runs as the second, with no group but its own, so
 * that it has no rights to the host user's files.
 */
#include "base/err.h"
#include "sandbox/sandbox.h"

#include <sys/types.h>

/* Writes the maps of the namespace that this process is in: itself where it is root, by newuidmap and newgidmap
 * otherwise. The process must not have become anybody else yet. */
int identity_map(pid_t pid, const struct sandbox_ids *ids, struct err *err);
/* The calling process, which is 0 inside, is the guest from now on. Capabilities stay permitted. */
int identity_become(const struct sandbox_ids *ids, struct err *err);
