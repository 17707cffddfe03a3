/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The survey for other rooms, besides survey_host(): facts that they add, and queries about the results. */
#include "sandbox/sandbox.h"

/* One more path for the plan; path and link are copied, the origin is not. */
int survey_add(struct plan_host *h, struct plan_path path, struct err *err);
/* Whether the file system counts a directory's directories in its links. Each system has its own. */
bool survey_counts_directories(int fd);
/* Repositories in the directories that *host grants for writing: what git would obey in them, as more paths. Also the
 * parts of a repository that a commit in this worktree or submodule writes to, where the workspace is one. */
int survey_git(const struct policy *policy, const struct path_rules *rules, struct plan_host *host, struct err *err);
/* For a system whose rules hold for paths alone: where the links of refused paths lead, and each link on the way, as
 * more paths, if the sandbox may write there. */
int survey_refused_links(const struct path_rules *rules, struct plan_host *host, struct err *err);
/* After the run: what git would obey now and would not have before, as paths of *ret that are protected. Its
 * git_known are all repositories that are there now. `noted`: a broker noted those that were made, so that one which
 * the first search may have missed is old, and only what changed in it counts. */
int survey_git_after(const struct policy *policy, const struct path_rules *rules, const struct plan_host *before,
                     uint64_t began_us, bool noted, struct plan_host *ret, struct err *err);
/* The same for repositories that a broker noted as they were made; `roots` are what the sandbox could write. */
struct git_made {
        const char *const *roots, *const *paths;
        size_t n_roots, n_paths;
};
int survey_git_made(const struct git_made *made, struct plan_host *ret, struct err *err);
#define SURVEY_INCOMPLETE "there are too many configuration files, or one is too large"
/* Whether git's configuration may name something else by now than at the survey, which began at this time. */
bool survey_git_changed(const struct plan_host *before, uint64_t since_us);
/* What it names by now and did not then, as paths of *ret that are protected. *ret has the configurations that were
 * read and the directories of hooks that they name, too. git_incomplete: there were too many of them. */
int survey_git_named(const struct policy *policy, const struct path_rules *rules, const struct plan_host *before,
                     struct plan_host *ret, struct err *err);
/* Whether the sandbox may change the names in this directory. */
bool survey_may_write(const struct path_rules *rules, const char *workspace, const char *dir);
/* Whether it could make this path, which does not exist. */
bool survey_may_write_around(const struct path_rules *rules, const char *path);
/* Whether a link between this path and its target is in the workspace or in another writable place, or the path no
 * longer leads there. */
bool survey_link_planted(const struct path_rules *rules, const char *workspace, const char *path, const char *real);
