/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The body of a Git LFS batch request: which way objects are to go, and for which ref. Strict: known members only,
 * each once and in its own spelling, since servers fold case and take the last of two.
 */
#include "base/buf.h"
#include "policy/git/git.h"

enum { LFS_BATCH_MAX = 1 << 20 };

struct lfs_batch {
        bool upload;
        size_t n_objects;
        size_t ref_n;              /* 0: it names none */
        char ref[GIT_REF_MAX + 1]; /* full name */
};

/* 0, -EBADMSG: it is none, or in a form that is not known here; -ENOMEM. */
int lfs_batch_read(struct str body, struct lfs_batch *ret);
