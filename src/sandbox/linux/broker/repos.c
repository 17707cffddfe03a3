/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/repos.h"

#include "base/bounds.h"
#include "base/buf.h"
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

enum {
        OWN_MAX = 1024,       /* objects that are held; the oldest goes first, and is closed from then on */
        MADE_MAX = 4096,      /* repositories that one run may make */
        RECORD_MAX = 8 << 20, /* bytes of their paths */
};

struct own {
        dev_t dev;
        ino_t ino;
        int held; /* O_PATH, so that the number is not used again; -1: none */
};

struct repos {
        VEC(const char *) roots;
        struct own own[OWN_MAX];
        size_t n_own; /* that were ever learned */
        VEC(char *) made;
        size_t bytes; /* of these paths */
        int record;
        off_t base; /* where the notes begin in it */
        bool lost;  /* a note that should be there is not: from then on nothing is founded or moved */
        bool stale; /* more is noted than there is, for lack of room: the list has to be written anew */
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

/* --- the record --- */

static int write_at(int fd, const struct buf *bytes, off_t at) {
        for (size_t done = 0; done < bytes->n;) {
                ssize_t n = pwrite(fd, bytes->p + done, bytes->n - done, at + (off_t)done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n <= 0)
                        return -EIO;

                done += (size_t)n;
        }

        return 0;
}

static int add_note(struct buf *out, const char *path) {
        static const char kind[] = "made";
        int r = buf_append(out, str_n(kind, sizeof kind));

        if (r < 0)
                return r;

        return buf_append(out, str_n(path, strlen(path) + 1));
}

/* At the end, or not at all: a full disk may take a part of it. */
static int write_more(const struct repos *repos, const struct buf *notes) {
        struct stat st;

        if (repos->record < 0 || notes->n == 0)
                return 0;
        if (fstat(repos->record, &st) < 0)
                return -errno;

        int failed = write_at(repos->record, notes, st.st_size);
        if (failed && ftruncate(repos->record, st.st_size) < 0)
                return -errno;

        return failed;
}

/* All of it, from its beginning: paths have changed. This process may be killed at any byte, and where a path has
 * become longer the ones behind it are written over before they stand in their new place. So the list is at the end
 * first: it is as long as what is there at most, and does not reach that far. Without room for that the record stays:
 * it has the old paths and the new ones. */
static void write_all(struct repos *repos) {
        cleanup(buf_done) struct buf bytes = BUF(2 * RECORD_MAX);
        int failed = 0;

        for (size_t i = 0; i < repos->made.n && failed == 0; i++)
                failed = add_note(&bytes, repos->made.p[i]);

        if (repos->record < 0)
                return;
        if (failed == 0)
                failed = write_more(repos, &bytes);

        repos->stale = failed;
        if (failed)
                return;
        if (write_at(repos->record, &bytes, repos->base) < 0) {
                repos->lost = true;
                return;
        }

        if (ftruncate(repos->record, repos->base + (off_t)bytes.n) < 0)
                return;
}

static bool is_noted(const struct repos *repos, const char *path) {
        for (size_t i = repos->made.n; i-- > 0;)
                if (strcmp(repos->made.p[i], path) == 0)
                        return true;
        return false;
}

static int repos_note(struct repos *r, const char *path) {
        cleanup(buf_done) struct buf bytes = BUF(2 * PATH_MAX);
        cleanup(free_ptr) char *copy = strdup(path);
        int failed;

        if (is_noted(r, path))
                return 0;
        if (r->stale)
                write_all(r);

        if (copy)
                failed = add_note(&bytes, path);
        else
                failed = -ENOMEM;
        if (failed == 0)
                failed = vec_push(&r->made, copy);
        if (failed)
                return failed;

        take_ptr(&copy);
        r->bytes += strlen(path);
        failed = write_more(r, &bytes);
        if (failed) {
                r->bytes -= strlen(path);
                free(r->made.p[--r->made.n]);
        }

        return failed;
}

/* --- for the broker --- */

void repos_free(struct repos *r) {
        if (!r)
                return;

        for (size_t i = 0; i < r->n_own && i < OWN_MAX; i++)
                close_fd(&r->own[i].held);

        for (size_t i = 0; i < r->made.n; i++)
                free(r->made.p[i]);

        vec_done(&r->made);
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

int repos_new(const struct plan *plan, int record, struct repos **ret) {
        cleanup(repos_freep) struct repos *r = calloc(1, sizeof *r);
        struct stat st;

        if (!r)
                return -ENOMEM;

        r->record = record;
        if (record >= 0 && fstat(record, &st) == 0)
                r->base = st.st_size;

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
        if (repos_founds(name) && (repos->lost || repos->made.n >= MADE_MAX || repos->bytes >= RECORD_MAX))
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
        return repos_note(repos, founded);
}

void repos_made(struct repos *repos, const char *path, bool replaced) {
        char founded[PATH_MAX];

        if (!find_founded(repos, path, replaced, founded))
                return;
        learn_own(repos, founded);
        if (repos_note(repos, founded) < 0)
                repos->lost = true;
}

/* The same path, with one directory in place of the other. */
static char *repos_carry(const char *path, const char *from, const char *to) {
        if (!path_is_within(path, from))
                return NULL;
        return str_format("%s%s", to, path + strlen(from));
}

static bool is_carried(const char *path, const char *from, const char *to, bool exchanged) {
        return path_is_within(path, from) || (exchanged && path_is_within(path, to));
}

static char *carry_either(const char *path, const char *from, const char *to) {
        return path_is_within(path, from) ? repos_carry(path, from, to) : repos_carry(path, to, from);
}

/* The new paths are noted beside the old ones before anything moves: whenever this process ends, the record has the
 * place of every repository. */
int repos_moving(struct repos *repos, const char *from, const char *to, bool exchanged) {
        cleanup(buf_done) struct buf notes = BUF(2 * RECORD_MAX);
        size_t bytes = repos->bytes;

        for (size_t i = 0; i < repos->made.n; i++) {
                if (!is_carried(repos->made.p[i], from, to, exchanged))
                        continue;

                cleanup(free_ptr) char *carried = carry_either(repos->made.p[i], from, to);

                bytes += carried ? strlen(carried) - strlen(repos->made.p[i]) : 0; /* unsigned: it may become less */
                if (!carried || repos->lost) {
                        if (carried)
                                return -EDQUOT;
                        return -ENOMEM;
                }
                if (strlen(carried) >= PATH_MAX)
                        return -ENAMETOOLONG; /* the sweep could not reach it */
                if (bytes >= RECORD_MAX)
                        return -EDQUOT;

                int failed = add_note(&notes, carried);
                if (failed)
                        return failed;
        }

        return write_more(repos, &notes);
}

void repos_moved(struct repos *repos, const char *from, const char *to, bool exchanged) {
        bool changed = false;

        for (size_t i = 0; i < repos->made.n; i++) {
                if (!is_carried(repos->made.p[i], from, to, exchanged))
                        continue;

                char *carried = carry_either(repos->made.p[i], from, to);

                repos->lost |= !carried;
                if (!carried)
                        continue;

                repos->bytes += strlen(carried) - strlen(repos->made.p[i]);
                free(repos->made.p[i]);
                repos->made.p[i] = carried;
                changed = true;
        }

        if (changed)
                write_all(repos);
}

void repos_not_moved(struct repos *repos) {
        if (repos->made.n)
                write_all(repos);
}
