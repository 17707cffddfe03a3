/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the survey. */
#include "base/files/names.h"
#include "sandbox/survey.h"

#include <limits.h>
#include <sys/stat.h>

/* A directory, as it was when it was first asked for. */
struct survey_dir {
        char *path; /* absolute and normalised, as a rule spells it */
        size_t path_n;
        char *real; /* links resolved; where it does not exist: its nearest existing parent resolved, then the rest */
        int fd;     /* -1: cannot be looked into, and `error` says why */
        int error;
        unsigned looks;      /* how many names were asked for in it */
        struct names *names; /* when they were many */
        char *listing;       /* all of its names, each with its zero, once a pattern was matched against them */
        bool listed;
        size_t listing_n;
};
#define SURVEY_DIRS_MAX 64
struct survey_dirs {
        struct survey_dir d[SURVEY_DIRS_MAX];
        size_t n, next;
};
/* NULL when out of memory. The answer holds until the next call. */
struct survey_dir *survey_dir(struct survey_dirs *dirs, struct str path);
void survey_dir_done(struct survey_dir *dir);
/* Whether a name is certainly not in it. For many queries the directory is read once, and names that it does not list
 * are not looked up. */
bool survey_dir_lacks(struct survey_dir *dir, const char *name);
/* All of its names, as of the first query. None if it cannot be read; an error if that is unknown. */
int survey_dir_list(struct survey_dir *dir, struct str *ret);
/* A path as its directory and its name in it. Only "/" has no name. */
struct survey_place {
        struct survey_dir *dir;
        const char *name;
};
/* -ENOMEM is the only failure. */
int survey_place(struct survey_dirs *dirs, const char *path, struct survey_place *ret);
/* 0, or the positive errno of lstat(). */
int survey_look(const struct survey_place *at, struct stat *ret);
/* Of something that is there. */
static inline enum plan_path_type survey_type(const struct stat *st) {
        return S_ISDIR(st->st_mode) ? PLAN_PATH_DIR : PLAN_PATH_FILE;
}
void survey_dirs_done(struct survey_dirs *dirs);
/* After a look at a path failed with this errno. 0: the path is not there, or not for us. Else the launch must fail:
 * what is taken for missing would be guarded as missing, and swept. */
int survey_doubt(struct err *err, int error, const char *path);

/* Denied paths at the other places where their file system is mounted (survey_mounts.c). */
int survey_mounts(const struct policy *policy, const struct path_rules *rules, struct plan_host *host, struct err *err);
/* Other names of denied files in writable places (survey_twins.c). */
int survey_twins(const struct policy *policy, const struct path_rules *rules, struct survey_dirs *dirs,
                 struct plan_host *host, struct err *err);
/* Files that close ratchets: their patterns, and the same with links on the fixed part of the way resolved. */
/* And the places of filesystem.ask, in the same way. */
int survey_marks(const struct policy *policy, struct plan_host *host, struct err *err);
/* Unix sockets with a path, but for those that lie in the directory that is hidden whole (survey_sockets.c). */
struct buf;
/* Their names, each with a NUL behind it (survey_unix.c). An error says nothing of them: nobody could be asked. */
int survey_unix_names(struct buf *ret);
int survey_sockets(const char *hidden, struct survey_dirs *dirs, struct plan_host *host, struct err *err);
/* The links on the way to a path, one after the other, wherever they lie. */
struct survey_way {
        char dir[PATH_MAX];      /* of the link that was found last: canonical */
        char link[PATH_MAX];     /* its own path */
        char text[PATH_MAX];     /* and what it says */
        char end[PATH_MAX];      /* after -ENOENT: what does not exist, as the way leads there */
        char rest[2 * PATH_MAX]; /* what is left of the way */
        char at[PATH_MAX];       /* what was walked: canonical, without a slash at the end */
        unsigned links;
};
/* From a directory that is canonical ("" is the root) to a path below it. */
void survey_way_begin(struct survey_way *way, const char *directory, const char *path);
/* 1: there is another link; 0: the path ends in something that exists; -ENOENT: in something that does not; -ELOOP and
 * others: it leads nowhere. */
int survey_way_next(struct survey_way *way);
