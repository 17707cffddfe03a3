/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The network that containers behind `bailey egress` are in, as the engine itself describes it: its name proves
 * nothing.
 */
#include "base/err.h"
#include "policy/match/addr.h"

#define ENGINE_NETWORK "bailey-egress"

struct engine_network {
        const char *engine;  /* "docker" or "podman" */
        bool internal;       /* no route out of it, no masquerading */
        bool bridge;         /* it is a bridge on this host */
        char interface[16];  /* of the bridge */
        struct addr gateway; /* this host's address in it: the one that the engine names, else the subnet's first */
        uint8_t prefix;      /* bits of the subnet */
};

/* The first engine that has a network of this name: docker, then podman. 1, 0 (none has), or negative: an engine's
 * answer is not understood. */
int engine_network_find(const char *name, struct engine_network *ret, struct err *err);
/* Whether this host has that address on that bridge now. */
bool engine_network_is_up(const struct engine_network *network);
/* Podman makes a bridge with its first container, and some versions give this host no address in an internal network:
 * both are done here, as root. Nothing to do when it is up. */
int engine_network_up(const struct engine_network *network, struct err *err);
