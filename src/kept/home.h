/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sandbox's own home: the directory that $HOME is inside, kept between runs, one for each workspace.
 *
 *     $XDG_STATE_HOME/bailey/homes/ID/   files/   what the sandbox sees and writes
 *                                        caches/  upper layers, one per cache (policy/paths/home_table.h)
 *                                        info     the workspace it was made for
 *                                        laid     what Bailey put into files/, and from which content
 *                                        hinted-* what a user was told of an agent here (run/run_introduce.h)
 *                                        lock     shared by the runs that use it, exclusive to remove it
 *
 * The sandbox controls everything in files/. So nothing in there is trusted, run or obeyed outside, and Bailey's own
 * writes follow no link in it: a name that is a link or of the wrong kind is an error, and the text says which.
 *
 * How to put a file into it (sign-ins, settings of an agent, a text for agents): add a line to run_home_lay() in
 * run/run_home.c, which runs before each launch, with the policy and the vault at hand:
 *
 *     const struct home_file file = { .path = ".codex/auth.json",
 *                                     .content = buf_str(&copy),
 *                                     .origin = "~/.codex/auth.json" };
 *     r = home_lay(home, &file, err);
 */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "policy/policy.h"

#include <stdbool.h>

/* A laid file: its path, its source, and the content that was written. */
struct home_record {
        char *path;
        char *key;
        char digest[65]; /* SHA-256 of the content, in hex */
};

struct home {
        char *id;        /* "project.0f1e2d3c4b5a"; NAME of --home NAME; "run.SANDBOX" with --home none */
        char *directory; /* NULL: this run has no home of its own (--home real) */
        char *files;     /* seen as $HOME inside */
        int fd;          /* of the directory */
        int files_fd;
        int lock;
        int cache_lock; /* -1: another run writes to the caches; this one has layers of its own, which are forgotten */
        bool fresh;     /* made by this run */
        bool forgotten; /* --home none: removed at the end */
        VEC(struct home_record) records;
        bool records_changed;
};
#define HOME_NONE ((struct home){ .fd = -1, .files_fd = -1, .lock = -1, .cache_lock = -1 })

/* Opens the home that this policy wants, and makes it where it is not there. `run_id` names one that is forgotten. With
 * --home real, or without a place for state, ret->directory is NULL. */
int home_open(const struct policy *policy, const char *run_id, struct home *ret, struct err *err);
/* Where it would be; for a look at the plan. Nothing is made or locked. */
int home_name(const struct policy *policy, const char *run_id, struct home *ret, struct err *err);
/* At the end of the run: one that is forgotten goes away. */
void home_close(struct home *home);

struct home_file {
        const char *path;   /* below the home, without "." and "..": ".codex/auth.json" */
        struct str content; /* at most HOME_FILE_MAX bytes */
        const char *origin; /* for messages: where the content comes from */
        /* What the content was made from ("mtime size", a digest). The file is written again when this has changed or
         * the file is gone, and left alone otherwise: the sandbox may have changed it. NULL: the content itself. */
        const char *key;
        bool once; /* never replaced: only written while there is no such file */
};
enum { HOME_FILE_MAX = 1 << 20 };

/* Writes the file if it is time to: whole or not at all, mode 0600, parents made (0700). What the sandbox had changed
 * in it is kept beside it, with ".old" at the end of the name. -ELOOP, -ENOTDIR, -EISDIR: something else is in the way.
 */
int home_lay(struct home *home, const struct home_file *file, struct err *err);
/* Whether the file is there and was made from this key: then nobody has to make the content again. */
bool home_is_current(const struct home *home, const char *path, const char *key);
/* Whether Bailey ever laid it here. */
bool home_was_laid(const struct home *home, const char *path);
/* Remembers what was laid. */
int home_save(struct home *home, struct err *err);

/* A directory (or an empty file) for something to be mounted on. Errors as for home_lay(). */
int home_make_point(const struct home *home, const char *path, bool directory, struct err *err);
/* Removes the empty directories in `place`, a directory below the home, that were points for a directory of the same
 * name outside: `own`, and those that are missing in `outside`, whose runs have ended. */
void home_remove_points(const struct home *home, const char *place, const char *outside, const char *own);
