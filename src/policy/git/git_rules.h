/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The entries under `git` of a policy: what is wrong with one, the short form REPO[=REF[+REF...]] of the command line,
 * and what becomes of them in a snapshot.
 */
#include "policy/policy.h"

/* For policy/judge/records.c and policy/options.c: texts that a person wrote. */
int check_git_repo(struct str text, struct err *err);
int check_git_ref(struct str text, struct err *err);
int check_git_word(struct str word, struct err *err);
/* Of a whole entry: rights that contradict each other, or none at all. */
int check_git_rule(const void *record, struct err *err);

/* REPO: fetch. REPO=REFS: also push to these; "agent/x" is the branch refs/heads/agent/x. */
int git_rule_add_word(struct policy *policy, struct str word, const char *origin, struct err *err);
/* A new entry with nothing but its name. NULL: out of memory. */
struct git_rule *git_rule_add(struct policy *policy, const char *repo, const char *origin);

/* An entry names this host, at any port. */
bool git_rules_name_host(const struct policy *policy, const struct host *host);
/* Adds all of them, the most specific first. `closed`: a ratchet has closed git; the entries stay but grant nothing, so
 * that requests are still judged as git's. */
int git_rules_compile(const struct policy *policy, bool closed, struct snapshot_builder *builder, struct err *err);
