/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment that a sandboxed program sees, computed from the host's and the policy. Pure: nothing is read from
 * this process. Removed variables are listed with their reasons, for `bailey env`, `bailey plan` and the documents.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum env_action {
        ENV_KEPT,     /* from the host, as it was */
        ENV_SET,      /* by Bailey or by the policy */
        ENV_CHANGED,  /* from the host, appended to */
        ENV_STRIPPED, /* not given to the sandbox */
        ENV_ACTIONS
};
const char *env_action_name(enum env_action action);

struct env_entry {
        char *name, *value; /* value is NULL for ENV_STRIPPED: it is not shown either */
        enum env_action action;
        const char *why; /* static text: "proxy", "credential by name", "loader" ... */
        bool secret;     /* stripped, because it looks like a credential */
};

struct env {
        VEC(struct env_entry) entries; /* one per name, in the order of the names */
};

struct env_input {
        char *const *host; /* the host's environment, NULL-terminated "K=V" */
        const char *sandbox_id;
        uint16_t http_port, socks_port; /* 0: no proxy variables */
        const char *proxy_address;      /* NULL: 127.0.0.1 */
        bool transparent;               /* every connection is captured: no ALL_PROXY, ssh needs no ProxyCommand */
        bool inside;                    /* for a sandbox, not for a program beside a gateway: it can ask `bailey why` */
        bool container;                 /* only the loopback part of NO_PROXY */
        const char *bailey;             /* where the program `bailey` is, for ssh's ProxyCommand; NULL: in PATH */
        const char *tmpdir;             /* NULL: TMPDIR is dropped */
        const char *home;               /* NULL: the host's HOME stays */
        const char *ca_bundle;          /* interception: merged roots as the sandbox sees the path; NULL: off */
        const char *java_trust_store;   /* JKS, beside it; NULL: none */
        const char *const *stand_ins;   /* NULL-terminated "K=V": what stands for credentials; over the host's */
        const char *const *base_urls;   /* NULL-terminated "K=V": the API proxy, for SDKs; over the host's */
        const char *const *strip;       /* NULL-terminated names that are never passed on: where credentials are */
        const char *front;              /* a directory before all others in PATH; NULL: none */
        const char *const *pass; /* NULL-terminated names (a trailing * matches the rest) granted by the policy */
        const char *const *set;  /* NULL-terminated "K=V" from the policy; they win over everything */
};

int env_build(const struct env_input *in, struct env *ret, struct err *err);
void env_done(struct env *env);
/* The names of the variables that were removed because they look like credentials: "A, B". Empty if there are none. */
int env_held_back(const struct env *env, struct buf *out);
/* The result as an envp: heap array and strings, env_block_free() frees it. */
int env_block(const struct env *env, char ***ret, struct err *err);
void env_block_free(char **block);
void env_block_freep(char ***block);
