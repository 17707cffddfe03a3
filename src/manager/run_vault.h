/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vault's part in a run: started before the command, it says what the sandbox is given instead of secrets and which
 * CA it trusts; then it is watched together with the gateway.
 */
#include "manager/gateway_process.h"
#include "manager/vault_env.h"
#include "manager/vault_process.h"
#include "plan/env.h"
#include "policy/policy.h"

struct run_vault {
        mappings mappings;
        struct vault_process *process; /* NULL: not needed */
        char *directory;               /* of this run: bundle and Java's store; removed at the end */
        int lock;                      /* on a file in it, as long as the run lives */
        char *bundle, *java;
        int credentials;     /* the credential table, sealed */
        text_list stand_ins; /* "K=V" for the sandbox */
        text_list base_urls; /* the same, where it has the API proxy */
        text_list strip;     /* names that it must not get */
        /* Where the gateway and the audit are, once there are some. */
        struct gateway_process *const *gateway;
        struct audit *const *audit;
};
#define RUN_VAULT ((struct run_vault){ .lock = -1, .credentials = -1 })

/* A vault whose CA and stand-ins outlive it. */
struct run_vault_place {
        const char *directory; /* private: CA, bundle and Java's store stay here */
        /* Before the start: stand-ins of before are handed to the vault. After it: they are written down. */
        int (*load)(void *arg, const mappings *m, struct vault_process *v, struct err *e);
        int (*save)(void *arg, const mappings *m, const struct vault_process *v, struct err *e);
        void *arg;
};

struct run_vault_request {
        struct policy *policy; /* gets a rule by which the sandbox may read the certificates */
        const char *id;
        const char *roots;                   /* PEM file; NULL: the host's */
        char *const *environment;            /* of the user */
        bool preview;                        /* nothing is started: names only */
        const struct run_vault_place *place; /* NULL: nothing outlives the run */
        bool service;                        /* the API proxy is at the proxy's port: base URLs are paths */
};

/* Nothing to do without credentials and request rules, or without a network. Fails loudly: every credential must have
 * its value now. */
int run_vault_open(struct run_vault *v, const struct run_vault_request *q, struct err *e);
/* Whether a newer policy has the same credentials: what they are for is fixed while the vault runs. */
bool run_vault_fits(const struct run_vault *v, const struct policy *newer);
void run_vault_close(struct run_vault *v);

void run_vault_env(const struct run_vault *v, struct env_input *in);
void run_vault_gateway(const struct run_vault *v, struct gateway_settings *s);
/* As vault_process_poll() and _step(); 0 descriptors without a vault. */
size_t run_vault_poll(const struct run_vault *v, struct pollfd *ret, size_t max, int *timeout_ms);
void run_vault_step(struct run_vault *v, const struct pollfd *fds, size_t n);
