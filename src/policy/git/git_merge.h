/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Merges the sandbox's changes in its copy of a repository's configuration back into the host's file. Pure: three texts
 * in, one text and a list out.
 *
 *     base      the host's file when the copy was made
 *     inside    the copy at the end: hostile
 *     host      the host's file now
 *
 * A setting is all values of one name. One that differs between base and inside comes back when it is harmless
 * (git_harmless.h), when a server that it names is one that the sandbox may reach, and when the host has not changed it
 * meanwhile. The rest of the host's text stays, byte for byte. The list has the changes that do not come back.
 *
 * The address of a remote of the host is neither changed nor removed: people push to remotes that they set up
 * themselves, and two runs must not be able to replace one in two steps.
 */
#include "base/buf.h"
#include "base/vec.h"
#include "policy/git/git_harmless.h"

enum { GIT_MERGE_TEXT_MAX = 1 << 20, GIT_MERGE_SETTINGS_MAX = 4096 };

enum git_left_why {
        GIT_LEFT_KIND,   /* not known to be harmless */
        GIT_LEFT_SERVER, /* the policy does not allow the server */
        GIT_LEFT_REMOTE, /* a remote of the host's, or a branch that leads to none */
        GIT_LEFT_BOTH,   /* changed on the host, too */
};

struct git_left {
        char *name;  /* "core.hookspath" */
        char *value; /* the last one; NULL: it was taken away, or is a key without a value */
        enum git_left_why why;
};
typedef VEC(struct git_left) git_lefts;
void git_lefts_done(git_lefts *list);

struct git_merge {
        struct str base, inside, host;
        bool (*may_reach)(struct str host, uint16_t port, void *context);
        void *context;
};

/* *ret_changed says whether `ret_text` differs from the host's. -EBADMSG: one of the texts is no configuration, or not
 * one that can be changed safely; -E2BIG: too many settings; -EMSGSIZE: `ret_text` is too small. */
int git_merge(const struct git_merge *merge, struct buf *ret_text, bool *ret_changed, git_lefts *ret_left);
