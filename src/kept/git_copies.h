/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Git's configuration, as a copy for one run. `git remote add`, `push -u`, `checkout -b x origin/x` and `submodule
 * init` write `.git/config`; git outside runs what that file says. So the sandbox gets a copy, and at the end the
 * harmless part of its changes comes back (policy/git/git_merge.h). The sandbox never gets the host's file.
 *
 *     $XDG_STATE_HOME/bailey/git/ID/   N      the copy that is mounted over the configuration
 *                                      list   their paths, each with a NUL; locked while the run lives
 *
 * The host may change its file meanwhile: a setting that both changed stays as the host has it. It is written in place,
 * with git's own lock held: a rename would take the mounts of other sandboxes away. Changes that were left out are kept
 * (`bailey kept`), and so is the copy of a killed run.
 */
#include "base/err.h"
#include "plan/build.h"
#include "policy/git/git_merge.h"

struct git_copy {
        char *path; /* of the host's file */
        int held;   /* that file: while it is open no other one gets its number, by which it is closed (plan_copy_of) */
        struct buf base;
};

struct git_copies {
        int dir, lock; /* of this run; -1: it has none */
        VEC(struct git_copy) list;
};
#define GIT_COPIES_NONE                                                                                                \
        { .dir = -1, .lock = -1 }

struct git_copies_found {
        const char *id, *path;
        const char *kept;      /* the whole copy, in what is kept of the run; NULL: it could not be kept */
        const git_lefts *left; /* NULL: nothing came back */
        const char *why;       /* then this is why */
};
typedef void git_copies_report(const struct git_copies_found *found, void *context);

/* Makes the copies of what the survey offers, as far as there is a place for them, and puts them into host->copies. */
int git_copies_make(struct git_copies *copies, const char *id, struct plan_host *host, struct err *err);

struct git_copies_end {
        const char *id;
        bool (*may_reach)(struct str host, uint16_t port, void *context);
        git_copies_report *report;
        void *context;
};
/* When nothing of the sandbox lives any more. */
void git_copies_end(struct git_copies *copies, const struct git_copies_end *request);
/* What runs that were killed left. */
void git_copies_sweep(git_copies_report *report, void *context);
void git_copies_done(struct git_copies *copies);
