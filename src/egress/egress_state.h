/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the background gateway (`bailey egress`) keeps: one directory of the user's, 0700, with settings, the stand-ins
 * that containers hold, the CA, the policy made of all this, and what the running service says about itself. Every file
 * is 0600 but the certificates, which are for everybody. Files are replaced whole; none is read or written through a
 * link, or when it belongs to somebody else.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/secrets/digest.h"
#include "roles/vault_env.h"

enum { EGRESS_BYTES_MAX = 4 << 20, EGRESS_PORT = 17780 };

/* Names in the directory. */
#define EGRESS_SETTINGS "settings.json"
#define EGRESS_TOKENS "tokens.json"
#define EGRESS_POLICY "policy.yaml"
#define EGRESS_SERVICE "service.json"
#define EGRESS_RELOAD "reload.json" /* the answer to the last reload, and a lock for the caller */
#define EGRESS_PID "service.pid"
#define EGRESS_LOG "service.log"
#define EGRESS_AUDIT "audit.jsonl"
#define EGRESS_CA "ca.crt"
#define EGRESS_BUNDLE "ca-bundle.pem"
#define EGRESS_JAVA "ca-bundle.jks"

/* One credential, as in a policy. What a person wrote by hand is kept as it is. */
struct egress_credential {
        char *provider; /* NULL: a service of the user's own */
        char *name;     /* NULL: the provider's */
        char *source;
        char *text; /* the whole entry as JSON */
};

struct egress_settings {
        bool enabled;
        bool enforce_on_docker, fail_on_uncovered_providers, allow_env_fallback;
        bool base_urls;  /* docker-args names the API proxy to SDKs */
        bool bitwarden;  /* where new credentials are read from; else the environment */
        char *project;   /* of Bitwarden; NULL: all that the token may see */
        char *token_env; /* the variable with Bitwarden's token; NULL: BWS_ACCESS_TOKEN */
        unsigned port;   /* 0: a free one at each start */
        char *bridge;    /* "none", or the address of a container bridge; NULL: auto */
        char *ask;       /* "control"; NULL: never */
        char *hosts;     /* file in the form of /etc/hosts; NULL: none */
        char *ca_bundle; /* roots to trust instead of the system's; NULL: those */
        text_list extra_allowed_hosts, allow_private;
        bool deny_cidrs_set; /* null: the default list of the policy */
        text_list deny_cidrs;
        VEC(struct egress_credential) credentials;
};

/* The directory's path; with `make` it is created, closed to others and checked. */
int egress_directory(bool make, char **ret, struct err *err);
/* Reads a file of ours: -ENOENT when there is none, -EPERM when it is a link, another user's, or open to others. */
int egress_read(const char *directory, const char *name, struct buf *ret, struct err *err);
int egress_write(const char *directory, const char *name, struct str content, struct err *err);
/* No error when it is not there. */
void egress_remove(const char *directory, const char *name);

void egress_settings_init(struct egress_settings *settings);
void egress_settings_done(struct egress_settings *settings);
/* -ENOENT: there are none yet. Unknown keys and wrong values are errors. */
int egress_settings_load(const char *directory, struct egress_settings *ret, struct err *err);
/* Checks the whole (a policy must come out of it), writes the policy, then the settings. */
int egress_settings_save(const char *directory, const struct egress_settings *settings, struct err *err);
/* The policy that the settings amount to. */
int egress_settings_policy(const char *directory, const struct egress_settings *settings, struct policy **ret,
                           struct err *err);
/* Only the policy: this start may differ from the settings. */
int egress_settings_save_policy(const char *directory, const struct egress_settings *settings, struct err *err);
/* Puts Bitwarden's token where bws looks for it, if it is in another variable. -ENODATA: there is none. */
#define BITWARDEN_TOKEN "BWS_ACCESS_TOKEN"
int egress_settings_token(const struct egress_settings *settings, struct err *err);
/* Whether one credential can be read now: tried with a vault of its own. */
bool egress_credential_works(const char *directory, const struct egress_settings *settings, size_t index);
int egress_settings_text(const struct egress_settings *settings, struct buf *ret);
/* "KEY=VALUE": lists are separated by commas; "null" for deny_cidrs and for paths. */
int egress_settings_change(struct egress_settings *settings, struct str assignment, struct err *err);

/* Of the CA, to be compared: as browsers and openssl print it, and the time of its end. */
struct egress_ca {
        char sha256[3 * DIGEST_BYTES + 1], expires[24];
};
/* -ENOENT: there is none yet. */
int egress_ca(const char *directory, struct egress_ca *ret, struct err *err);

/* Stand-ins that were made before, by the names of their credentials; no file is no error. rotate: others are to be
 * made, and these only recognised. */
int egress_tokens_load(const char *directory, const mappings *list, struct vault_process *process, bool rotate,
                       struct err *err);
/* Of the file as it is now; "" when there is none. */
void egress_tokens_digest(const char *directory, char ret[static DIGEST_HEX_MAX]);
int egress_tokens_save(const char *directory, const mappings *list, const struct vault_process *process,
                       struct err *err);

int egress_credential_make(struct egress_settings *settings, const char *provider, const char *source, struct err *err);
/* By its name, or its provider's. -ENOENT: there is none. */
int egress_credential_remove(struct egress_settings *settings, const char *name, struct err *err);
/* Another source for a credential; the rest of the entry stays. */
int egress_credential_source(struct egress_credential *credential, const char *source, struct err *err);
