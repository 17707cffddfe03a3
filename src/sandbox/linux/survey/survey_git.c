/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every repository that git would obey from a writable place. In each of them, the files that git runs or obeys stay
 * closed: hooks, configuration, and the files that say where the rest of the repository is. Missing ones are guards.
 *
 *     a root (workspace, --write)   .git as a directory, a file or a link; the root itself, as a bare repository
 *     below it                      nested repositories and the .git files of submodules   survey_git_find.c
 *     behind a repository           its common directory, modules at any depth, worktrees  survey_git_find.c
 *     by its configuration          hooksPath, programs, included files                    survey_git_config.c
 *
 * A workspace may be a worktree or a submodule: then `.git` is a file that names a directory elsewhere, and a commit
 * writes there. Those directories are granted, so that git works, but only if they agree: a worktree's directory names
 * the workspace in its `gitdir` file, a submodule's in its configuration. A `.git` file alone grants nothing, since
 * anyone who wrote to the workspace could have made it.
 *
 * The search is bounded in directories, repositories and files. When a bound is hit, the plan says so.
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/git/gitconfig.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_FILE = 65536 };

const char git_why[] = "built in: git runs what it says, outside too";

static int no_memory(const struct git_survey *survey) {
        return err_set(survey->err, ENOMEM, "out of memory");
}

/* --- helpers --- */

void git_doubt(struct git_survey *survey, int error, const char *path) {
        if (survey->doubt == 0 && survey_doubt(survey->err, error, path) < 0)
                survey->doubt = error;
}

bool git_look(struct git_survey *survey, const char *path, struct stat *ret) {
        if (lstat(path, ret) == 0)
                return true;
        git_doubt(survey, errno, path);
        return false;
}

char *git_read_line(struct git_survey *survey, const char *directory, const char *name) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        cleanup(buf_done) struct buf content = { 0 };
        struct str rest, line;

        int r = path ? path_read_file(path, SMALL_FILE, &content, NULL) : -ENOMEM;
        if (r < 0) {
                git_doubt(survey, -r, path ? path : directory);
                return NULL;
        }

        rest = buf_str(&content);
        if (!str_split(&rest, '\n', &line) || !line.n)
                return NULL;

        char *text = str_dup(str_trim(line));
        if (!text)
                git_doubt(survey, ENOMEM, path);

        return text;
}

char *git_lead(struct git_survey *survey, const char *base, const char *path) {
        cleanup(free_ptr) char *whole = path[0] == '/' ? strdup(path) : path_join(base, path);
        char *real = whole ? realpath(whole, NULL) : NULL;

        if (!real)
                git_doubt(survey, whole ? errno : ENOMEM, path);
        return real;
}

bool git_first_time(struct git_survey *survey, git_paths *list, const char *path) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i], path) == 0)
                        return false;

        cleanup(free_ptr) char *copy = strdup(path);
        if (!copy || vec_push(list, copy) < 0) {
                git_doubt(survey, ENOMEM, path);
                return false;
        }

        take_ptr(&copy);
        return true;
}

