/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ratchet: once the sandbox has seen something, its doors are narrower, for the rest of the run.
 *
 * A rule has triggers (`when`) and effects (`then`). Effects only take away: what the policy refuses stays refused,
 * whatever an effect names. A rule that has closed is marked in the policy (struct ratchet_rule, `closed`); whatever is
 * computed from the policy afterwards is narrowed: the snapshot of the network (ratchet_compile()), and which tools may
 * be called (ratchet_keeps_tool()). Nothing opens a rule again.
 *
 * Who closes one, and why nothing gets out in between: run/run_ratchet.h.
 */
#include "policy/expand.h"
#include "policy/policy.h"

enum { RATCHETS_MAX = 32 }; /* one bit each */

int check_ratchet_path(struct str text, struct err *err);
int check_ratchet_host(struct str text, struct err *err);
int check_ratchet_tool(struct str text, struct err *err);
int check_ratchet(const void *record, struct err *err);

/* All layers together: names of tools and credentials that nobody has, a question where nobody can be asked, ports that
 * are published to other machines. */
int ratchet_settle(const struct policy *policy, struct err *err);

/* A path of `when.read` as a glob over whole paths. Heap text, or NULL without memory. */
char *ratchet_pattern(const struct policy *policy, const char *text);
bool ratchet_has_reads(const struct policy *policy);
/* Which rules a path, the reaching of a host, or a call of a tool closes: one bit for each. */
uint32_t ratchet_of_path(const struct policy *policy, const char *path);
uint32_t ratchet_of_host(const struct policy *policy, const struct authority *target);
uint32_t ratchet_of_tool(const struct policy *policy, const struct bridge_tool *tool, const char *const *argv,
                         size_t n);

/* Marks them; those that were open until now. */
uint32_t ratchet_close(struct policy *policy, uint32_t rules);
uint32_t ratchet_closed(const struct policy *policy);
/* What people are told: "customer data was read", or what the triggers are. Into `ret`. */
void ratchet_say(const struct ratchet_rule *rule, struct buf *ret);
/* Whether the rules that have closed leave this tool; *ret_rule: the one that does not. */
bool ratchet_keeps_tool(const struct policy *policy, const char *tool, const struct ratchet_rule **ret_rule);
/* Whether one of them has taken git, or credentials, away. */
bool ratchet_takes_git(const struct policy *policy);
bool ratchet_takes_credentials(const struct policy *policy);

/* `then.allow` is none. */
bool ratchet_leaves_no_host(const struct ratchet_rule *rule);
/* Hosts that are triggers: those that are named, and those of credentials. */
int ratchet_each_host(const struct policy *policy, const struct ratchet_rule *rule, expand_function *each,
                      void *context, struct err *err);
/* What has closed, and which hosts are triggers, for the gateway. */
int ratchet_compile(const struct policy *policy, struct snapshot_builder *builder, struct err *err);
/* The rules of one policy, with their marks, in place of another's. */
int ratchet_copy(struct policy *to, const struct policy *from);
