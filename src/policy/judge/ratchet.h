/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ratchet: once the sandbox has seen something, its rights are narrower for the rest of the run.
 *
 * A rule has triggers (`when`) and effects (`then`). Effects only remove rights: an effect cannot allow what the policy
 * refuses. A closed rule is marked in the policy (struct ratchet_rule, `closed`), and everything computed from the
 * policy afterwards is narrowed: the network snapshot (ratchet_compile()), and the tools that may be called
 * (ratchet_keeps_tool()). Nothing opens a rule again.
 *
 * run/run_ratchet.h says who closes one, and why nothing gets out in between.
 */
#include "policy/expand.h"
#include "policy/policy.h"

enum { RATCHETS_MAX = 32 }; /* one bit each */

int check_ratchet_path(struct str text, struct err *err);
int check_ratchet_host(struct str text, struct err *err);
int check_ratchet_tool(struct str text, struct err *err);
int check_ratchet(const void *record, struct err *err);

/* Checks across all layers: names of tools and credentials that do not exist, a question when nobody can be asked,
 * ports that are published to other machines. */
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
/* The text for people: "customer data was read", or the list of triggers. Into `ret`. */
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
/* The closed rules and the trigger hosts, for the gateway. */
int ratchet_compile(const struct policy *policy, struct snapshot_builder *builder, struct err *err);
/* The rules of one policy, with their marks, in place of another's. */
int ratchet_copy(struct policy *to, const struct policy *from);
