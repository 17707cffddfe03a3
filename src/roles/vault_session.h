/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vault's part in a run. It starts before the command and supplies the stand-ins and the CA that the sandbox
 * trusts; then it is watched together with the gateway.
 */
#include "plan/env.h"
#include "policy/policy.h"
#include "roles/gateway_process.h"
#include "roles/trust_store.h"
#include "roles/vault_env.h"
#include "roles/vault_process.h"

struct vault_session {
        mappings mappings;
        text_list places;              /* by mapping: which files are closed to the sandbox, vault_mapping.place */
        text_list tool_places;         /* of tools: pairs of a file and such a place */
        struct vault_process *process; /* NULL: not needed */
        char *directory;               /* of this run: bundle and Java's store; removed at the end */
        int lock;                      /* on a file in it, as long as the run lives */
        char *bundle, *java;
        struct trust_store roots; /* until they are in those files */
        bool wanted, unwritten, finished;
        int credentials;     /* the credential table, sealed */
        text_list stand_ins; /* "K=V" for the sandbox */
        text_list base_urls; /* the same, where it has the API proxy */
        text_list strip;     /* names that it must not get */
        /* Where the gateway and the audit are, once there are some. */
        struct gateway_process *const *gateway;
        struct audit *const *audit;
};
#define VAULT_SESSION_NONE ((struct vault_session){ .roots = TRUST_STORE_NONE, .lock = -1, .credentials = -1 })

/* A vault whose CA and stand-ins outlive it. */
struct vault_session_place {
        const char *directory; /* private: CA, bundle and Java's store stay here */
        /* Before the start: stand-ins of before are handed to the vault. After it: they are written down. */
        int (*load)(void *arg, const mappings *m, struct vault_process *v, struct err *e);
        int (*save)(void *arg, const mappings *m, const struct vault_process *v, struct err *e);
        void *arg;
};

struct vault_session_request {
        struct policy *policy; /* gets a rule by which the sandbox may read the certificates */
        const char *id;
        const char *roots;        /* PEM file; NULL: the host's */
        char *const *environment; /* of the user */
        char *const *judged;      /* pairs as above: what the run that called this tool has closed */
        size_t n_judged;
        bool preview;                            /* nothing is started: names only */
        const struct vault_session_place *place; /* NULL: nothing outlives the run */
        bool service;                            /* the API proxy is at the proxy's port: base URLs are paths */
};

/* Nothing to do without credentials and request rules, or without a network. Fails loudly: every credential must have
 * its value now. */
/* Whether a sandbox with this policy has a vault: it has credentials, or rules for which TLS is opened. */
bool vault_session_is_wanted(const struct policy *policy);
int vault_session_open(struct vault_session *session, const struct vault_session_request *request, struct err *err);
/* The same in two parts, with other work in between while the vault starts: the policy has all its rules after the
 * first, the environment and the certificates are there after the second, which may be called again. */
int vault_session_begin(struct vault_session *session, const struct vault_session_request *request, struct err *err);
int vault_session_finish(struct vault_session *session, const struct vault_session_request *request, struct err *err);
/* Whether a newer policy has the same credentials: what they are for is fixed while the vault runs. */
bool vault_session_fits(const struct vault_session *session, const struct policy *newer);
void vault_session_close(struct vault_session *session);

void vault_session_env(const struct vault_session *session, struct env_input *in);
void vault_session_gateway(const struct vault_session *session, struct gateway_settings *settings);
/* As of vault_process.h; nothing without a vault. */
void vault_session_watch(const struct vault_session *session, struct poller *poller);
void vault_session_step(struct vault_session *session, const struct poller *poller);
