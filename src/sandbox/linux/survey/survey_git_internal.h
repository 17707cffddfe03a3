/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the survey of repositories (survey_git.c says what it is about). */
#include "sandbox/linux/survey/survey_internal.h"

enum {
        GIT_REPOSITORIES_MAX = 96, /* each takes a few mounts */
        GIT_LOOKS_MAX = 56,        /* directories that are read in search of repositories below a root */
        GIT_MODULE_LOOKS_MAX = 512,
        GIT_FILES_MAX = 256,      /* configuration files that are read, included ones among them */
        GIT_VARIABLES_MAX = 1024, /* settings in the environment */
        GIT_FILE_SIZE_MAX = 8 << 20,
};

typedef VEC(char *) git_paths;

struct git_survey {
        const struct policy *policy;
        const struct path_rules *rules;
        struct plan_host *host;
        struct err *err;
        git_paths seen;         /* git directories that were looked at */
        git_paths files;        /* configuration files, each with a tree that it counts for */
        git_paths plain;        /* those of them in which no name begins at a tree: one reading is for all trees */
        git_paths trees;        /* working trees that git's own configuration counts for */
        git_paths hooks;        /* directories of hooks that configurations name */
        unsigned reads;         /* of configuration files */
        bool relative;          /* a name that was read last began at a tree */
        git_paths granted;      /* parts of the repository that the survey itself opened for writing */
        const git_paths *known; /* after the run: what `seen` was before it; NULL: this is before */
        uint64_t began_us;      /* when the run began */
        bool known_partly;      /* `known` is not all of what was there: what has not changed since then may be older */
        unsigned looks, module_looks;
        dev_t device; /* the file system that was asked last */
        bool device_known, counts_directories;
        bool incomplete; /* a bound was hit */
        int doubt;       /* errno of the first look that told nothing; the survey fails with it */
};

/* Closes one path, whether it exists or not, with each link on the way to it: where the sandbox could write it. */
int git_protect(struct git_survey *survey, const char *path, const char *why);
/* The same for a name in a directory that is canonical. */
int git_protect_in(struct git_survey *survey, const char *directory, const char *name, const char *why);
bool git_may_write(const struct git_survey *survey, const char *path);
/* After a look at a path failed with this errno: unless that is an answer, the whole survey fails. Callers go on as if
 * nothing were there. */
void git_doubt(struct git_survey *survey, int error, const char *path);
/* lstat(); whatever the failure, false. */
bool git_look(struct git_survey *survey, const char *path, struct stat *ret);
/* True when the path is new in the list. */
bool git_first_time(struct git_survey *survey, git_paths *list, const char *path);
/* One trimmed line of a small file; NULL when there is none. */
char *git_read_line(struct git_survey *survey, const char *directory, const char *name);
/* Where a path written in a file of `base` leads, or NULL. */
char *git_lead(struct git_survey *survey, const char *base, const char *path);

/* A git directory and all that belongs to it; `tree` is its working directory or NULL. */
int git_add_repository(struct git_survey *survey, const char *gitdir, const char *tree);
/* What stands at DIRECTORY/.git, if it is a repository. */
int git_add_tree(struct git_survey *survey, const char *directory);
/* Repositories below the directory, as far as the bounds allow (survey_git_find.c). */
int git_find_below(struct git_survey *survey, const char *root);
/* Those behind a repository: its submodules at any depth, its other working trees. */
int git_find_modules(struct git_survey *survey, const char *gitdir);
int git_find_worktrees(struct git_survey *survey, const char *gitdir);
/* Whether the directory is a repository without a working tree. */
bool git_is_bare(struct git_survey *survey, const char *directory);

/* What the configuration of a repository names (survey_git_config.c). `tree` is where relative names begin. */
int git_add_config(struct git_survey *survey, const char *file, const char *tree);
/* And that of the user and the system, which counts for every tree. */
int git_add_own_config(struct git_survey *survey, const char *tree);
/* All of it, for one tree of a repository; NULL: it has none. */
int git_add_settings(struct git_survey *survey, const char *gitdir, const char *tree);
/* Hooks that are links to other places. */
int git_add_hooks(struct git_survey *survey, const char *directory);

/* After the run: the submodules that the index of a repository names by now (survey_git_after.c). */
int git_add_links(struct git_survey *survey, const char *gitdir, const char *tree);
/* Closes a name after the run. Where the search before the run hit a bound: what changed since it began. */
int git_add_later(struct git_survey *survey, const char *path, const char *why);
/* Whether it was there before the run. Before it: false. */
bool git_is_known(const struct git_survey *survey, const char *path);
char *git_tree_of_module(struct git_survey *survey, const char *gitdir);

extern const char git_why[];
