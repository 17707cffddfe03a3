/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules that a person approved and that are remembered: a layer of the policy. They are kept in the state database
 * (store/state.h); this is the small file beside it that a launch reads, one line each, because opening the database
 * costs more than a launch may spend. Written whole, mode 0600, only by Bailey; read strictly.
 *
 *     allow <tab> 2026-11-15 <tab> * <tab> files.example.com:443
 *     allow <tab> 2026-11-15 <tab> /home/ann/project <tab> read /srv/data
 *     deny <tab> 2026-11-15 <tab> /home/ann/project <tab> gist.example.com
 *
 * The third field is the workspace that the rule is for, with bytes that would break the line as %XX, or * for all.
 */
#include "policy/policy.h"

struct approved_rule {
        bool deny;
        char day[16];    /* 2026-11-15 */
        char *workspace; /* NULL: every one */
        char *pattern;
};
struct approved {
        VEC(struct approved_rule) rules;
};
void approved_done(struct approved *approved);
/* "read /PATH" or "write /PATH": a file system grant, in the place of a host pattern. */
bool approved_is_path(struct str pattern);
/* Whether the list has this allow rule, for this workspace or for all. */
bool approved_has(const struct approved *approved, const char *workspace, const char *pattern);
int approved_add(struct approved *approved, bool deny, const char *day, const char *workspace, const char *pattern);

/* $XDG_STATE_HOME/bailey/approved. -ENOENT: there is no home directory. */
int approved_path(char **ret);
/* An absent file holds no rules. -EPERM: it is not ours alone; -EINVAL: a line is wrong. */
int approved_read(const char *path, struct approved *ret, struct err *err);
int approved_parse(struct str text, const char *name, struct approved *ret, struct err *err);
int approved_format(const struct approved *approved, struct buf *out);
/* Lays the rules for this workspace over the policy, each with the origin "approved DAY". */
int approved_apply(const struct approved *approved, struct policy *policy, struct err *err);