static void git_paths_done(git_paths *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

static bool git_same(const char *a, const char *b) {
        return a && b && strcmp(a, b) == 0;
}

/* Only paths that the sandbox could write otherwise. A read-only view of a closed path, or of any other target of a
 * link in the repository, would be a gift to the maker of the link. */
bool git_may_write(const struct git_survey *survey, const char *path) {
        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_host_access(survey->rules, path, &rule);
        if (access == PATH_DENIED && rule && rule->own)
                access = PATH_READ; /* nobody refused it, and what a worktree needs of it is laid into the own home */

        if (access == PATH_WRITE)
                return true;

        for (size_t i = 0; i < survey->granted.n && access == PATH_READ; i++)
                if (path_is_within(path, survey->granted.p[i]))
                        return true;

        return false;
}

/* --- what is closed --- */

static int add_closed(struct git_survey *survey, const char *path, enum plan_path_type type, const char *why) {
        const struct plan_path closed = {
                .path = path, .type = type, .access = PATH_READ, .protected = true, .origin = why
        };
        return survey_add(survey->host, closed, survey->err);
}

/* Each link on the way; returns as survey_way_next() when there is no other. Only what is no answer has a text. */
static int guard_links(struct git_survey *survey, struct survey_way *way, const char *why) {
        int r;

        while ((r = survey_way_next(way)) > 0) {
                const struct plan_path link = { .path = way->link,
                                                .type = PLAN_PATH_LINK,
                                                .access = PATH_READ,
                                                .protected = true,
                                                .origin = why,
                                                .link = way->text };

                if (!git_may_write(survey, way->dir))
                        continue;
                if (survey_add(survey->host, link, survey->err) < 0)
                        return -ENOMEM;
        }

        if (r < 0)
                (void)survey_doubt(survey->err, -r, way->at);

        return r;
}

static int protect_way(struct git_survey *survey, struct survey_way *way, const char *why) {
        struct stat st;
        int r = guard_links(survey, way, why);

        if (r == -ENOENT)
                return git_may_write(survey, way->end) ? add_closed(survey, way->end, PLAN_PATH_MISSING, why) : 0;
        if (r < 0)
                return path_error_answers(-r) ? 0 : r; /* it leads nowhere */
        if (!way->at[0] || !git_may_write(survey, way->at))
                return 0; /* a place that is closed anyway */
        if (stat(way->at, &st) < 0)
                return survey_doubt(survey->err, errno, way->at);

        return add_closed(survey, way->at, survey_type(&st), why);
}

/* After the run the name itself is what the sandbox made, wherever it leads. */
static int protect_name(struct git_survey *survey, const char *path, const char *why) {
        return git_may_write(survey, path) ? git_add_later(survey, path, why) : 0;
}

int git_protect(struct git_survey *survey, const char *path, const char *why) {
        struct survey_way way;

        if (survey->known)
                return protect_name(survey, path, why);

        survey_way_begin(&way, "", path);
        return protect_way(survey, &way, why);
}

int git_protect_in(struct git_survey *survey, const char *directory, const char *name, const char *why) {
        struct survey_way way;

        if (survey->known) {
                cleanup(free_ptr) char *path = path_join(directory, name);
                return path ? protect_name(survey, path, why) : no_memory(survey);
        }

        survey_way_begin(&way, directory, name);
        return protect_way(survey, &way, why);
}

/* --- one repository --- */

/* Its common directory may be elsewhere: then hooks and configuration count there. */
static int add_common(struct git_survey *survey, const char *gitdir, const char *tree) {
        cleanup(free_ptr) char *common = git_read_line(survey, gitdir, "commondir");
        cleanup(free_ptr) char *real = common ? git_lead(survey, gitdir, common) : NULL;

        return real && strcmp(real, gitdir) != 0 ? git_add_repository(survey, real, tree) : 0;
}

int git_add_settings(struct git_survey *survey, const char *gitdir, const char *tree) {
        static const char *const files[] = { "config", "config.worktree" };

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                cleanup(free_ptr) char *path = path_join(gitdir, files[i]);
                int r = path ? git_add_config(survey, path, text_or(tree, gitdir)) : no_memory(survey);
                if (r < 0)
                        return r;
        }

        return tree ? git_add_own_config(survey, tree) : 0;
}

/* The files that its configuration names, and the targets of its hooks. The repository of a submodule may be found
 * before its tree. */
static int add_named(struct git_survey *survey, const char *gitdir, const char *tree) {
        cleanup(free_ptr) char *hooks = path_join(gitdir, "hooks");
        cleanup(free_ptr) char *found = tree ? NULL : git_tree_of_module(survey, gitdir);
        int r;

        if (!hooks)
                return no_memory(survey);

        r = git_add_settings(survey, gitdir, tree ? tree : found);
        if (r < 0)
                return r;

        return git_add_hooks(survey, hooks);
}

/* Nobody but the built-in rules has said something about the file itself. */
static bool is_left_to_rules(const struct git_survey *survey, const char *path) {
        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_host_access(survey->rules, path, &rule);

        if (!rule || rule->built_in || rule->own)
                return true;
        return access == PATH_WRITE && strcmp(rule->pattern, path) != 0;
}

/* Where commits are written, git's own settings change, too: run/run_git.c makes a copy of them for the sandbox. */
static int offer_config(struct git_survey *g, const char *gitdir) {
        cleanup(free_ptr) char *objects = path_join(gitdir, "objects"), *config = path_join(gitdir, "config");
        struct stat st;

        if (!objects || !config)
                return no_memory(g);
        if (g->known || !git_may_write(g, objects) || !is_left_to_rules(g, config) || !git_look(g, config, &st))
                return 0;
        if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
                return 0;
        if (vec_push(&g->host->git_configs, config) < 0)
                return no_memory(g);

        take_ptr(&config);
        return 0;
}

