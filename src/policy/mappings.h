/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The credentials of a policy with their providers filled in: the source of the vault, the credential table, the
 * sandbox's environment and the network rules. The index in the list is the mapping's number everywhere.
 */
#include "policy/policy.h"
#include "policy/profile/providers.h"

enum { MAPPINGS_MAX = 256, MAPPING_HOSTS_MAX = 32, MAPPING_NAME_MAX = 63 };

struct mapping {
        const struct provider *provider; /* NULL: a service of the user's own */
        char *name;                      /* unique; in the audit */
        char *source;                    /* "env:NAME", "file:/PATH", "exec:COMMAND", ...; paths are absolute */
        char *origin;                    /* where in the policy it stands */
        uint64_t timeout_ns, refresh_ns; /* of a command; 0: the defaults */
        bool sigv4;                      /* key id, secret key and session token instead of one value */
        /* Variables inside. One value: the same stand-in in each. sigv4: key id, secret key, session token. */
        VEC(char *) env;
        bool env_given;    /* by the policy, not by the provider's row */
        size_t n_env_also; /* the last so many of them are there in any case: an agent needs them */
        VEC(char *) hosts; /* patterns, each with a port */
        VEC(char *) slots;
        /* Of a sign-in, and NULL otherwise. Those of one file belong together: a token endpoint renews them at once. */
        char *form;   /* of the stand-in: "opaque:PREFIX", "jwt"; NULL: as the value */
        char *answer; /* the member of the endpoint's answer that renews it; it may be without a value until then */
        char *expiry; /* "ms:POINTER" or "now:POINTER": a time in the file that changes with it */
};
typedef VEC(struct mapping) mappings;

/* What is in a file of an agent's needs no variable: the copy of the file has the stand-in. */
bool credential_needs_no_env(const struct credential *credential);

/* -EINVAL with the place when two have one name or one variable. */
int mappings_of(const struct policy *policy, mappings *ret, struct err *err);
/* One credential more, in the same way; of a policy whose home and workspace say what its paths mean. */
int mappings_add(mappings *list, const struct policy *policy, const struct credential *credential, struct err *err);
void mappings_done(mappings *list);
/* The same credentials in the same order; where they were written does not count. */
bool mappings_equal(const mappings *a, const mappings *b);

/* The variables of the host that "env:NAME" of this mapping reads: one for a value; for sigv4 those of key id, secret
 * key and session token, which are siblings of NAME (PROD_AWS_SECRET_ACCESS_KEY: PROD_AWS_ACCESS_KEY_ID ...). `i` 0..2;
 * NULL beyond the last or when the source is another one. Heap text. */
char *mapping_source_variable(const struct mapping *mapping, size_t i);

/* "json:FILE#POINTER" or "yaml:FILE#POINTER": both parts, in the source. False: of another kind. */
bool source_is_member(struct str source, struct str *ret_file, struct str *ret_pointer);

/* A credential is useless if its hosts cannot be reached: it allows them, unless the policy has narrower request rules
 * for them. Calls back for each allowed pattern. */
typedef int mapping_host_function(void *context, struct str pattern, struct str origin, struct err *e);
int mappings_each_host(const struct policy *policy, const mappings *list, mapping_host_function *f, void *context,
                       struct err *err);
