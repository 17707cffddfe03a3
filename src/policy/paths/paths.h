/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Path rules: which access a path has, by the most specific rule, whatever the order they were written in.
 * Compiled once from a policy; pure (no file system access: the caller resolves links first).
 *
 * A rule holds for the path it names and for everything below. Of two rules that hold for a path the one whose own path
 * is longer decides; at the same length a plain path before a glob, a user's rule before a built-in one, a refusal
 * before a grant. A grant to write is a grant to read as well; a refusal to read refuses writing too.
 *
 * The launch plan handles the sandbox's private places (/tmp, /dev, /proc, /run); no rule names them.
 */
#include "policy/policy.h"

enum path_access { PATH_DENIED, PATH_READ, PATH_WRITE };

struct path_rule {
        const char *pattern; /* absolute and normalised; a glob if is_glob */
        const char *origin;  /* where it was written; for built-in rules "built in: " and the reason */
        bool is_glob;        /* contains *, ? or [ */
        bool anywhere;       /* has a ** component: any depth, enforced at access time */
        bool decides_read;   /* says something about reading (else about writing only) */
        bool grants;         /* grants that access (else refuses it) */
        bool built_in;       /* stands in a table of policy/paths/paths_builtin.c */
        bool protected;      /* built-in protection of writable places: .git/hooks and the like */
        bool own;            /* the sandbox's own home: writable inside, and nothing of the host is there */
        bool late;           /* a mount may not hold it: nothing was there, or what was there may be replaced */
};

struct path_rules;

/* -EINVAL for a grant that is a glob, or a path that cannot be one. */
int path_rules_compile(const struct policy *policy, struct path_rules **ret, struct err *err);
/* The same rules again from their list (path_rules_at), as carried to another process; patterns are checked. */
int path_rules_restore(const struct path_rule *list, size_t n, bool reads_open, struct path_rules **ret,
                       struct err *err);
void path_rules_free(struct path_rules *rules);
void path_rules_freep(struct path_rules **rules);
size_t path_rules_count(const struct path_rules *rules);
const struct path_rule *path_rules_at(const struct path_rules *rules,
                                      size_t i); /* in order of specificity, least first */
/* Reading where no rule says anything: true unless the policy says `reads: deny`. Writing is refused there. */
bool path_rules_reads_open(const struct path_rules *rules);

/* For a normalised absolute path. *ret_rule (optional) is the rule that decided, NULL for the default. */
enum path_access path_rules_access(const struct path_rules *rules, const char *path, const struct path_rule **ret_rule);
/* The same for the host's file of that name: what only the sandbox's own home covers is not there, hence denied. */
enum path_access path_rules_host_access(const struct path_rules *rules, const char *path,
                                        const struct path_rule **ret_rule);
/* The glob, or late path, that refuses reading (or, with `write`, reading or writing) this path, or NULL if no such
 * rule refuses it: mounts enforce the others. */
const struct path_rule *path_rules_refusing_glob(const struct path_rules *rules, const char *path, bool write);
const char *path_access_name(enum path_access access); /* "denied", "read", "write" */