bool git_is_known(const struct git_survey *survey, const char *path) {
        for (size_t i = 0; survey->known && i < survey->known->n; i++)
                if (strcmp(survey->known->p[i], path) == 0)
                        return true;
        return false;
}

int git_add_repository(struct git_survey *survey, const char *gitdir, const char *tree) {
        static const char *const closed[] = { "hooks",  "config",  "config.worktree", "commondir",
                                              "gitdir", "remotes", "branches" };
        int r = 0;

        if (!git_first_time(survey, &survey->seen, gitdir))
                return 0;

        if (survey->seen.n > GIT_REPOSITORIES_MAX) {
                survey->incomplete = true;
                return 0;
        }

        for (size_t i = 0; i < sizeof closed / sizeof *closed && r == 0 && !git_is_known(survey, gitdir); i++)
                r = git_protect_in(survey, gitdir, closed[i], git_why);

        if (r == 0)
                r = offer_config(survey, gitdir);
        if (r == 0)
                r = survey->known ? git_add_links(survey, gitdir, tree) : add_named(survey, gitdir, tree);
        if (r == 0)
                r = git_find_modules(survey, gitdir);
        if (r == 0)
                r = git_find_worktrees(survey, gitdir);
        if (r < 0)
                return r;

        return add_common(survey, gitdir, tree);
}

bool git_is_bare(struct git_survey *survey, const char *directory) {
        static const char *const parts[] = { "HEAD", "objects", "refs" };

        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                cleanup(free_ptr) char *path = path_join(directory, parts[i]);
                if (!path || access(path, F_OK) < 0) {
                        git_doubt(survey, path ? errno : ENOMEM, directory);
                        return false;
                }
        }

        return true;
}

/* After the run: a new file that points to a submodule or a worktree of an older repository is one that git makes. */
static bool is_part_of_known(const struct git_survey *survey, const char *gitdir) {
        for (size_t i = 0; i < survey->known->n; i++) {
                const char *known = survey->known->p[i];
                size_t n = strlen(known);
                bool below = strncmp(gitdir, known, n) == 0;

                if (below && (strncmp(gitdir + n, "/modules/", 9) == 0 || strncmp(gitdir + n, "/worktrees/", 11) == 0))
                        return true;
        }

        return false;
}

/* The file that says where the repository is must stay, or git would be led to another one. */
static int add_by_file(struct git_survey *survey, const char *file, const char *directory) {
        cleanup(free_ptr) char *line = git_read_line(survey, directory, ".git");
        cleanup(free_ptr) char *gitdir =
            line && strncmp(line, "gitdir: ", 8) == 0 ? git_lead(survey, directory, line + 8) : NULL;
        bool fits = gitdir && survey->known && is_part_of_known(survey, gitdir);
        int r = git_is_known(survey, file) || fits ? 0 : git_protect(survey, file, git_why);

        (void)git_first_time(survey, &survey->seen, file);
        return r == 0 && gitdir ? git_add_repository(survey, gitdir, directory) : r;
}

int git_add_tree(struct git_survey *survey, const char *directory) {
        cleanup(free_ptr) char *file = path_join(directory, ".git");
        struct stat st;

        if (!file)
                return no_memory(survey);
        if (!git_look(survey, file, &st))
                return 0;
        if (S_ISLNK(st.st_mode) && survey->known) /* a link that was there before is a guard, and put back */
                return git_is_known(survey, file) ? 0 : git_add_later(survey, file, git_why);

        if (S_ISLNK(st.st_mode)) {
                (void)git_first_time(survey, &survey->seen, file);
                struct survey_way way; /* the links alone: what they lead to is closed in parts, below */
                survey_way_begin(&way, "", file);

                int r = guard_links(survey, &way, git_why);
                if (r < 0 && !path_error_answers(-r))
                        return r;
                if (stat(file, &st) < 0)
                        return survey_doubt(survey->err, errno, file);
        }

        if (!S_ISDIR(st.st_mode))
                return add_by_file(survey, file, directory);

        cleanup(free_ptr) char *gitdir = git_lead(survey, directory, ".git");
        return gitdir ? git_add_repository(survey, gitdir, directory) : 0;
}

/* --- parts of a repository elsewhere that a commit in the workspace writes to --- */

