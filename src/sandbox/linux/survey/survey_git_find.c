/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories that are not at the top of a root. Below it: a walk in breadth, by names alone, through as many
 * directories as a launch can afford; directories that package managers and builds fill are skipped. Behind a
 * repository: the directories of its submodules, whose names may have slashes, and those of its worktrees.
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/cleanup.h"
#include "base/files/listing.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_BYTES = 4096 }; /* up to this size of a directory a listing costs no more than looking for names */

static int no_memory(const struct git_survey *survey) {
        return err_set(survey->err, ENOMEM, "out of memory");
}

/* Filled by tools, large, and nobody's working directory. */
static bool is_left_out(const char *name) {
        static const char *const names[] = { ".git",   "node_modules", ".venv",  "venv",        "__pycache__",
                                             "target", ".tox",         ".cache", ".mypy_cache", ".terraform" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* What one look into a directory tells. */
struct looked {
        git_paths below; /* directories, by full path */
        bool has_git, has_head, has_objects, has_refs;
};

static void looked_done(struct looked *l) {
        for (size_t i = 0; i < l->below.n; i++)
                free(l->below.p[i]);
        vec_done(&l->below);
}

static bool is_directory(int dir, const struct dirent64 *entry) {
        struct stat st;

        if (entry->d_type != DT_UNKNOWN)
                return entry->d_type == DT_DIR;
        return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int list_entry(struct looked *l, const char *path, int dir, const struct dirent64 *entry) {
        const char *name = entry->d_name;

        l->has_git |= strcasecmp(name, ".git") == 0; /* the same where names are not told apart by case */
        l->has_head |= strcmp(name, "HEAD") == 0;
        l->has_objects |= strcmp(name, "objects") == 0;
        l->has_refs |= strcmp(name, "refs") == 0;

        if (is_left_out(name) || !is_directory(dir, entry))
                return 0;

        cleanup(free_ptr) char *below = path_join(path, name);
        if (!below || vec_push(&l->below, below) < 0)
                return -ENOMEM;

        take_ptr(&below);
        return 0;
}

/*
 * A large directory without directories in it, which is most of what large workspaces have: to list it would only tell
 * whether two names are there. Some file systems count a directory's directories in its links. Most of them are in one
 * file system, which is asked once.
 */
static bool has_no_directories(struct git_survey *survey, int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0 || st.st_nlink != 2 || st.st_size <= LISTED_BYTES)
                return false;

        if (!survey->device_known || survey->device != st.st_dev) {
                survey->counts_directories = survey_counts_directories(fd);
                survey->device = st.st_dev;
                survey->device_known = true;
        }

        return survey->counts_directories;
}

/* True: it is clear without a listing. */
static bool look_for_names(struct git_survey *survey, int fd, struct looked *ret) {
        struct stat st;

        if (!has_no_directories(survey, fd))
                return false;

        /* A bare repository may have links where it has directories otherwise: that is worth a listing. */
        if (fstatat(fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
                return false;

        ret->has_git = fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0;
        return ret->has_git || errno == ENOENT;
}

static int list_directory(struct git_survey *survey, const char *path, struct looked *ret) {
        int fd = path_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, PATH_NO_SYMLINKS);
        if (fd < 0)
                return survey_doubt(survey->err, -fd, path); /* what cannot be read here cannot be read by git either */

        if (look_for_names(survey, fd, ret)) {
                close(fd);
                return 0;
        }

        cleanup(listing_close) struct listing *listing = listing_take(fd);
        int r = listing ? 0 : -ENOMEM;

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(listing));)
                r = list_entry(ret, path, listing_fd(listing), entry);

        if (r < 0)
                return no_memory(survey);

        if (listing_error(listing))
                return survey_doubt(survey->err, listing_error(listing), path);

        return 0;
}

static int look_into(struct git_survey *survey, const char *path, bool top, git_paths *queue) {
        cleanup(looked_done) struct looked found = { 0 };
        int r = list_directory(survey, path, &found);
        bool bare = found.has_head && found.has_objects && found.has_refs;

        if (r == 0 && found.has_git && !top)
                r = git_add_tree(survey, path);
        if (r == 0 && bare && !top)
                return git_add_repository(survey, path, NULL); /* its inside is not searched */

        for (size_t i = 0; i < found.below.n && r == 0; i++) {
                if (vec_push(queue, found.below.p[i]) < 0)
                        return no_memory(survey);
                found.below.p[i] = NULL;
        }

        return r;
}

int git_find_below(struct git_survey *survey, const char *root) {
        git_paths queue = { 0 };
        int r = look_into(survey, root, true, &queue);

        for (size_t i = 0; i < queue.n && r == 0; i++) {
                if (survey->looks++ >= GIT_LOOKS_MAX) {
                        survey->incomplete = true;
                        break;
                }

                r = look_into(survey, queue.p[i], false, &queue);
        }

        for (size_t i = 0; i < queue.n; i++)
                free(queue.p[i]);

        vec_done(&queue);
        return r;
}

/* A directory with a HEAD is a submodule's repository; one without is a part of its name. */
static int add_module(struct git_survey *survey, const char *path, git_paths *queue) {
        cleanup(looked_done) struct looked found = { 0 };

        int r = list_directory(survey, path, &found);
        if (r < 0)
                return r;
        if (found.has_head)
                return git_add_repository(survey, path, NULL);

        for (size_t i = 0; i < found.below.n; i++) {
                if (vec_push(queue, found.below.p[i]) < 0)
                        return no_memory(survey);
                found.below.p[i] = NULL;
        }

        return 0;
}

int git_find_modules(struct git_survey *survey, const char *gitdir) {
        cleanup(free_ptr) char *modules = path_join(gitdir, "modules");
        cleanup(looked_done) struct looked top = { 0 };
        git_paths queue = { 0 };
        int r = modules ? list_directory(survey, modules, &top) : no_memory(survey);

        for (size_t i = 0; i < top.below.n && r == 0; i++)
                r = add_module(survey, top.below.p[i], &queue);

        for (size_t i = 0; i < queue.n && r == 0; i++) {
                if (survey->module_looks++ >= GIT_MODULE_LOOKS_MAX) {
                        survey->incomplete = true;
                        break;
                }

                r = add_module(survey, queue.p[i], &queue);
        }

        for (size_t i = 0; i < queue.n; i++)
                free(queue.p[i]);

        vec_done(&queue);
        return r;
}

/* One that the sandbox made. Where it says that the repository is must be the repository that it belongs to. */
static int add_new_worktree(struct git_survey *survey, const char *path) {
        static const char *const closed[] = { "config.worktree", "hooks", "config" };
        cleanup(free_ptr) char *common = git_read_line(survey, path, "commondir");
        cleanup(free_ptr) char *leads = common ? git_lead(survey, path, common) : NULL;
        cleanup(free_ptr) char *own = git_lead(survey, path, "../..");
        int r = 0;

        if (!leads || !own || strcmp(leads, own) != 0)
                r = git_protect_in(survey, path, "commondir", git_why);

        for (size_t i = 0; i < sizeof closed / sizeof *closed && r == 0; i++)
                r = git_protect_in(survey, path, closed[i], git_why);

        return r;
}

/* Where it works, the configuration of the repository names its own files. `file` is the .git file there. */
static int add_tree_of(struct git_survey *survey, const char *path, const char *common, const char *file) {
        cleanup(free_ptr) char *tree = strdup(file);
        char *slash = tree ? strrchr(tree, '/') : NULL;
        int r;

        if (!slash)
                return no_memory(survey);

        slash[slash == tree] = '\0';
        r = git_add_settings(survey, common, tree);
        if (r < 0)
                return r;

        return git_add_settings(survey, path, tree);
}

/* A worktree may lie outside every root: git there obeys what stands in this directory all the same. */
static int add_worktree(struct git_survey *survey, const char *path, const char *common) {
        static const char *const closed[] = { "gitdir", "commondir", "config.worktree", "hooks", "config" };
        cleanup(free_ptr) char *file = git_read_line(survey, path, "gitdir");
        int r = 0;

        (void)git_first_time(survey, &survey->seen, path);
        if (survey->known) {
                if (git_is_known(survey, path))
                        return 0;
                return add_new_worktree(survey, path);
        }

        for (size_t i = 0; i < sizeof closed / sizeof *closed && r == 0; i++)
                r = git_protect_in(survey, path, closed[i], git_why);

        if (r == 0 && file && file[0] == '/')
                r = git_protect(survey, file, git_why); /* the .git file there, which says where this is */
        if (r == 0 && file && file[0] == '/')
                r = add_tree_of(survey, path, common, file);

        return r;
}

int git_find_worktrees(struct git_survey *survey, const char *gitdir) {
        cleanup(free_ptr) char *worktrees = path_join(gitdir, "worktrees");
        cleanup(looked_done) struct looked found = { 0 };
        int r = worktrees ? list_directory(survey, worktrees, &found) : no_memory(survey);

        for (size_t i = 0; i < found.below.n && r == 0; i++) {
                if (i >= GIT_REPOSITORIES_MAX) {
                        survey->incomplete = true;
                        break;
                }

                r = add_worktree(survey, found.below.p[i], gitdir);
        }

        return r;
}
