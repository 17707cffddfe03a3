/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded paths: protected places that did not exist at launch, and links. A mount cannot stand where there is nothing,
 * and a placeholder would be seen on the host, so these are swept when the last process of the sandbox is dead: by the
 * supervisor, by init when the supervisor was killed, or by the next Bailey when both were (kept/guard_registry.c). At
 * that moment nothing of the sandbox can race with it.
 *
 * Files that are found there are moved into a store outside every sandbox, by one rename, which is immediate for any
 * size. If that fails (init does not see the store; another file system), they get a name beside their place that no
 * program obeys, and are copied from there.
 *
 * The walk goes component by component and never through a link. A link or a file where a directory belongs was put
 * there by the sandbox (at launch the path did not exist, and existing parents are mount points that cannot be
 * replaced), and the protected name would be found through it: it is moved itself.
 *
 * The sandbox may have removed the permissions of the directory: they are restored for the moment.
 */
#include "sandbox/guard_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/names.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BESIDE_MAX = 100, PARENTS_MAX = 16 };

/* A directory that guards lie in; many share one. */
struct parent {
        const char *path; /* of a guard in it */
        size_t n;
        int fd; /* -EXXX: cannot be opened as it was: with all of its components, and no link among them */
        unsigned looks;
        struct names names; /* when many were asked for */
};

/* Those of one sweep. It only takes names away: what was not there when it began does not come, and what a listing had
 * is looked up anew. */
struct parents {
        struct parent known[PARENTS_MAX];
        size_t n;
};

static void parents_done(struct parents *parents) {
        for (size_t i = 0; i < parents->n; i++)
                if (parents->known[i].fd >= 0)
                        close(parents->known[i].fd);
}

static struct parent *parents_find(struct parents *parents, const char *path, size_t n) {
        for (size_t i = 0; i < parents->n; i++) {
                struct parent *parent = &parents->known[i];
                if (parent->n == n && memcmp(parent->path, path, n) == 0)
                        return parent;
        }
        return NULL;
}

/* Whether a directory further up is known not to have the next name of the path. */
static bool parents_rule_out(struct parents *parents, const char *path, size_t n) {
        for (size_t above = n; above > 0;) {
                const size_t end = above;
                char name[NAME_MAX + 1];

                do
                        above--;
                while (above > 0 && path[above] != '/');

                const struct parent *parent = parents_find(parents, path, above);
                if (!parent)
                        continue;

                const size_t name_n = end - above - 1;
                if (parent->fd < 0 || name_n >= sizeof name)
                        return parent->fd == -ENOENT;

                memcpy(name, path + above + 1, name_n);
                name[name_n] = '\0';
                return names_lack(&parent->names, name);
        }

        return false;
}

/* A free place, or that of the directory in which the least was asked for. */
static struct parent *parents_make_room(struct parents *parents) {
        if (parents->n < PARENTS_MAX)
                return &parents->known[parents->n++];

        struct parent *least = &parents->known[0];

        for (size_t i = 1; i < parents->n; i++)
                if (parents->known[i].looks < least->looks)
                        least = &parents->known[i];

        if (least->fd >= 0)
                close(least->fd);

        return least;
}

static int open_directory(const char *path, size_t n) {
        char dir[PATH_MAX];

        if (n >= sizeof dir)
                return -ENAMETOOLONG;
        if (n == 0) {
                path = "/";
                n = 1;
        }

        memcpy(dir, path, n);
        dir[n] = '\0';
        return path_open_at(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, PATH_NO_SYMLINKS);
}

static struct parent *parents_look(struct parents *parents, const char *path, size_t n) {
        struct parent *known = parents_find(parents, path, n);
        if (known)
                return known;

        int fd = parents_rule_out(parents, path, n) ? -ENOENT : open_directory(path, n);
        struct parent *made = parents_make_room(parents);
        *made = (struct parent){ .path = path, .n = n, .fd = fd };

        return made;
}

