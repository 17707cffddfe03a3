/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git's configuration comes to name while a sandbox runs. A person sets core.hooksPath, adds an include or links a
 * hook on the host; the place that is named then may lie in the workspace, and no guard of the launch knows of it.
 *
 * The same files are read again as at the launch, with whatever they include by now, and the hooks of the same
 * repositories. No repository is searched for: one that was made meanwhile may be the sandbox's own, and its
 * configuration is no order of the host's (survey_git_after.c and survey_git_made.c deal with it).
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths/path.h"

#include <errno.h>
#include <sys/stat.h>

static void git_paths_done(git_paths *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

/* --- whether anything has changed --- */

/* The file, or the link that leads to it. One that cannot be looked at may have changed. */
static bool changed_since(const char *path, uint64_t since_us) {
        struct stat st;

        if (lstat(path, &st) < 0)
                return !path_error_answers(errno);
        if (clock_is_since(&st, since_us))
                return true;

        return S_ISLNK(st.st_mode) && stat(path, &st) == 0 && clock_is_since(&st, since_us);
}

bool survey_git_changed(const struct plan_host *before, uint64_t since_us) {
        for (size_t i = 0; i < before->git_files.n; i++) {
                const char *file = before->git_files.p[i];
                cleanup(free_ptr) char *path = strndup(file, strcspn(file, "\n"));

                if (!path || changed_since(path, since_us))
                        return true;
        }

        for (size_t i = 0; i < before->git_hooks.n; i++)
                if (changed_since(before->git_hooks.p[i], since_us))
                        return true;

        for (size_t i = 0; i < before->git_known.n; i++) {
                cleanup(free_ptr) char *hooks = path_join(before->git_known.p[i], "hooks");

                if (!hooks || changed_since(hooks, since_us))
                        return true;
        }

        return false;
}

/* --- what is named --- */

/* The survey keeps a file and the tree that it was read for in one text. */
static int read_file_again(struct git_survey *survey, const char *file) {
        cleanup(free_ptr) char *path = strdup(file);
        char *tree = path ? strchr(path, '\n') : NULL;

        if (!tree && path)
                return 0;
        if (!tree)
                return err_set(survey->err, ENOMEM, "out of memory");

        *tree++ = '\0';
        return git_add_config(survey, path, tree);
}

static int read_again(struct git_survey *survey, const struct plan_host *before) {
        int r = 0;

        for (size_t i = 0; i < before->git_files.n && r == 0; i++)
                r = read_file_again(survey, before->git_files.p[i]);

        for (size_t i = 0; i < before->git_trees.n && r == 0; i++)
                r = git_add_own_config(survey, before->git_trees.p[i]);

        for (size_t i = 0; i < before->git_known.n && r == 0; i++) {
                cleanup(free_ptr) char *hooks = path_join(before->git_known.p[i], "hooks");

                if (hooks)
                        r = git_add_hooks(survey, hooks);
                else
                        r = err_set(survey->err, ENOMEM, "out of memory");
        }

        return r;
}

/* By what lies nearest above: a grant may be in a place that is closed as a whole. */
static bool was_closed(const struct plan_host *before, const struct plan_path *path) {
        size_t nearest = 0;
        bool closed = false;

        for (size_t i = 0; i < before->paths.n; i++) {
                const struct plan_path *other = &before->paths.p[i];
                size_t n = strlen(other->path);
                bool covers = other->type == PLAN_PATH_LINK ? strcmp(path->path, other->path) == 0
                                                            : path_is_within(path->path, other->path);

                if (!covers || n < nearest)
                        continue;

                bool closes = !other->grants && other->access != PATH_WRITE;
                closed = closes || (closed && n == nearest);
                nearest = n;
        }

        return closed;
}

static void drop_known(struct plan_host *found, const struct plan_host *before) {
        size_t kept = 0;

        for (size_t i = 0; i < found->paths.n; i++) {
                struct plan_path *path = &found->paths.p[i];

                if (!was_closed(before, path)) {
                        found->paths.p[kept++] = *path;
                        continue;
                }

                free((char *)path->path);
                free((char *)path->link);
        }

        found->paths.n = kept;
}

int survey_git_named(const struct policy *policy, const struct path_rules *rules, const struct plan_host *before,
                     struct plan_host *ret, struct err *err) {
        struct git_survey survey = { .policy = policy, .rules = rules, .host = ret, .err = err };
        int r;

        if (policy->mode == MODE_READ_ONLY || !policy->workspace)
                return 0;

        for (size_t i = 0; i < before->paths.n; i++)
                if (before->paths.p[i].grants && before->paths.p[i].access == PATH_WRITE)
                        (void)git_first_time(&survey, &survey.granted, before->paths.p[i].path);

        r = read_again(&survey, before);
        drop_known(ret, before);

        ret->git_files.p = survey.files.p; /* the survey's owner frees them */
        ret->git_files.n = survey.files.n;
        ret->git_files.cap = survey.files.cap;
        ret->git_hooks.p = survey.hooks.p;
        ret->git_hooks.n = survey.hooks.n;
        ret->git_hooks.cap = survey.hooks.cap;
        ret->git_incomplete = survey.incomplete;
        git_paths_done(&survey.seen);
        git_paths_done(&survey.plain);
        git_paths_done(&survey.trees);
        git_paths_done(&survey.granted);

        if (r != 0)
                return r;

        return -survey.doubt;
}
