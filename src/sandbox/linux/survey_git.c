/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace may be a worktree or a submodule: then `.git` is a file that names a directory elsewhere, and a commit
 * writes there. Those directories are granted, so that git works, but only if they agree: a worktree's directory names
 * the workspace in its `gitdir` file, a submodule's in its configuration. A `.git` file alone grants nothing, since
 * whoever wrote the workspace could have made it.
 *
 * What git would run or obey there (hooks, configuration, where the rest of the repository is) stays closed.
 */
#include "sandbox/linux/survey.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <errno.h>
#include <sys/stat.h>

enum { SMALL_FILE = 65536 };

struct repository {
        const struct policy *policy;
        const struct path_rules *rules;
        struct plan_host *h;
        struct err *e;
};

/* One trimmed line of a small file; NULL when there is none. */
static char *read_line(const char *directory, const char *name) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        cleanup(buf_done) struct buf content = { 0 };
        struct str rest, line;
        if (!path || path_read_file(path, SMALL_FILE, &content, NULL) < 0)
                return NULL;
        rest = buf_str(&content);
        return str_split(&rest, '\n', &line) && line.n ? str_dup(str_trim(line)) : NULL;
}

/* Where a path written in a file of `base` leads, or NULL. */
static char *lead(const char *base, const char *path) {
        cleanup(free_ptr) char *whole = path[0] == '/' ? strdup(path) : path_join(base, path);
        return whole ? realpath(whole, NULL) : NULL;
}

static bool same(const char *a, const char *b) {
        return a && b && strcmp(a, b) == 0;
}

static int grant(const struct repository *g, const char *directory, const char *name, const char *origin) {
        cleanup(free_ptr) char *path = name ? path_join(directory, name) : strdup(directory);
        struct stat st;
        if (!path)
                return err_set(g->e, ENOMEM, "out of memory");
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;
        return survey_add(
            g->h,
            (struct plan_path){
                .path = path, .type = PLAN_PATH_DIR, .access = PATH_WRITE, .grants = true, .origin = origin },
            g->e);
}

/* The path with links resolved, as far as it exists: the nearest existing directory, and the rest as it is spelled. */
static char *resolve(const char *path) {
        char *real = realpath(path, NULL);
        const char *slash = strrchr(path, '/');
        if (real || slash == path)
                return real ? real : strdup(path);
        cleanup(free_ptr) char *parent = str_dup(str_n(path, (size_t)(slash - path)));
        cleanup(free_ptr) char *parent_real = parent ? resolve(parent) : NULL;
        return parent_real ? path_join(parent_real, slash + 1) : NULL;
}

/* Only what the sandbox could write otherwise. A read-only view of what is closed, or of anything else that a link in
 * the repository leads to, would be a gift to whoever made the link. */
static bool needs_protection(const struct repository *g, const char *directory, const char *real) {
        enum path_access access = path_rules_access(g->rules, real, NULL);
        return access == PATH_WRITE || (access == PATH_READ && path_is_within(real, directory));
}

static int protect(const struct repository *g, const char *directory, const char *const *names) {
        int r = 0;
        for (; *names && r == 0; names++) {
                cleanup(free_ptr) char *path = path_join(directory, *names);
                cleanup(free_ptr) char *real = path ? resolve(path) : NULL;
                struct stat st;
                if (!real)
                        return err_set(g->e, ENOMEM, "out of memory");
                bool there = stat(real, &st) == 0;
                if (needs_protection(g, directory, real) && (there || lstat(real, &st) < 0))
                        r = survey_add(g->h,
                                       (struct plan_path){ .path = real,
                                                           .type = !there                ? PLAN_PATH_MISSING
                                                                   : S_ISDIR(st.st_mode) ? PLAN_PATH_DIR
                                                                                         : PLAN_PATH_FILE,
                                                           .access = PATH_READ,
                                                           .protected = true,
                                                           .origin = "built in: git runs what it says, outside too" },
                                       g->e);
        }
        return r;
}

static int add_worktree(const struct repository *g, const char *gitdir, const char *common) {
        static const char *const closed[] = { "gitdir", "commondir", "config.worktree", "hooks", "config", NULL };
        static const char *const shared[] = { "objects", "refs", "logs", NULL };
        int r = grant(g, gitdir, NULL, "the workspace's git worktree");
        for (const char *const *name = shared; *name && r == 0; name++)
                r = grant(g, common, *name, "the workspace's git worktree");
        return r < 0 ? r : protect(g, gitdir, closed);
}