/* Whether nothing is there. Almost always, and then one short call says so; otherwise the walk finds out what it is. */
static bool is_absent(struct parents *parents, const char *path) {
        size_t n = (size_t)(strrchr(path, '/') - path);
        struct parent *parent = parents_look(parents, path, n);
        struct stat st;

        if (parent->fd < 0)
                return parent->fd == -ENOENT;
        names_look(&parent->names, parent->fd, parent->looks++);
        if (names_lack(&parent->names, path + n + 1))
                return true;

        return fstatat(parent->fd, path + n + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* 1, 0, or an error that says neither. */
static int same_link(const char *path, const char *text) {
        char now[PATH_MAX];
        ssize_t n = readlink(path, now, sizeof now);

        if (n < 0) {
                if (!path_error_answers(errno))
                        return -errno;
                return 0;
        }
        return str_eq(str_n(now, (size_t)n), str_of(text));
}

/* A directory on the way, and the mode that it gets back. */
struct held {
        int fd;
        mode_t mode; /* 0: was not changed */
};

static int set_mode(int fd, mode_t mode) {
        char link[40];

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fchmod does not take a descriptor of this kind */
        if (chmod(link, mode) == 0)
                return 0;
        if (errno == ENOENT && fchmod(fd, mode) == 0)
                return 0; /* macOS has neither /proc nor that kind */

        return -errno;
}

static void held_done(struct held *held) {
        if (held->mode)
                (void)set_mode(held->fd, held->mode); /* a directory that stays open is the lesser evil */
        close_fd(&held->fd);
        held->mode = 0;
}

/* Takes the descriptor. */
static void guard_hold(struct held *held, int fd, mode_t mode) {
        held_done(held);
        held->fd = fd;
        held->mode = mode;
}

/* The owner of a directory can open it; in one of another owner the sandbox changed nothing. */
static bool open_up(struct held *held) {
        struct stat st;
        if (fstat(held->fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0300) == 0300 ||
            set_mode(held->fd, (st.st_mode & 07777) | 0300) < 0)
                return false;
        held->mode = (st.st_mode & 07777) | S_IFDIR; /* with the type: never zero */
        return true;
}

/* The same of a directory in it, by its name: macOS has no descriptor that only names one, and opening it is reading
 * it. The mode that it had, with the type, or 0. */
static mode_t open_up_named(const struct held *at, const char *name) {
        struct stat st;

        if (fstatat(at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
            (st.st_mode & 0700) == 0700 || fchmodat(at->fd, name, (st.st_mode & 07777) | 0700, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        return (st.st_mode & 07777) | S_IFDIR;
}

static int open_next(struct held *at, const char *name, mode_t *ret_mode) {
        const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int fd = openat(at->fd, name, flags);

        *ret_mode = 0;
        if (fd < 0 && errno == EACCES && open_up(at))
                fd = openat(at->fd, name, flags);
        if (fd >= 0 || errno != EACCES)
                return fd;

        *ret_mode = open_up_named(at, name);
        return openat(at->fd, name, flags);
}

/* --- moving away --- */

/* A directory changes its parent only for somebody who may write to it. */
static void open_moved(const struct held *at, const char *name) {
        cleanup(close_fd) int fd = openat(at->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                (void)open_up_named(at, name);
        else if (fstat(fd, &st) == 0 && st.st_uid == geteuid())
                (void)set_mode(fd, (st.st_mode & 0777) | 0700);
}

static int move_to(struct held *at, const char *name, int to_fd, const char *to) {
        if (renameat2(at->fd, name, to_fd, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EACCES && errno != EPERM)
                return -errno;
        (void)open_up(at);
        open_moved(at, name);
        if (renameat2(at->fd, name, to_fd, to, RENAME_NOREPLACE) < 0)
                return -errno;

        return 0;
}

void guard_beside_name(const char *name, const char *id, unsigned number, char ret[static NAME_MAX + 1]) {
        int most = NAME_MAX - 40;

        if (number)
                snprintf(ret, NAME_MAX + 1, "%.*s.bailey-kept-%.16s-%u", most, name, id, number);
        else
                snprintf(ret, NAME_MAX + 1, "%.*s.bailey-kept-%.16s", most, name, id);
}

/* The sandbox knows its id, and may have taken all of these names: then one that it cannot know. */
static int move_beside(struct held *at, const char *name, const char *id, char ret[static NAME_MAX + 1]) {
        int r = -EEXIST;

        for (unsigned number = 0; number < BESIDE_MAX && r == -EEXIST; number++) {
                guard_beside_name(name, id, number, ret);
                r = move_to(at, name, at->fd, ret);
        }

        for (unsigned i = 0; i < BESIDE_MAX && r == -EEXIST; i++) {
                char unknown[17];

                random_id(unknown, sizeof unknown);
                guard_beside_name(name, unknown, 0, ret);
                r = move_to(at, name, at->fd, ret);
        }

        return r;
}

static void guard_report(struct guard_sweep *sweep, const char *path, enum guard_done done, const char *kept) {
        const struct guard_found found = { .path = path, .done = done, .kept = kept };

        sweep->kept += done == GUARD_KEPT || done == GUARD_FILTERED;
        if (sweep->report)
                sweep->report(&found, sweep->context);
}

static int store_of(struct guard_sweep *sweep) {
        if (!sweep->asked && sweep->open_store)
                sweep->store = sweep->open_store(sweep->context);
        else if (!sweep->asked)
                sweep->store = -1;
        sweep->asked = true;
        return sweep->store;
}

/* A free one: several sweeps of one run share its store. */
static void name_in_store(struct guard_sweep *sweep, const char *name, char ret[static NAME_MAX + 1]) {
        int store = store_of(sweep);
        struct stat st;

        for (;;) {
                snprintf(ret, NAME_MAX + 1, "%03u-%.*s", sweep->kept, NAME_MAX - 16, name);
                if (store < 0 || fstatat(store, ret, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return;
                sweep->kept++;
        }
}

/* It is out of the way; the store gets a copy. A tree that is too large to copy stays where it is. */
static int carry_over(struct guard_sweep *sweep, struct held *at, const char *beside, const char *path) {
        const char *slash = strrchr(path, '/');
        char name[NAME_MAX + 1];
        int store = store_of(sweep);

        name_in_store(sweep, slash + 1, name);

        if (store >= 0 && tree_copy(at->fd, beside, store, name) == 0) {
                guard_report(sweep, path, GUARD_KEPT, name);
                return tree_remove(at->fd, beside);
        }

        guard_report(sweep, path, GUARD_BESIDE, beside);
        return 0;
}

static int move_away(struct guard_sweep *sweep, struct held *at, const char *name, const char *path) {
        char beside[NAME_MAX + 1], in_store[NAME_MAX + 1];
        struct stat st;
        int store, r = -EXDEV;

        if (fstatat(at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
            (errno != EACCES || !open_up(at) || fstatat(at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)) {
                if (errno == ENOENT)
                        return 0;
                return -errno;
        }

        store = store_of(sweep);
        name_in_store(sweep, name, in_store);
        if (store >= 0)
                r = move_to(at, name, store, in_store);

        if (r == 0) {
                guard_report(sweep, path, GUARD_KEPT, in_store);
                return 0;
        }

        r = move_beside(at, name, sweep->id, beside);
        if (r == 0)
                return carry_over(sweep, at, beside, path);

        if (r == -ENOENT)
                return 0;

        return r;
}

/* --- one guard --- */

/* The repository should be of use: the harmless part of its configuration stays. The whole of it is in the store. */
static int sweep_config(struct guard_sweep *sweep, struct held *at, const char *name, const char *path) {
        cleanup(buf_done) struct buf harmless = BUF(4 << 20);
        char kept[NAME_MAX + 1];
        bool more = false;
        int r = guard_git_filter(at->fd, name, strstr(path, "/.git/modules/") != NULL, &harmless, &more);

        if (r < 0)
                return r;
        if (!more)
                return guard_git_write(at->fd, name, &harmless);

        int store = store_of(sweep);
        name_in_store(sweep, name, kept);
        bool stored = store >= 0 && tree_copy(at->fd, name, store, kept) == 0;
        r = guard_git_write(at->fd, name, &harmless);
        if (r == 0)
                guard_report(sweep, path, GUARD_FILTERED, stored ? kept : NULL);

        return r;
}

/* Beside a HEAD, or where git looks for it by name. */
static bool is_git_config(const struct held *at, const char *path) {
        struct stat st;

        return str_ends(str_of(path), STR("/.git/config")) || fstatat(at->fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What git init makes in a repository that was not there before goes, or is made harmless, without many words. */
static int sweep_name(struct guard_sweep *sweep, struct held *at, const char *name, const char *path) {
        struct str whole = str_of(path);

        if (str_is(str_of(name), "config") && is_git_config(at, path)) {
                int r = sweep_config(sweep, at, name, path);
                if (r >= 0 || !path_error_answers(-r))
                        return r;
        }

        bool of_init = str_ends(whole, STR("/hooks")) || str_ends(whole, STR("/branches"));
        if (of_init && guard_only_samples(at->fd, name))
                return tree_remove(at->fd, name);

        return move_away(sweep, at, name, path);
}

static int sweep_link(struct guard_sweep *sweep, struct held *at, const char *name, const struct plan_guard *guard) {
        int r = move_away(sweep, at, name, guard->path);

        if (r == 0 && symlinkat(guard->link, at->fd, name) < 0)
                r = -errno;
        if (r == 0)
                guard_report(sweep, guard->path, GUARD_LINK_BACK, NULL);
        return r;
}

/* A run that was killed may have left it beside its place. */
static int collect_beside(struct guard_sweep *sweep, struct held *at, const char *name, const char *path) {
        char beside[NAME_MAX + 1], in_store[NAME_MAX + 1];
        struct stat st;
        int r = 0;

        for (unsigned number = 0; number < BESIDE_MAX && r == 0; number++) {
                guard_beside_name(name, sweep->id, number, beside);
                if (fstatat(at->fd, beside, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return 0;

                name_in_store(sweep, name, in_store);
                int store = store_of(sweep);
                if (store >= 0)
                        r = move_to(at, beside, store, in_store);
                else
                        r = -EXDEV;
                if (r == 0)
                        guard_report(sweep, path, GUARD_KEPT, in_store);
                else if (r == -EXDEV)
                        r = carry_over(sweep, at, beside, path);
        }

        return r;
}

static int sweep_at(struct guard_sweep *sweep, struct held *at, const char *name, const struct plan_guard *guard) {
        int r;

        if (guard->kind == PLAN_GUARD_LINK) {
                r = same_link(guard->path, guard->link);
                if (r >= 0)
                        r = r ? 0 : sweep_link(sweep, at, name, guard);
        } else
                r = sweep_name(sweep, at, name, guard->path);

        if (r == 0 && sweep->late)
                return collect_beside(sweep, at, name, guard->path);

        return r;
}

static bool needs_nothing(const struct guard_sweep *sweep, const struct plan_guard *guard, struct parents *parents) {
        if (guard->kind != PLAN_GUARD_MISSING && guard->kind != PLAN_GUARD_LINK)
                return true;
        if (sweep->late)
                return false;
        if (guard->kind == PLAN_GUARD_LINK)
                return same_link(guard->path, guard->link) > 0;

        return is_absent(parents, guard->path);
}

static int sweep_one(struct guard_sweep *sweep, const struct plan_guard *guard, struct parents *parents) {
        struct str rest = str_skip(str_of(guard->path), 1), part;

        if (needs_nothing(sweep, guard, parents))
                return 0;

        cleanup(held_done) struct held at = { .fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) };
        if (at.fd < 0)
                return -errno;

        while (str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];

                if (part.n == 0 || part.n > NAME_MAX)
                        return -ENAMETOOLONG;

                memcpy(name, part.p, part.n);
                name[part.n] = '\0';
                if (rest.n == 0)
                        return sweep_at(sweep, &at, name, guard);

                mode_t mode;
                int next = open_next(&at, name, &mode);
                if (next < 0 && errno == ENOENT)
                        return 0;
                if (next < 0) {
                        if (errno == ENOTDIR || errno == ELOOP)
                                return move_away(sweep, &at, name, guard->path);
                        return -errno;
                }

                guard_hold(&at, next, mode);
        }

        return 0;
}

int guard_sweep(struct guard_sweep *sweep, struct err *err) {
        int failed = 0;
        cleanup(parents_done) struct parents parents = { .n = 0 };

        for (size_t i = 0; i < sweep->n; i++) {
                int r = sweep_one(sweep, &sweep->guards[i], &parents);
                if (r < 0 && !failed)
                        failed = err_set(err, -r, "cannot move %s away, which the sandbox left: %s",
                                         sweep->guards[i].path, strerror(-r));
        }

        return failed;
}
