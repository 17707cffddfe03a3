/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a policy says about a repository: the verdict function of the git gate, over the same immutable snapshot as
 * policy/judge/verdict.h. It knows no transport: HTTP and ssh ask it the same questions.
 *
 * The most specific entry for host, port and path decides. A path that differs from a matching entry only in case is
 * refused: forges fold case, and the entry would be bypassed. A push is allowed whole or not at all.
 */
#include "policy/judge/snapshot.h"

enum git_right { GIT_RIGHT_FETCH, GIT_RIGHT_PUSH };

struct git_update { /* one command of a push */
        struct str ref, old_id, new_id;
        bool creates, deletes;
};

struct git_push {
        const struct git_update *updates;
        size_t n;
        bool options;     /* push options follow */
        bool certificate; /* it is signed */
};

struct git_verdict {
        struct verdict verdict;
        bool ask;        /* allowed, once a person has said yes */
        size_t at;       /* the update that is refused; n where it is not about one */
        const char *why; /* for people: text that stays; NULL: the reason says it all */
};

/* Whether the snapshot has entries for repositories of this host, at any port. */
bool verdict_git_concerns(const struct snapshot *snapshot, const struct host *host);
/* The service alone, before anything of it was seen. path: canonical (git_path_parse()). */
struct git_verdict verdict_git(const struct snapshot *snapshot, const struct authority *target, struct str path,
                               enum git_right right);
/* A push with what it changes. */
struct git_verdict verdict_git_push(const struct snapshot *snapshot, const struct authority *target, struct str path,
                                    const struct git_push *push);
