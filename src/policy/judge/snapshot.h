/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A compiled network policy: one position-independent, immutable block of bytes. The supervisor builds it, seals it
 * into an anonymous file and hands the descriptor to the gateway, which maps it read-only. A new policy is a new
 * snapshot; readers switch by swapping one pointer. A lookup costs the same at 100 and at 1,000,000 entries.
 */
#include "base/err.h"
#include "policy/judge/verdict.h"
#include "policy/match/addr.h"

enum network_mode { NETWORK_NONE, NETWORK_FILTERED, NETWORK_OPEN, NETWORK_MODES };

struct snapshot_builder; /* collects rules; each text is kept for explanations */

struct snapshot_builder *snapshot_builder_new(enum network_mode mode, bool ask);
void snapshot_builder_free(struct snapshot_builder *builder);
void snapshot_builder_freep(struct snapshot_builder **builder);

enum rule_list {
        LIST_ALLOW,
        LIST_DENY,
        LIST_ALLOW_PRIVATE, /* always with a port; a name (no wildcard), an address or a network */
        LIST_QUIET,         /* refused, without a question, if no other list decides */
        /* Made by the functions below, never written as a pattern by a user: */
        LIST_REFUSED, /* deny_cidrs */
        LIST_OWN, /* an address of this host: opened only by naming exactly it in allow_private, or by a name there */
        LIST_LISTENER, /* Bailey's own: never opened */
        LIST_GIT,      /* repositories of a host: snapshot_add_git() */
        /* Ratchets (policy/judge/ratchet.h): */
        LIST_REACH,   /* hosts that are a trigger */
        LIST_RATCHET, /* one has closed: what LIST_KEPT does not name is refused */
        LIST_KEPT,
        LIST_RATCHET_ASK, /* the same, and a person is asked instead */
        LIST_KEPT_ASK,
        LISTS
};

/* What a list takes, beyond the pattern's own syntax. A policy is held to it when it is loaded. */
struct pattern;
int snapshot_check_pattern(enum rule_list list, const struct pattern *pattern, struct err *err);
/* A pattern (policy/match/pattern.h syntax, groups already expanded). `origin` says where it was written, for people:
 * "policy.yaml:12", "--allow", "@github in ~/.config/bailey/config.yaml:3". -EINVAL with the reason in e.
 * localhost with a port in LIST_ALLOW is a loopback service and is opened as allow_private would. */
int snapshot_add(struct snapshot_builder *builder, enum rule_list list, struct str pattern, struct str origin,
                 struct err *err);
/* A refusal: "*:PORT" is understood too, and the refused client gets the reason (may be empty). */
int snapshot_add_refusal(struct snapshot_builder *builder, struct str pattern, struct str reason, struct str origin,
                         struct err *err);
/* An allow rule with methods and path patterns ("/repos/acme/" followed by "**"); empty lists mean any. The most
 * specific host among all allow rules decides (the exact name, then the longest wildcard); if a host has both a plain
 * rule and a request rule, the request rule narrows it. */
int snapshot_add_request_rule(struct snapshot_builder *builder, struct str pattern, const struct str *methods,
                              size_t n_methods, const struct str *paths, size_t n_paths, struct str origin,
                              struct err *err);
/* The same for GraphQL: the request is also judged by the names of its root fields. "*" is any of them; an empty list
 * is none. */
struct snapshot_graphql {
        const struct str *queries, *mutations;
        size_t n_queries, n_mutations;
};
int snapshot_add_graphql_rule(struct snapshot_builder *builder, struct str pattern, const struct str *methods,
                              size_t n_methods, const struct str *paths, size_t n_paths,
                              const struct snapshot_graphql *graphql, struct str origin, struct err *err);
/* Repositories of a host (policy/git/git.h), most specific first: the first that matches decides. */
struct snapshot_git {
        struct str text; /* as it is shown: "github.com/acme/app push refs/heads/x" */
        struct host host;
        uint16_t port;   /* at which git is spoken */
        struct str path; /* pattern */
        const struct str *refs;
        size_t n_refs;
        bool fetch, create, delete, options, certificate, ask;
};
int snapshot_add_git(struct snapshot_builder *builder, const struct snapshot_git *git, struct str origin,
                     struct err *err);
/* Addresses that are this host's. port 0: one of its own addresses (LIST_OWN); else a listener of Bailey
 * (LIST_LISTENER). */
int snapshot_add_self(struct snapshot_builder *builder, const struct addr *addr, uint16_t port, struct err *err);
/* Replaces the built-in refused networks (the first call) or adds to the replacement; not called: the default stays.
 * Metadata addresses and the unspecified address
 * (which reaches loopback) stay refused in any case. */
int snapshot_set_deny_cidrs(struct snapshot_builder *builder, const struct cidr *nets, size_t n, struct str origin,
                            struct err *err);

/* Hosts of LIST_REACH, LIST_KEPT and LIST_KEPT_ASK, as a pattern that was read. */
struct pattern;
int snapshot_add_kept(struct snapshot_builder *builder, enum rule_list list, const struct pattern *pattern,
                      struct str text, struct str origin, struct err *err);
/* A ratchet that has closed, LIST_RATCHET or LIST_RATCHET_ASK, and what is said about it. */
int snapshot_add_ratchet(struct snapshot_builder *builder, enum rule_list list, struct str text, struct str say,
                         struct str origin, struct err *err);
/* How many have closed, and whether one has taken the credentials away. */
void snapshot_narrow(struct snapshot_builder *builder, unsigned n_closed, bool no_credentials);

/* Heap bytes in *ret, to be sealed with fd_sealed() or opened in place. */
int snapshot_build(struct snapshot_builder *builder, void **ret, size_t *ret_n, struct err *err);

/* Validates every offset and index: a damaged or hostile block is refused, never trusted. The bytes must outlive it. */
int snapshot_open(const void *bytes, size_t n, struct snapshot **ret, struct err *err);
/* Maps the sealed file; checks the seals. The descriptor stays the caller's and may be closed afterwards. */
int snapshot_open_fd(int fd, struct snapshot **ret, struct err *err);
void snapshot_close(struct snapshot *snapshot);
void snapshot_closep(struct snapshot **snapshot);

struct snapshot_rule {
        struct str text; /* as the user wrote it: "*.example.com:443" */
        struct str origin;
        enum rule_list list;
        struct str reason; /* of a refusal, as the user wrote it; empty: none was given */
};
/* False for RULE_NONE and unknown indices. */
bool snapshot_rule(const struct snapshot *snapshot, uint32_t rule, struct snapshot_rule *ret);
/* What a GraphQL rule lets documents ask for: "/graphql: queries *; mutations none". Adds nothing for other rules. */
struct buf;
int snapshot_say_graphql(const struct snapshot *snapshot, uint32_t rule, struct buf *ret);
size_t snapshot_rule_count(const struct snapshot *snapshot);
enum network_mode snapshot_mode(const struct snapshot *snapshot);
/* A ratchet has taken the credentials away. */
bool snapshot_takes_credentials(const struct snapshot *snapshot);
