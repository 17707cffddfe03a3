/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/shared.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
        KNOWN_MAX = 4096,    /* files whose names were counted */
        LISTED_MAX = 400000, /* names in writable places */
        DEPTH_MAX = 128,
};

struct known {
        dev_t dev;
        ino_t ino;
        nlink_t names; /* that lie where the sandbox may write; 0: nobody knows any more */
};

struct entry {
        dev_t dev;
        ino_t ino;
};

struct shared {
        VEC(const char *) roots;
        VEC(struct known) known;
        VEC(struct entry) listed; /* every name of a file in the roots, sorted */
        bool has_list, overflown;
};

void shared_free(struct shared *s) {
        if (!s)
                return;
        vec_done(&s->roots);
        vec_done(&s->known);
        vec_done(&s->listed);
        free(s);
}

void shared_freep(struct shared **s) {
        shared_free(*s);
        *s = NULL;
}

static bool is_covered(const struct shared *shared, const char *path) {
        for (size_t i = 0; i < shared->roots.n; i++)
                if (path_is_within(path, shared->roots.p[i]))
                        return true;
        return false;
}

int shared_new(const struct plan *plan, struct shared **ret) {
        cleanup(shared_freep) struct shared *s = calloc(1, sizeof *s);

        if (!s)
                return -ENOMEM;

        for (size_t i = 0; i < plan->guards.n; i++) {
                const char *root = plan->guards.p[i].root;
                if (root && root[0] == '/' && root[1] && !is_covered(s, root) && vec_push(&s->roots, root) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(&s);
        return 0;
}

/* --- the list of names --- */

/* Files that git runs or obeys count as places where the sandbox may not write (repos.h). */
static bool is_left_out(const char *name, bool directory) {
        if (directory)
                return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0 ||
                       strcmp(name, "hooks") == 0;
        return strcmp(name, "config") == 0 || strcmp(name, "config.worktree") == 0;
}

static void list_directory(struct shared *s, int taken, dev_t dev, unsigned depth) {
        DIR *dir = fdopendir(taken);
        struct stat st;

        if (!dir) {
                close(taken);
                return;
        }

        bool here = fstat(dirfd(dir), &st) == 0 && st.st_dev == dev; /* not what is mounted there */
        for (struct dirent *entry; here && !s->overflown && (entry = readdir(dir));) {
                bool directory = entry->d_type == DT_DIR;

                if (is_left_out(entry->d_name, directory) || (directory && depth >= DEPTH_MAX))
                        continue;

                if (directory) {
                        int below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (below >= 0)
                                list_directory(s, below, dev, depth + 1);
                        continue;
                }

                const struct entry found = { dev, entry->d_ino };
                s->overflown = s->listed.n >= LISTED_MAX || vec_push(&s->listed, found) < 0;
        }

        closedir(dir);
}

static int by_file(const void *a, const void *b) {
        const struct entry *left = a, *right = b;

        if (left->dev != right->dev)
                return left->dev < right->dev ? -1 : 1;
        if (left->ino != right->ino)
                return left->ino < right->ino ? -1 : 1;
        return 0;
}

static void list_roots(struct shared *shared) {
        shared->has_list = true;
        for (size_t i = 0; i < shared->roots.n; i++) {
                struct stat st;
                int root = open(shared->roots.p[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                if (root >= 0 && fstat(root, &st) == 0)
                        list_directory(shared, root, st.st_dev, 0);
                else
                        close_fd(&root);
        }

        if (shared->listed.n > 1)
                qsort(shared->listed.p, shared->listed.n, sizeof *shared->listed.p, by_file);
}

static nlink_t count_names(struct shared *shared, const struct stat *st) {
        const struct entry key = { st->st_dev, st->st_ino };
        nlink_t count = 0;

        if (!shared->has_list)
                list_roots(shared);
        if (shared->overflown || shared->listed.n == 0)
                return 0;

        const struct entry *at = bsearch(&key, shared->listed.p, shared->listed.n, sizeof key, by_file);
        if (!at)
                return 0;

        while (at > shared->listed.p && by_file(at - 1, &key) == 0)
                at--;

        for (; at < shared->listed.p + shared->listed.n && by_file(at, &key) == 0; at++)
                count++;

        return count;
}

/* --- what is known --- */

static struct known *find_known(const struct shared *shared, const struct stat *st) {
        for (size_t i = shared->known.n; i-- > 0;)
                if (shared->known.p[i].ino == st->st_ino && shared->known.p[i].dev == st->st_dev)
                        return &shared->known.p[i];
        return NULL;
}

static void shared_learn(struct shared *s, const struct stat *st, nlink_t names) {
        struct known *known = find_known(s, st);
        const struct known fresh = { st->st_dev, st->st_ino, names };

        if (known)
                known->names = names;
        else if (s->known.n >= KNOWN_MAX || vec_push(&s->known, fresh) < 0)
                s->overflown = true; /* the list is out of date, and does not count any more: every file gets a copy */
}

bool shared_is_foreign(struct shared *shared, const struct stat *st) {
        const struct known *known;

        if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
                return false;

        known = find_known(shared, st);
        if (known)
                return known->names < st->st_nlink;

        return count_names(shared, st) < st->st_nlink;
}

void shared_linked(struct shared *shared, const struct stat *before) {
        const struct known *known = find_known(shared, before);

        if (before->st_nlink <= 1 || (known && known->names >= before->st_nlink))
                shared_learn(shared, before, before->st_nlink + 1);
}

bool shared_knows_any(const struct shared *shared) {
        return shared->known.n > 0 || shared->has_list;
}

void shared_unlinked(struct shared *shared, const struct stat *st) {
        struct known *known = find_known(shared, st);

        if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
                return;

        if (known)
                known->names = known->names ? known->names - 1 : 0;
        else
                shared_learn(shared, st, 0);
}
