/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded paths: protected places that did not exist at launch. A mount cannot stand where there is nothing, and a
 * placeholder would be seen on the host, so these are swept when the last process of the sandbox is dead: by the
 * supervisor, or by init when the supervisor was killed. At that moment nothing of the sandbox can race with it.
 *
 * The walk goes component by component and never through a link. A link or a file where a directory belongs was put
 * there by the sandbox (at launch the path did not exist, and existing parents are mount points that cannot be
 * replaced), and the protected name would be found through it: it is removed itself.
 *
 * The sandbox may have closed the directory, so that nothing can be removed from it: it is opened for the moment.
 */
#include "sandbox/linux/guard.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/names.h"
#include "base/path.h"
#include "base/tree.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* The directory of the guard that was looked at last; guards share them. */
struct parent {
        const char *path; /* of a guard in it; NULL: none yet */
        size_t n;
        int fd; /* -EXXX: cannot be opened as it was: with all of its components, and no link among them */
        unsigned looks;
        struct names names; /* when many were asked for */
};

static void parent_done(struct parent *p) {
        if (p->fd >= 0)
                close(p->fd);
}

/* Whether nothing is there. Almost always, and then one short call says so; otherwise the walk finds out what it is. */
static bool is_absent(struct parent *p, const char *path) {
        size_t n = (size_t)(strrchr(path, '/') - path);
        struct stat st;
        if (!p->path || p->n != n || memcmp(p->path, path, n) != 0) {
                char dir[PATH_MAX];
                parent_done(p);
                *p = (struct parent){ .path = path, .n = n, .fd = -ENAMETOOLONG };
                if (n >= sizeof dir)
                        return false;
                memcpy(dir, n ? path : "/", n ? n : 1);
                dir[n ? n : 1] = '\0';
                p->fd = path_open_at(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, PATH_NO_SYMLINKS);
        }
        if (p->fd < 0)
                return p->fd == -ENOENT;
        if (p->looks++ == NAMES_WORTH)
                names_read(&p->names, p->fd);
        if (names_lack(&p->names, path + n + 1))
                return true;
        return fstatat(p->fd, path + n + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static bool same_link(const char *path, const char *text) {
        char now[PATH_MAX];
        ssize_t n = readlink(path, now, sizeof now);
        return n >= 0 && str_eq(str_n(now, (size_t)n), str_of(text));
}

/* A directory on the way, and the mode that it gets back. */
struct held {
        int fd;
        mode_t mode; /* 0: was not changed */
};

static int set_mode(int fd, mode_t mode) {
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fchmod does not take a descriptor of this kind */
        return chmod(link, mode) < 0 ? -errno : 0;
}

static void held_done(struct held *h) {
        if (h->mode)
                (void)set_mode(h->fd, h->mode); /* a directory that stays open is the lesser evil */
        close_fd(&h->fd);
        h->mode = 0;
}

/* Takes the descriptor. */
static void hold(struct held *h, int fd) {
        held_done(h);
        h->fd = fd;
}

/* Whoever owns a directory can open it; in one of another owner the sandbox changed nothing. */
static bool open_up(struct held *h) {
        struct stat st;
        if (fstat(h->fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0300) == 0300 ||
            set_mode(h->fd, (st.st_mode & 07777) | 0300) < 0)
                return false;
        h->mode = (st.st_mode & 07777) | S_IFDIR; /* with the type: never zero */
        return true;
}

static int open_next(struct held *at, const char *name) {
        const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int fd = openat(at->fd, name, flags);
        return fd < 0 && errno == EACCES && open_up(at) ? openat(at->fd, name, flags) : fd;
}

static int remove_name(struct held *at, const char *name) {
        struct stat st;
        int r = fstatat(at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : tree_remove(at->fd, name);
        if (r == -EACCES && open_up(at))
                r = tree_remove(at->fd, name);
        return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* What git init makes in a repository that was not there before goes, or is made harmless, without many words. */
static int sweep_name(struct held *at, const char *name, const char *path) {
        struct str whole = str_of(path);
        if (str_ends(whole, STR("/.git/config"))) {
                int r = guard_git_config(at->fd, name);
                if (r >= 0)
                        return r;
        }
        bool of_init = str_ends(whole, STR("/.git/hooks")) || str_ends(whole, STR("/.git/branches"));
        bool quietly = of_init && guard_only_samples(at->fd, name);
        int r = remove_name(at, name);
        return r > 0 && quietly ? 0 : r;
}

/* 1 removed, 0 nothing that is worth a word. */
static int sweep_one(const struct plan_guard *guard, struct parent *parent) {
        const char *path = guard->path;
        if (guard->kind != PLAN_GUARD_MISSING && guard->kind != PLAN_GUARD_LINK)
                return 0;
        if ((guard->link && same_link(path, guard->link)) || (!guard->link && is_absent(parent, path)))
                return 0;
        cleanup(held_done) struct held at = { .fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) };
        struct str rest = str_skip(str_of(path), 1), part;
        if (at.fd < 0)
                return -errno;
        while (str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];
                if (part.n == 0 || part.n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, part.p, part.n);
                name[part.n] = '\0';
                if (rest.n == 0)
                        return sweep_name(&at, name, path);
                int next = open_next(&at, name);
                if (next < 0)
                        return remove_name(&at, name);
                hold(&at, next);
        }
        return 0;
}

int guard_sweep(const struct plan *p, void (*report)(const char *path, void *context), void *context, struct err *e) {
        int removed = 0, failed = 0;
        cleanup(parent_done) struct parent parent = { .fd = -1 };
        for (size_t i = 0; i < p->guards.n; i++) {
                int r = sweep_one(&p->guards.p[i], &parent);
                if (r > 0 && report)
                        report(p->guards.p[i].path, context);
                if (r < 0 && !failed)
                        failed = err_set(e, -r, "cannot remove %s, which the sandbox left: %s", p->guards.p[i].path,
                                         strerror(-r));
                removed += r > 0;
        }
        return failed < 0 ? failed : removed;
}