static int grant_access(struct git_survey *survey, const char *directory, const char *name, enum path_access access,
                        const char *origin) {
        cleanup(free_ptr) char *path = name ? path_join(directory, name) : strdup(directory);
        struct stat st;

        if (!path)
                return no_memory(survey);
        if (!git_look(survey, path, &st) || !S_ISDIR(st.st_mode))
                return 0;

        const struct plan_path opened = {
                .path = path, .type = PLAN_PATH_DIR, .access = access, .grants = true, .origin = origin
        };
        if (access == PATH_WRITE)
                (void)git_first_time(survey, &survey->granted, path);

        return survey_add(survey->host, opened, survey->err);
}

static int git_grant(struct git_survey *survey, const char *directory, const char *name, const char *origin) {
        return grant_access(survey, directory, name, PATH_WRITE, origin);
}

static int grant_worktree(struct git_survey *survey, const char *gitdir, const char *common) {
        static const char *const shared[] = { "objects", "refs", "logs" };
        const struct path_rule *rule = NULL;
        int r = 0;

        /* The rest of the repository is read; with a home of its own the sandbox would not have it otherwise. */
        if (path_rules_host_access(survey->rules, common, &rule) == PATH_DENIED && rule && rule->own)
                r = grant_access(survey, common, NULL, PATH_READ, "the workspace's git worktree");
        if (r == 0)
                r = git_grant(survey, gitdir, NULL, "the workspace's git worktree");

        for (size_t i = 0; i < sizeof shared / sizeof *shared && r == 0; i++)
                r = git_grant(survey, common, shared[i], "the workspace's git worktree");

        return r;
}

static int find_worktree(const struct gitconfig_setting *setting, void *context) {
        char **value = context;

        if (!str_is(setting->section, "core") || !str_is(setting->key, "worktree") || !setting->value.p)
                return 0;
        free(*value);
        *value = str_dup(setting->value); /* the last one counts */
        return 0;
}

/* Where the configuration of a submodule says that its working tree is. */
char *git_tree_of_module(struct git_survey *survey, const char *gitdir) {
        cleanup(free_ptr) char *path = path_join(gitdir, "config"), *value = NULL;
        cleanup(buf_done) struct buf content = { 0 };

        int r = path ? path_read_file(path, GIT_FILE_SIZE_MAX, &content, NULL) : -ENOMEM;
        if (r < 0) {
                git_doubt(survey, -r, path ? path : gitdir);
                return NULL;
        }

        (void)gitconfig_read(buf_str(&content), find_worktree, &value, NULL);
        return value ? git_lead(survey, gitdir, value) : NULL;
}

/* `.git` as a file: where it leads, if that place agrees. */
static int grant_elsewhere(struct git_survey *survey, const char *file) {
        const char *workspace = survey->policy->workspace;
        cleanup(free_ptr) char *line = git_read_line(survey, workspace, ".git");
        if (!line || strncmp(line, "gitdir: ", 8) != 0)
                return 0;

        cleanup(free_ptr) char *gitdir = git_lead(survey, workspace, line + 8);
        if (!gitdir)
                return 0;

        cleanup(free_ptr) char *back = git_read_line(survey, gitdir, "gitdir");
        cleanup(free_ptr) char *back_real = back ? git_lead(survey, gitdir, back) : NULL;
        cleanup(free_ptr) char *common = git_read_line(survey, gitdir, "commondir");
        cleanup(free_ptr) char *common_real = common ? git_lead(survey, gitdir, common) : NULL;
        cleanup(free_ptr) char *trees = common_real ? path_join(common_real, "worktrees") : NULL;

        if (trees && path_is_within(gitdir, trees))
                return git_same(back_real, file) ? grant_worktree(survey, gitdir, common_real) : 0;

        cleanup(free_ptr) char *tree = common ? NULL : git_tree_of_module(survey, gitdir);
        return git_same(tree, workspace) ? git_grant(survey, gitdir, NULL, "the workspace's git submodule") : 0;
}

static int grant_parts(struct git_survey *survey) {
        cleanup(free_ptr) char *file = path_join(survey->policy->workspace, ".git");
        struct stat st;

        if (!file)
                return no_memory(survey);
        return git_look(survey, file, &st) && S_ISREG(st.st_mode) ? grant_elsewhere(survey, file) : 0;
}

/* --- the roots --- */

/* Git outside works in the repositories above as well, and their configuration may name a place in the root. */
static int add_above(struct git_survey *survey, const char *root) {
        cleanup(free_ptr) char *above = strdup(root);
        int r = 0;

        if (!above)
                return no_memory(survey);

        for (char *slash; r == 0 && (slash = strrchr(above, '/'));) {
                *slash = '\0';
                r = git_add_tree(survey, above[0] ? above : "/");
        }

        return r;
}

