/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Path rules: which access a path has, by the most specific rule, whatever the order they were written in.
 * Compiled once from a policy; pure (no file system access: the caller resolves links first).
 */
#include "policy/policy.h"

enum path_access { PATH_DENIED, PATH_READ, PATH_WRITE };

struct path_rule {
        const char *pattern;   /* absolute; a glob if is_glob */
        const char *origin;
        bool is_glob;          /* contains *, ? or [ */
        bool anywhere;         /* starts with a ** component: any depth, enforced at access time */
        bool decides_read;     /* says something about reading (else about writing only) */
        bool grants;           /* grants that access (else refuses it) */
        bool protected;        /* built-in protection inside the workspace: .git/hooks and the like */
};

struct path_rules;

int path_rules_compile(const struct policy *p, struct path_rules **ret, struct err *e);
void path_rules_free(struct path_rules *r);
void path_rules_freep(struct path_rules **r);
size_t path_rules_count(const struct path_rules *r);
const struct path_rule *path_rules_at(const struct path_rules *r, size_t i); /* in order of specificity, least first */

/* For a normalised absolute path. *ret_rule (optional) is the rule that decided, NULL for the mode's default. */
enum path_access path_rules_access(const struct path_rules *r, const char *path, const struct path_rule **ret_rule);
/* Glob over a normalised path: * and ? within a component, ** across components, [..] classes; no escapes into '/'. */
bool path_glob_match(const char *pattern, const char *path);
