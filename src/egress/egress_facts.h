/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a program needs to use the gateway: its addresses, and the variables that name them. The same for containers
 * (egress_docker.c) and for every other backend (egress_env.c). */
#include "container/engine_network.h"
#include "egress/egress_view.h"
#include "plan/env.h"
#include "policy/match/addr.h"

#define EGRESS_CREATE_NETWORK "\"docker network create --internal " ENGINE_NETWORK "\" (podman: the same, as root)"
#define EGRESS_MAKE_NETWORK "Make a network for it with " EGRESS_CREATE_NETWORK ", then run \"bailey egress restart\""

enum egress_reach {
        EGRESS_FOR_CONTAINERS, /* a listener on loopback does not count: no container reaches it */
        EGRESS_FOR_THIS_HOST,  /* the one on loopback */
};

struct egress_facts {
        char address[ADDR_TEXT_MAX];
        uint16_t port;
        size_t n_stand_ins;
        bool has_ca; /* without credentials there is none */
        struct env env;
};
void egress_facts_done(struct egress_facts *facts);

int egress_facts_listener(struct egress_facts *ret, const struct egress_view *view, enum egress_reach reach,
                          struct err *err);
/* `given` are the user's own arguments of a container: some variables are appended to. ca_bundle, java_store: where
 * the program sees the certificates. */
int egress_facts_variables(struct egress_facts *facts, const struct egress_view *view, char *const *given,
                           const char *ca_bundle, const char *java_store, struct err *err);
/* Whether the program gets this variable. */
static inline bool egress_facts_sets(const struct env_entry *entry) {
        return entry->action == ENV_SET || entry->action == ENV_CHANGED;
}
