/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bytes computed while Bailey is built (plan/gen), so that a launch needs none of the libraries that make them:
 * system call filters and netlink batches. Every value in them is fixed: they concern only the sandbox's own
 * namespaces.
 */
#include "base/str.h"

extern const struct str embedded_seccomp;          /* in full isolation */
extern const struct str embedded_seccomp_sockets;  /* and the broker acts on sockets: its calls are left to it */
extern const struct str embedded_seccomp_nesting;  /* in full isolation, with namespaces and mounts (process.nesting) */
extern const struct str embedded_seccomp_degraded; /* without namespaces: stricter about sockets and other processes */
extern const struct str embedded_seccomp_unheld;   /* and no sockets of the internet at all */
extern const struct str embedded_seccomp_watched;  /* as degraded, with what the watcher does left to it */
struct embedded_call {
        int nr;
        const char *name;
};
extern const struct embedded_call embedded_refused_calls[];     /* for reports; ends with a NULL name */
extern const struct str embedded_routes_v4, embedded_routes_v6; /* loopback up; every address leads to it */
extern const struct str embedded_nft;                           /* capture TCP and DNS, log and refuse the rest */
extern const struct str embedded_nft_closed;                    /* no network: log and refuse all but loopback */
extern const struct str embedded_packets;                       /* a socket that gets what is logged */
/* The same for a kernel that cannot log packets. */
extern const struct str embedded_nft_silent, embedded_nft_closed_silent;
