/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The merged policy: what one sandbox may do, after presets, user file, workspace file, environment, command line and
 * per-call options were laid over each other. Every value knows where it came from. policy/load.h makes it; the
 * snapshot (network), the path rules (files) and the launch plan are computed from it. Plain data, owned by itself.
 */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "policy/judge/snapshot.h"
#include "policy/options.h"

enum policy_mode { MODE_READ_ONLY, MODE_WORKSPACE_WRITE, MODE_WORKSPACE_WRITE_WHITELIST, MODE_FULL_NETWORK, MODES };

enum ask_how { ASK_NEVER, ASK_CONTROL, ASK_TTY };
/* In the order of the vault's (ipc/vault_messages.h). */
/* In the order of the names in options.c. */
enum chat_kind { CHAT_NONE, CHAT_ZULIP, CHAT_SLACK, CHAT_TELEGRAM, CHAT_MATRIX, CHAT_NTFY, CHAT_GENERIC, CHAT_KINDS };
enum ca_key { CA_KEY_P256, CA_KEY_RSA4096 };

/* Text with where it was written: "policy.yaml:12:5", "--allow", "BAILEY_ALLOW", "default". Both owned. */
struct origin_text {
        char *text;
        char *origin;
        char *reason; /* in network.deny: the reason for the refused client; NULL: none. Owned */
};
typedef VEC(struct origin_text) origin_texts;

struct request_rule {
        char *host, *origin;
        origin_texts methods, paths;
        origin_texts queries,
            mutations; /* of a GraphQL rule: names of fields at the root; none in both: no such rule */
};

/* Yes, no, or nothing said: then the default of the field counts. */
enum policy_switch { SWITCH_UNSET, SWITCH_OFF, SWITCH_ON };

/* Repositories, and what may be done with them (policy/git/git_rules.h). */
struct git_rule {
        char *repo, *ask, *origin;            /* ask: "push", "never" or NULL */
        origin_texts push;                    /* patterns of refs */
        uint8_t fetch, create;                /* enum policy_switch; unset is on */
        uint8_t delete, options, certificate; /* unset is off */
};

/* A tool of the host that the sandbox may call (policy/tools/tools.h). */
struct bridge_tool {
        char *name, *origin;
        char *program;               /* a path; NULL: by name, where the system has programs */
        char *workspace, *otherwise; /* "none", "read", "objects"; "refuse", "inside"; NULL: the first */
        uint8_t separator;           /* enum policy_switch: "--" stands before arguments */
        uint64_t timeout_ns;         /* 0: the default */
        origin_texts hosts, credentials, files, env, env_pass, repos;
        origin_texts verbs, never, front; /* lines of policy/tools/tool_grammar.h */
        origin_texts ask;                 /* calls that a person must agree to, of the same grammar */
};

/* What narrows the doors once it was seen (policy/judge/ratchet.h). */
struct ratchet_rule {
        char *origin;
        origin_texts reads, tools, reaches, credentials; /* triggers */
        origin_texts allow, keep_tools;                  /* what stays; allow: "none" alone is no host */
        char *git, *creds, *ask, *say;                   /* "none", "none", "control", text; NULL: not given */
        bool closed;                                     /* it has been triggered */
};

struct policy_limits { /* 0 means unlimited */
        uint64_t processes, memory, files, cpu_seconds, cpu_percent, temporary;
};
/* Defaults for a sandbox with a control group: at least this much memory, and a number of processes that no program
 * needs and that stops a fork bomb. */
#define POLICY_GROUP_MEMORY (UINT64_C(2) << 30)
#define POLICY_GROUP_PROCESSES UINT64_C(16384)

/* Before the secret of a run in the proxy variables, as user and password: "http://bailey:SECRET@...". Letters and
 * digits, so that no client has to escape it. */
#define PROXY_USER "bailey"
enum { PROXY_SECRET_MIN = 32, PROXY_SECRET_MAX = 64 };

struct gateway_limits {
        uint64_t connect_ns, header_ns, idle_ns, tunnel_idle_ns;
        uint32_t header_bytes, connections, connections_per_second;
        uint64_t body_bytes, bytes_out_per_host, bytes_out; /* 0 means unlimited */
};

struct credential {
        char *provider, *name, *env, *source, *slot, *origin;
        char *form, *answer, *expiry; /* of a sign-in: see struct mapping */
        origin_texts hosts;
        origin_texts also_env, also_hosts; /* beside those of the provider, as an agent needs them */
        uint64_t timeout_ns, refresh_ns;   /* 0: the defaults */
        uint8_t sandbox;                   /* enum policy_switch; unset: yes, unless a tool names it */
};

/* A file that a profile wants in the sandbox's own home. */
struct home_seed {
        char *path; /* below the home */
        char *content, *origin;
        bool once; /* written only while there is no such file */
};
void home_seed_done(struct home_seed *seed);

struct command_rule {
        char *name, *decision, *reason, *origin;
        origin_texts argv, match, no_match;
};

struct agent_role {
        char *name, *network_access, *origin; /* sandboxed, whitelist, full */
        bool monitor_enabled, auto_kill_on_threat;
};

struct monitor_rule {
        uint32_t violations;
        uint64_t within_ns;
        char *action, *origin; /* warn, pause, kill */
};

/* A long list of patterns, one a line, kept as the file had it; compiled line by line with "file:line" as origin. */
struct pattern_file {
        char *path; /* absolute */
        char *content;
        size_t n;
        char *origin;
};