/* The workspace itself may be a repository without a working tree. One that is not cannot become one: git would take it
 * for that, with whatever configuration is found in it, and the file HEAD, which it needs, is protected
 * (policy/paths/paths_protected.c). */
static int add_root(struct git_survey *survey, const char *root) {
        int r = git_add_tree(survey, root);

        if (r == 0 && git_is_bare(survey, root))
                r = git_add_repository(survey, root, NULL);
        if (r == 0 && !survey->known)
                r = git_add_own_config(survey, root);
        if (r == 0 && !survey->known)
                r = add_above(survey, root);
        if (r < 0)
                return r;

        return git_find_below(survey, root);
}

static bool is_inner_root(const struct plan_host *host, size_t count, size_t i) {
        for (size_t j = 0; j < count; j++) {
                const struct plan_path *other = &host->paths.p[j];
                bool wider = other->grants && other->access == PATH_WRITE && other->type == PLAN_PATH_DIR && j != i &&
                             path_is_within(host->paths.p[i].path, other->path);

                if (wider && (j < i || strcmp(host->paths.p[i].path, other->path) != 0))
                        return true;
        }

        return false;
}

static int add_roots(struct git_survey *survey, size_t count) {
        for (size_t i = 0; i < count; i++) {
                const struct plan_path *root = &survey->host->paths.p[i];

                if (!root->grants || root->access != PATH_WRITE || root->type != PLAN_PATH_DIR ||
                    is_inner_root(survey->host, count, i))
                        continue;

                cleanup(free_ptr) char *path = strdup(root->path); /* the list grows */
                int r = path ? add_root(survey, path) : no_memory(survey);
                if (r < 0)
                        return r;
        }

        return 0;
}

int survey_git(const struct policy *policy, const struct path_rules *rules, struct plan_host *host, struct err *err) {
        struct git_survey survey = { .policy = policy, .rules = rules, .host = host, .err = err };
        size_t count = host->paths.n;

        if (policy->mode == MODE_READ_ONLY || !policy->workspace)
                return 0;

        int r = grant_parts(&survey);
        if (r == 0)
                r = add_roots(&survey, count);

        host->git_incomplete = survey.incomplete;
        host->git_known.p = (const char **)survey.seen.p; /* the survey's owner frees them */
        host->git_known.n = survey.seen.n;
        host->git_known.cap = survey.seen.cap;
        host->git_files.p = survey.files.p;
        host->git_files.n = survey.files.n;
        host->git_files.cap = survey.files.cap;
        host->git_hooks.p = survey.hooks.p;
        host->git_hooks.n = survey.hooks.n;
        host->git_hooks.cap = survey.hooks.cap;
        host->git_trees.p = survey.trees.p;
        host->git_trees.n = survey.trees.n;
        host->git_trees.cap = survey.trees.cap;
        git_paths_done(&survey.plain);
        git_paths_done(&survey.granted);

        return r == 0 ? -survey.doubt : r;
}

int survey_git_after(const struct policy *policy, const struct path_rules *rules, const struct plan_host *before,
                     uint64_t began_us, bool noted, struct plan_host *ret, struct err *err) {
        git_paths known = { .p = (char **)before->git_known.p, .n = before->git_known.n };
        struct git_survey survey = { .policy = policy,
                                     .rules = rules,
                                     .host = ret,
                                     .err = err,
                                     .known = &known,
                                     .known_partly = before->git_incomplete && noted,
                                     .began_us = began_us };
        int r = 0;

        if (policy->mode == MODE_READ_ONLY || !policy->workspace)
                return 0;

        for (size_t i = 0; i < before->paths.n && r == 0; i++)
                if (before->paths.p[i].grants && before->paths.p[i].access == PATH_WRITE)
                        r = survey_add(ret, before->paths.p[i], err);

        if (r == 0)
                r = add_roots(&survey, ret->paths.n);

        ret->git_known.p = (const char **)survey.seen.p;
        ret->git_known.n = survey.seen.n;
        ret->git_known.cap = survey.seen.cap;
        git_paths_done(&survey.files);
        git_paths_done(&survey.hooks);
        git_paths_done(&survey.plain);
        git_paths_done(&survey.trees);
        git_paths_done(&survey.granted);

        return r == 0 ? -survey.doubt : r;
}