static int add_submodule(const struct repository *g, const char *gitdir) {
        static const char *const closed[] = { "hooks", "config", "config.worktree", "commondir", NULL };
        int r = grant(g, gitdir, NULL, "the workspace's git submodule");
        return r < 0 ? r : protect(g, gitdir, closed);
}

/* A value of the section [core], as git itself writes it. */
static char *core_setting(const char *gitdir, struct str name) {
        cleanup(free_ptr) char *path = path_join(gitdir, "config");
        cleanup(buf_done) struct buf content = { 0 };
        struct str rest, line, key;
        if (!path || path_read_file(path, SMALL_FILE, &content, NULL) < 0)
                return NULL;
        bool core = false;
        for (rest = buf_str(&content); str_split(&rest, '\n', &line);) {
                line = str_trim(line);
                if (line.n && line.p[0] == '[')
                        core = str_eq_nocase(line, STR("[core]"));
                else if (core && str_split(&line, '=', &key) && str_eq_nocase(str_trim(key), name))
                        return str_dup(str_trim(line));
        }
        return NULL;
}

/* Hooks that the configuration keeps elsewhere: in the workspace they would be the program's to write. */
static int add_hooks_path(const struct repository *g, const char *gitdir) {
        const struct policy *policy = g->policy;
        cleanup(free_ptr) char *setting = core_setting(gitdir, STR("hooksPath"));
        cleanup(free_ptr) char *path = NULL;
        if (!setting || path_normalise(str_of(setting), policy->workspace, &path) < 0)
                return 0;
        if (!path_is_within(path, policy->workspace) || strcmp(path, policy->workspace) == 0)
                return 0;
        const char *const names[] = { path + strlen(policy->workspace) + 1, NULL };
        return protect(g, policy->workspace, names);
}

/* The workspace itself may be a repository without a working tree. One that is not cannot become one: git would take it
 * for that, with whatever configuration is found in it, and the file HEAD, which it needs, is protected
 * (policy/paths_builtin.c). */
static int add_bare(const struct repository *g) {
        const struct policy *policy = g->policy;
        static const char *const parts[] = { "HEAD", "objects", "refs" };
        static const char *const closed[] = { "config", "config.worktree", "hooks", "commondir", NULL };
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                cleanup(free_ptr) char *path = path_join(policy->workspace, parts[i]);
                struct stat st;
                if (!path || lstat(path, &st) < 0)
                        return 0;
        }
        return protect(g, policy->workspace, closed);
}

/* `.git` as a file: where it leads, if that place agrees. */
static int add_elsewhere(const struct repository *g, const char *file) {
        const struct policy *policy = g->policy;
        cleanup(free_ptr) char *line = read_line(policy->workspace, ".git");
        if (!line || strncmp(line, "gitdir: ", 8) != 0)
                return 0;
        cleanup(free_ptr) char *gitdir = lead(policy->workspace, line + 8);
        if (!gitdir)
                return 0;
        cleanup(free_ptr) char *back = read_line(gitdir, "gitdir");
        cleanup(free_ptr) char *back_real = back ? lead(gitdir, back) : NULL;
        cleanup(free_ptr) char *common = read_line(gitdir, "commondir");
        cleanup(free_ptr) char *common_real = common ? lead(gitdir, common) : NULL;
        cleanup(free_ptr) char *trees = common_real ? path_join(common_real, "worktrees") : NULL;
        int r = add_hooks_path(g, common_real ? common_real : gitdir);
        if (r < 0)
                return r;
        if (trees && path_is_within(gitdir, trees))
                return same(back_real, file) ? add_worktree(g, gitdir, common_real) : 0;
        cleanup(free_ptr) char *tree = common ? NULL : core_setting(gitdir, STR("worktree"));
        cleanup(free_ptr) char *tree_real = tree ? lead(gitdir, tree) : NULL;
        return same(tree_real, policy->workspace) ? add_submodule(g, gitdir) : 0;
}

int survey_git(const struct policy *policy, const struct path_rules *rules, struct plan_host *h, struct err *e) {
        const struct repository g = { policy, rules, h, e };
        if (policy->mode == MODE_READ_ONLY || !policy->workspace)
                return 0;
        cleanup(free_ptr) char *file = path_join(policy->workspace, ".git");
        struct stat st;
        if (!file)
                return err_set(e, ENOMEM, "out of memory");
        if (lstat(file, &st) < 0)
                return add_bare(&g);
        return S_ISREG(st.st_mode) ? add_elsewhere(&g, file) : add_hooks_path(&g, file);
}