/* What the user's own package manager settings name instead of the public registry; belongs to a group ("npm"). */
struct mirror {
        const char *group;
        char *pattern; /* "host:port" */
        char *origin;  /* "~/.npmrc:3" */
};

struct port_map {   /* publish and host_port */
        char *addr; /* NULL: loopback */
        uint16_t outside, inside;
        char *origin;
};

struct policy {
        enum policy_mode mode;
        char *workspace; /* absolute, real path; NULL only while loading */
        char *home;
        bool guest;        /* the workspace is the home of a guest, shown inside as its home and nowhere else */
        char *home_inside; /* where $HOME leads to inside, without links; NULL only while loading */
        char *preset;
        VEC(struct home_seed) home_seeds; /* files for the sandbox's own home */
        char *file;                       /* the user's file, or the one named instead, as it was read; NULL: none */
        origin_texts profiles;
        /* Where each setting that is one value came from, by its row in policy/options.h; NULL: the built-in default.
         */
        char *origins[POLICY_ROWS];

        struct {
                origin_texts allow, deny, allow_private,
                    deny_cidrs; /* allow: "@group" as written, see policy/groups.h */
                bool deny_cidrs_set;
                VEC(struct pattern_file) allow_files, deny_files;
                VEC(struct mirror) mirrors; /* of the groups in allow */
                VEC(struct request_rule) rules;
                enum ask_how ask;
                uint64_t ask_timeout_ns;
                char *upstream_proxy;      /* http://, socks5:// with optional user:password@ */
                origin_texts no_intercept; /* patterns: TLS to these is never opened */
                origin_texts quiet;        /* patterns: refusals that are not reported */
                origin_texts upstream_bypass;
                origin_texts dns_servers; /* empty: the system's */
                enum ca_key ca_key;       /* of the CA that signs for hosts whose TLS is opened */
                struct gateway_limits limits;
                VEC(struct port_map) publish, host_ports;
        } network;

        struct {
                char *home;                /* as in policy/home_kind.h; NULL: the real one */
                origin_texts moved;        /* places of credentials that variables name (policy/paths/moved.h) */
                origin_texts hidden_homes; /* with a home of its own: other homes, where no rule opens them */
                bool reads_denied;         /* `reads: deny` turns the default round */
                /* Absolute and normalised, or a glob; as the user gave them after ~ and relative expansion. */
                origin_texts read, write, deny_read, deny_write;
                origin_texts ask; /* places that a person may be asked about when a program opens something there */
                bool overlay;
        } filesystem;

        struct {
                struct policy_limits limits;
                origin_texts env_pass;
                origin_texts env_set; /* "K=V" */
                uint64_t timeout_ns;  /* 0: none */
                bool allow_degraded, trace_denials;
                bool nesting;   /* user namespaces and mounts can be made inside */
                bool base_urls; /* SDKs are pointed to the API proxy by variables */
        } process;

        VEC(struct git_rule) git;
        struct {
                bool git; /* git's ssh runs on this host, with its keys, for the repositories under git */
                origin_texts users, known_hosts, identities;
                origin_texts hosts; /* HOST[:PORT] that the agent's keys may authenticate to */
                origin_texts keys;  /* of the host's agent: fingerprints, or files with public keys */
        } ssh;
        struct {
                bool ssh;         /* commits and tags, with the keys of ssh.keys */
                origin_texts gpg; /* keys of gpg */
                bool ask;
        } signing;
        VEC(struct bridge_tool) bridge;
        struct {
                origin_texts hosts; /* patterns, or "*": pages of these are opened outside; none: no page is */
                bool ask;           /* a person must agree to each */
                char *program;      /* that opens them; "none": they are only shown; NULL: the desktop's */
                uint64_t callback_ns;
        } browser;
        VEC(struct ratchet_rule) ratchet;
        char *audit_path; /* NULL: the default place in the state directory */
        struct {
                uint64_t max_age_ns, max_bytes; /* 0: kept for ever, however large */
        } log;
        struct {
                char *command, *webhook; /* NULL: none */
                struct {
                        enum chat_kind service;
                        char *url, *token, *app_token, *account, *room; /* NULL: not given */
                        origin_texts approvers;
                        uint32_t per_minute;
                } chat; /* of `bailey chat` */
        } approval;
        origin_texts macos_allow; /* words of plan/macos/seatbelt.h */
        char *agent;
        VEC(struct command_rule) commands;
        VEC(struct credential) credentials;
        VEC(struct credential) tool_credentials; /* of bridged tools alone (policy/tools/tool_credentials.h) */
        VEC(struct agent_role) agents;
        VEC(struct monitor_rule) monitor;
};

const char *policy_mode_name(enum policy_mode mode);
void policy_free(struct policy *policy);
void policy_freep(struct policy **policy);

/* The network part, compiled (policy/compile.c): groups and mirrors expanded, list files read through. self: addresses
 * of this host (port 0) and Bailey's listeners, which stay out of reach. Heap bytes in *ret. */
int policy_compile_network(const struct policy *policy, const struct endpoint *self, size_t n_self, void **ret,
                           size_t *ret_n, struct err *err);

/* -EINVAL: a host of network.no_intercept has a credential or a rule about requests, which need its TLS opened. */
int policy_check_no_intercept(const struct policy *policy, struct err *err);

/* For loaders and tests: an entry at the end of a list; both texts are copied. */
int origin_texts_add(origin_texts *list, struct str text, const char *origin);
void origin_texts_done(origin_texts *list);
