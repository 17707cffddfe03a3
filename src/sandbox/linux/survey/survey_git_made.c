/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories that a sandbox made, as its broker recorded them (repos.h): the files in them that git would run or
 * obey. Nothing is followed here. Each repository that was made is noted by itself, and one that a file leads to and
 * that is not noted was there before.
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const parts[] = {
        "hooks", "config", "config.worktree", "commondir", "gitdir", "remotes", "branches"
};
enum { PARTS = sizeof parts / sizeof *parts };

static bool in_roots(const struct git_made *made, const char *path) {
        for (size_t i = 0; i < made->n_roots; i++)
                if (path_is_within(path, made->roots[i]))
                        return true;
        return false;
}

static int close_name(const struct git_made *made, struct git_survey *survey, const char *path) {
        const struct plan_path closed = {
                .path = path, .type = PLAN_PATH_MISSING, .access = PATH_READ, .protected = true, .origin = git_why
        };
        struct stat st;

        if (in_roots(made, path) && git_look(survey, path, &st))
                return survey_add(survey->host, closed, survey->err);

        return 0;
}

/* In .git/worktrees/NAME two files say where the rest is. They stay when they say what git itself would write. */
static bool is_right(struct git_survey *survey, const char *directory, const char *name) {
        cleanup(free_ptr) char *text = git_read_line(survey, directory, name);
        cleanup(free_ptr) char *leads = text ? git_lead(survey, directory, text) : NULL;
        cleanup(free_ptr) char *own = git_lead(survey, directory, "../..");

        if (!strstr(directory, "/worktrees/") || !text)
                return false;
        if (strcmp(name, "commondir") == 0)
                return leads && own && strcmp(leads, own) == 0;

        return strcmp(name, "gitdir") == 0; /* the way back: git reads no orders from there */
}

static int close_repository(const struct git_made *made, struct git_survey *survey, const char *directory) {
        for (size_t i = 0; i < PARTS; i++) {
                cleanup(free_ptr) char *path = path_join(directory, parts[i]);

                if (!path)
                        return err_memory(survey->err);
                if (is_right(survey, directory, parts[i]))
                        continue;

                int r = close_name(made, survey, path);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* A file that leads to a submodule or another working tree, as git writes it. */
static bool leads_to_part(const struct git_made *made, struct git_survey *survey, const char *file) {
        cleanup(free_ptr) char *directory = strdup(file);
        if (!directory)
                return false;

        *strrchr(directory, '/') = '\0';

        cleanup(free_ptr) char *line = git_read_line(survey, directory, ".git");
        cleanup(free_ptr) char *gitdir =
            line && strncmp(line, "gitdir: ", 8) == 0 ? git_lead(survey, directory, line + 8) : NULL;

        return gitdir && in_roots(made, gitdir) &&
               (strstr(gitdir, "/.git/modules/") || strstr(gitdir, "/.git/worktrees/"));
}

/* By its own path alone: a link that was put on the way to it leads to something else. */
static bool made_stands(struct git_survey *survey, const char *path) {
        cleanup(free_ptr) char *directory = strdup(path);
        if (!directory || !strrchr(directory, '/'))
                return false;
        *strrchr(directory, '/') = '\0';

        cleanup(free_ptr) char *real = git_lead(survey, "", directory[0] ? directory : "/");
        return real && strcmp(real, directory[0] ? directory : "/") == 0;
}

static bool has_name(struct git_survey *survey, const char *directory, const char *name) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        struct stat st;

        return !path || git_look(survey, path, &st);
}

/* The common part of a repository needs no HEAD: a working tree elsewhere has one, and leads to it. */
static bool is_obeyed(struct git_survey *survey, const char *directory) {
        return has_name(survey, directory, "HEAD") ||
               (has_name(survey, directory, "objects") && has_name(survey, directory, "refs"));
}

static int add_made(const struct git_made *made, struct git_survey *survey, const char *path) {
        bool named = strcasecmp(strrchr(path, '/') + 1, ".git") == 0;
        struct stat st;

        if (!in_roots(made, path) || !made_stands(survey, path) || !git_look(survey, path, &st))
                return 0;
        if (S_ISDIR(st.st_mode)) {
                if (is_obeyed(survey, path))
                        return close_repository(made, survey, path);
                return 0;
        }
        if (!named || (S_ISREG(st.st_mode) && leads_to_part(made, survey, path)))
                return 0;

        return close_name(made, survey, path);
}

int survey_git_made(const struct git_made *made, struct plan_host *ret, struct err *err) {
        struct git_survey survey = { .host = ret, .err = err };

        for (size_t i = 0; i < made->n_paths; i++) {
                int r = add_made(made, &survey, made->paths[i]);
                if (r < 0)
                        return r;
        }

        return -survey.doubt;
}
