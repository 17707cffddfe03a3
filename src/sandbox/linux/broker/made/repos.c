/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/made/repos.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWN_MAX = 1024 }; /* objects that are held; the oldest goes first, and is closed from then on */

struct own {
        dev_t dev;
        ino_t ino;
        int held; /* O_PATH, so that the number is not used again; -1: none */
};

struct repos {
        VEC(const char *) roots;
        struct own own[OWN_MAX];
        size_t n_own; /* that were ever learned */
        struct notes *notes;
};

/* --- names --- */

/* In any case: some file systems take one for the other, and so does git there. */
static bool is_one_of(const char *name, const char *const *names, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (strcasecmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* What git runs, obeys, or is led elsewhere by, in the directory of a repository. */
static bool is_closed_name(const char *name) {
        static const char *const names[] = { "config", "hooks",   "config.worktree", "commondir",
                                             "gitdir", "remotes", "branches" };
        return is_one_of(name, names, sizeof names / sizeof *names);
}

/* With these a directory becomes a repository. */
static bool is_founding_name(const char *name) {
        static const char *const names[] = { "HEAD", "objects", "refs", "commondir" };
        return is_one_of(name, names, sizeof names / sizeof *names);
}

static const char *last_name(const char *path) {
        const char *slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
}

/* The directory of the path; false at the root, or where it is too long. */
static bool cut_last(const char *path, char ret[static PATH_MAX]) {
        const char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : 0;

        if (n == 0 || n >= PATH_MAX)
                return false;

        memcpy(ret, path, n);
        ret[n] = '\0';

        return true;
}

static bool has_name(const char *directory, const char *name) {
        char path[PATH_MAX];
        struct stat st;

        if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
                return true; /* what cannot be looked at is closed */
        return lstat(path, &st) == 0 || !path_error_answers(errno);
}

/* Whether git would obey the directory, were this name not in it (NULL: with all that is there): as a repository, or as
 * the common part of one, which needs no HEAD of its own. */
static bool is_repository(const char *directory, const char *without) {
        static const char *const names[] = { "HEAD", "objects", "refs", "commondir" };
        enum { HEAD, OBJECTS, REFS, COMMONDIR, NAMES };
        bool has[NAMES];

        for (size_t i = 0; i < NAMES; i++)
                has[i] = !(without && strcasecmp(without, names[i]) == 0) && has_name(directory, names[i]);
        return (has[HEAD] && (has[OBJECTS] || has[COMMONDIR])) || (has[OBJECTS] && has[REFS]);
}

/* --- what is the sandbox's own --- */

static bool is_own(const struct repos *repos, const char *path) {
        size_t n = min_of(repos->n_own, OWN_MAX);
        struct stat st;

        if (lstat(path, &st) < 0)
                return false;

        for (size_t i = 0; i < n; i++)
                if (repos->own[i].held >= 0 && repos->own[i].ino == st.st_ino && repos->own[i].dev == st.st_dev)
                        return true;

        return false;
}

static void learn_own(struct repos *repos, const char *path) {
        struct own *slot = &repos->own[repos->n_own % OWN_MAX];
        struct stat st;

        if (is_own(repos, path))
                return;

        int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
                close_fd(&fd);
                return;
        }

        if (repos->n_own >= OWN_MAX)
                close_fd(&slot->held);

        *slot = (struct own){ st.st_dev, st.st_ino, fd };
        repos->n_own++;
}

/* --- for the broker --- */

void repos_free(struct repos *r) {
        if (!r)
                return;

        for (size_t i = 0; i < r->n_own && i < OWN_MAX; i++)
                close_fd(&r->own[i].held);

        vec_done(&r->roots);
        free(r);
}

void repos_freep(struct repos **r) {
        repos_free(*r);
        *r = NULL;
}

bool repos_cover(const struct repos *repos, const char *path) {
        for (size_t i = 0; i < repos->roots.n; i++)
                if (path_is_within(path, repos->roots.p[i]))
                        return true;
        return false;
}

int repos_new(const struct plan *plan, struct notes *notes, struct repos **ret) {
        cleanup(repos_freep) struct repos *r = calloc(1, sizeof *r);

        if (!r)
                return -ENOMEM;

        r->notes = notes;
        for (size_t i = 0; i < plan->guards.n; i++) {
                const char *root = plan->guards.p[i].root;
                if (root && root[0] == '/' && root[1] && !repos_cover(r, root) && vec_push(&r->roots, root) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(&r);
        return 0;
}

/* A `.git` file or link leads git elsewhere. The directory is judged by what is in it. */
static bool is_foreign_pointer(const struct repos *repos, const char *path) {
        struct stat st;

        if (lstat(path, &st) < 0)
                return !path_error_answers(errno);
        return !S_ISDIR(st.st_mode) && !is_own(repos, path);
}

bool repos_founds(const char *name) {
        return strcasecmp(name, ".git") == 0 || is_founding_name(name);
}

static int judge_covered(const struct repos *repos, const char *path, const char *name) {
        char directory[PATH_MAX], above[PATH_MAX];

        if (!cut_last(path, directory))
                return 0;
        if (repos_founds(name) && notes_are_full(repos->notes, NOTE_REPOSITORY))
                return -EDQUOT;
        if (strcasecmp(name, ".git") == 0) {
                if (is_foreign_pointer(repos, path))
                        return -EACCES;
                return 0;
        }
        if (is_closed_name(name)) {
                if (is_repository(directory, NULL) && !is_own(repos, directory))
                        return -EACCES;
                return 0;
        }
        if (repos_founds(name) || !cut_last(directory, above))
                return 0;

        if (is_repository(above, NULL) && !is_own(repos, above))
                return -EACCES;

        return 0;
}

/* A file in one of the directories that git runs or reads orders from. */
static bool is_in_part(const char *path, const char *name) {
        static const char *const parts[] = { "/hooks/", "/remotes/", "/branches/" };
        struct str above = str_n(path, (size_t)(name - path));

        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
                if (str_ends(above, str_of(parts[i])))
                        return true;
        return false;
}

int repos_judge(const struct repos *repos, const char *path) {
        const char *name = last_name(path);
        bool closed = is_closed_name(name), founds = repos_founds(name);

        if (!closed && !founds && !is_in_part(path, name))
                return 0; /* nearly always */
        if (repos_cover(repos, path))
                return judge_covered(repos, path, name);

        return 0;
}

/* What a name like this makes a repository of, unless it is one without; false: nothing. */
static bool find_founded(const struct repos *repos, const char *path, bool replaced, char ret[static PATH_MAX]) {
        const char *name = last_name(path);

        if (!repos_founds(name) || !repos_cover(repos, path))
                return false;
        if (strcasecmp(name, ".git") == 0)
                return snprintf(ret, PATH_MAX, "%s", path) < PATH_MAX;
        return cut_last(path, ret) && !is_repository(ret, replaced ? NULL : name);
}

int repos_founding(struct repos *repos, const char *path) {
        char founded[PATH_MAX];
        struct stat st;

        if (!find_founded(repos, path, false, founded) || lstat(path, &st) == 0)
                return 0; /* existing files stay, or are judged by their identity */
        return notes_add(repos->notes, NOTE_REPOSITORY, founded);
}

void repos_made(struct repos *repos, const char *path, bool replaced) {
        char founded[PATH_MAX];

        if (!find_founded(repos, path, replaced, founded))
                return;
        learn_own(repos, founded);
        if (notes_add(repos->notes, NOTE_REPOSITORY, founded) < 0)
                notes_lose(repos->notes);
}
