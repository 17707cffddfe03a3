/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/overlay.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/file_copy.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "base/random.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DEPTH_MAX = 512, CHANGES_MAX = 1000000, LINKS_MAX = 40 };

static const char *const kind_names[] = { "added", "modified", "deleted" };
static_assert(sizeof kind_names / sizeof kind_names[0] == CHANGE_KINDS, "one name per kind");

const char *change_kind_name(enum change_kind k) {
        return k < CHANGE_KINDS ? kind_names[k] : "?";
}

void changes_done(struct changes *c) {
        for (size_t i = 0; i < c->list.n; i++) {
                free(c->list.p[i].path);
                free(c->list.p[i].link_target);
        }
        vec_done(&c->list);
}

struct scan {
        const struct overlay_dirs *dirs;
        overlay_protected is_protected;
        void *context;
        struct changes found;
        struct err *e;
};

/* The kernel's marks, as written without privileges: a device 0:0 says "deleted", the attribute "nothing shows
 * through". */
static bool is_whiteout(const struct stat *st) {
        return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static bool is_opaque(int directory_fd) {
        char value[2];
        return fgetxattr(directory_fd, OVERLAY_OPAQUE, value, sizeof value) == 1 && value[0] == 'y';
}

typedef VEC(char *) names;

static void names_done(names *n) {
        for (size_t i = 0; i < n->n; i++)
                free(n->p[i]);
        vec_done(n);
}

static int by_name(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(int directory_fd, names *ret) {
        int copy = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
        if (!dir) {
                int saved = errno;

                close_fd(&copy);
                return -saved;
        }

        int r = 0;
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                char *name = strdup(entry->d_name);
                if (!name || vec_push(ret, name) < 0) {
                        free(name);
                        r = -ENOMEM;
                }
        }

        closedir(dir);
        if (r == 0 && ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, by_name);

        return r;
}

/* The text of a link as the sandbox saw it: in the upper directory, or shown through from the workspace. False where
 * there is none. Files that a whiteout in the upper directory hides are checked too: this marks too much, never too
 * little. */
static bool merged_link(const struct scan *s, const char *path, char text[static PATH_MAX]) {
        const char *const layers[] = { s->dirs->upper, s->dirs->workspace };

        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
                cleanup(free_ptr) char *whole = path_join(layers[i], path);
                struct stat st;

                if (!whole || lstat(whole, &st) < 0)
                        continue;
                if (!S_ISLNK(st.st_mode) && !is_whiteout(&st))
                        return false;

                ssize_t n = readlink(whole, text, PATH_MAX - 1);
                if (n > 0) {
                        text[n] = '\0';
                        return true;
                }
        }

        return false;
}

/* A walk through the workspace as the sandbox saw it. */
struct walk {
        char at[PATH_MAX];       /* relative to the workspace, "" at its top */
        char rest[2 * PATH_MAX]; /* what is left of the way */
        unsigned links;
};

/* Puts the text before what is left. False: it leads out, or is too long to say. */
static bool walk_turn(const struct scan *s, struct walk *w, const char *text) {
        cleanup(free_ptr) char *normal = NULL, *joined = NULL;
        size_t top = strlen(s->dirs->workspace);

        if (++w->links > LINKS_MAX)
                return false;

        if (text[0] == '/') {
                if (path_normalise(str_of(text), NULL, &normal) < 0 || !path_is_within(normal, s->dirs->workspace))
                        return false;
                w->at[0] = '\0';
                text = normal + top;
        }

        joined = str_format("%s/%s", text, w->rest);
        if (!joined || strlen(joined) >= sizeof w->rest)
                return false;

        memcpy(w->rest, joined, strlen(joined) + 1);
        return true;
}

/* One name further. False: it leads out. */
static bool walk_step(const struct scan *s, struct walk *w, struct str name) {
        char text[PATH_MAX];
        size_t n = strlen(w->at);

        if (name.n == 0 || str_is(name, "."))
                return true;

        if (str_is(name, "..")) {
                char *slash = strrchr(w->at, '/');

                if (n == 0)
                        return false;

                *(slash ? slash : w->at) = '\0';
                return true;
        }

        if (n + name.n + 2 > sizeof w->at)
                return false;

        int added = snprintf(w->at + n, sizeof w->at - n, "%s%.*s", n ? "/" : "", STR_FMT(name));
        if (added < 0 || !merged_link(s, w->at, text))
                return added >= 0;

        w->at[n] = '\0';
        return walk_turn(s, w, text);
}

/* Whether a link leads out of the workspace, through whichever other links. */
static bool link_leaves(const struct scan *s, const char *path, const char *target) {
        struct walk w = { .links = 0 };
        const char *slash = strrchr(path, '/');

        if (slash && (size_t)(slash - path) >= sizeof w.at)
                return true;
        if (slash)
                memcpy(w.at, path, (size_t)(slash - path));

        w.rest[0] = '\0';
        if (!walk_turn(s, &w, target))
                return true;

        while (w.rest[0]) {
                struct str rest = str_of(w.rest), name;
                char part[NAME_MAX + 1];

                if (!str_split(&rest, '/', &name) || name.n > NAME_MAX)
                        return true;

                memcpy(part, name.p, name.n);
                part[name.n] = '\0';
                size_t skip = name.n + (w.rest[name.n] == '/');
                memmove(w.rest, w.rest + skip, strlen(w.rest + skip) + 1);

                if (!walk_step(s, &w, str_n(part, name.n)))
                        return true;
        }

        return false;
}

static bool is_newer(const struct scan *s, const struct stat *st) {
        return (uint64_t)st->st_ctim.tv_sec * 1000000 + (uint64_t)st->st_ctim.tv_nsec / 1000 > s->dirs->began_us;
}

static bool tree_is_newer(const struct scan *s, int parent, const char *name, unsigned depth, unsigned *budget);

static bool inside_is_newer(const struct scan *s, int fd, unsigned depth, unsigned *budget) {
        names found = { 0 };
        bool newer = list_names(fd, &found) < 0;

        for (size_t i = 0; i < found.n && !newer; i++)
                newer = tree_is_newer(s, fd, found.p[i], depth + 1, budget);
        names_done(&found);
        return newer;
}

/* Whether somebody wrote to the workspace's own directory, anywhere below, since the run began. A directory that cannot
 * be read counts as written to. */
static bool tree_is_newer(const struct scan *s, int parent, const char *name, unsigned depth, unsigned *budget) {
        struct stat st;

        if (depth > DEPTH_MAX || (*budget)-- == 0)
                return true;
        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno != ENOENT;
        if (is_newer(s, &st))
                return true;
        if (!S_ISDIR(st.st_mode))
                return false;

        cleanup(close_fd) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 || inside_is_newer(s, fd, depth, budget);
}

/* The workspace's own is lost by this change: it must be what it was when the run began. */
static bool has_conflict(const struct scan *s, const struct change *c, int lower_dir, const char *name,
                         const struct stat *lower) {
        unsigned budget = CHANGES_MAX;

        if (s->dirs->plain && (lower->st_mode & S_IFMT) != (c->mode & S_IFMT))
                return true; /* a directory, a file or a link that the sandbox has never seen */
        if (!S_ISDIR(lower->st_mode))
                return is_newer(s, lower);
        if (c->kind != CHANGE_DELETED && S_ISDIR(c->mode))
                return false; /* it stays */

        return lower_dir < 0 || tree_is_newer(s, lower_dir, name, 0, &budget);
}

static enum overlay_act act_of(const struct change *c) {
        if (c->kind == CHANGE_DELETED)
                return OVERLAY_DELETES;
        if (S_ISDIR(c->mode))
                return OVERLAY_FILLS;

        return OVERLAY_REPLACES;
}

static unsigned flags_of(const struct scan *s, const struct change *c, int lower_dir, const char *name,
                         const struct stat *lower) {
        unsigned flags = 0;
        cleanup(free_ptr) char *absolute = path_join(s->dirs->workspace, c->path);
        if (!absolute || (s->is_protected && s->is_protected(absolute, act_of(c), s->context)))
                flags |= CHANGE_PROTECTED;
        if (lower && has_conflict(s, c, lower_dir, name, lower))
                flags |= CHANGE_CONFLICT;
        if (c->kind == CHANGE_DELETED)
                return flags;
        if (!S_ISREG(c->mode) && !S_ISDIR(c->mode) && !S_ISLNK(c->mode))
                flags |= CHANGE_SPECIAL;
        if (!S_ISLNK(c->mode) && (c->mode & (S_ISUID | S_ISGID)))
                flags |= CHANGE_SETID;
        if (c->link_target && link_leaves(s, c->path, c->link_target))
                flags |= CHANGE_LINK_LEAVES;

        return flags;
}

static int change_record(struct scan *s, const char *path, enum change_kind kind, int upper_dir, int lower_dir,
                         const char *name, const struct stat *state, const struct stat *lower) {
        struct change c = { .kind = kind, .mode = state->st_mode, .path = strdup(path) };
        if (!c.path)
                return err_memory(s->e);
        if (kind != CHANGE_DELETED && S_ISREG(state->st_mode))
                c.size = (uint64_t)state->st_size;

        if (kind != CHANGE_DELETED && S_ISLNK(state->st_mode)) {
                char target[PATH_MAX];
                ssize_t n = readlinkat(upper_dir, name, target, sizeof target);

                c.link_target = n >= 0 && (size_t)n < sizeof target ? str_dup(str_n(target, (size_t)n)) : NULL;
        }

        c.flags = flags_of(s, &c, lower_dir, name, lower);
        if (s->found.list.n >= CHANGES_MAX || vec_push(&s->found.list, c) < 0) {
                free(c.path);
                free(c.link_target);
                return err_set(s->e, E2BIG, "more than %d changes in one overlay", CHANGES_MAX);
        }

        return 0;
}

/* The lower directory of the same path, or -1 when there is none (or it is not a directory). */
static int open_lower(int lower_parent, const char *name) {
        if (lower_parent < 0)
                return -1;

        return openat(lower_parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int scan_dir(struct scan *s, int upper, int lower, const char *prefix, unsigned depth);

static int scan_entry(struct scan *s, int upper, int lower, const char *path, const char *name, unsigned depth) {
        struct stat st, below;

        if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_errno(s->e, "cannot examine %s in the overlay", path);

        bool existed = lower >= 0 && fstatat(lower, name, &below, AT_SYMLINK_NOFOLLOW) == 0;
        if (is_whiteout(&st) && !s->dirs->plain) {
                if (existed)
                        return change_record(s, path, CHANGE_DELETED, upper, lower, name, &below, &below);
                return 0;
        }

        /* The directories of a plain one were made apart: their modes are nobody's change. */
        bool both_directories = existed && S_ISDIR(st.st_mode) && S_ISDIR(below.st_mode);
        bool unchanged = both_directories && (s->dirs->plain || (st.st_mode & 07777) == (below.st_mode & 07777));
        if (!unchanged) {
                int r;

                if (existed)
                        r = change_record(s, path, CHANGE_MODIFIED, upper, lower, name, &st, &below);
                else
                        r = change_record(s, path, CHANGE_ADDED, upper, lower, name, &st, NULL);
                if (r < 0)
                        return r;
        }

        if (!S_ISDIR(st.st_mode))
                return 0;

        cleanup(close_fd) int upper_child = openat(upper, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (upper_child < 0)
                return err_errno(s->e, "cannot open %s in the overlay", path);

        cleanup(close_fd) int lower_child = -1;

        if (both_directories)
                lower_child = open_lower(lower, name);

        return scan_dir(s, upper_child, lower_child, path, depth + 1);
}

/* Below an opaque directory everything of the old one that was not written again is gone. */
static int scan_hidden(struct scan *s, int upper, int lower, const char *prefix) {
        names gone = { 0 };
        int r = list_names(lower, &gone);
        for (size_t i = 0; r == 0 && i < gone.n; i++) {
                struct stat st;

                if (fstatat(upper, gone.p[i], &st, AT_SYMLINK_NOFOLLOW) == 0 ||
                    fstatat(lower, gone.p[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;

                cleanup(free_ptr) char *path = *prefix ? path_join(prefix, gone.p[i]) : strdup(gone.p[i]);
                if (path)
                        r = change_record(s, path, CHANGE_DELETED, upper, lower, gone.p[i], &st, &st);
                else
                        r = -ENOMEM;
        }

        names_done(&gone);
        return r;
}

static int scan_dir(struct scan *s, int upper, int lower, const char *prefix, unsigned depth) {
        if (depth > DEPTH_MAX)
                return err_set(s->e, ELOOP, "the overlay is nested deeper than %d directories", DEPTH_MAX);

        names found = { 0 };
        int r = list_names(upper, &found);
        if (r == 0 && lower >= 0 && !s->dirs->plain && is_opaque(upper))
                r = scan_hidden(s, upper, lower, prefix);

        for (size_t i = 0; r == 0 && i < found.n; i++) {
                cleanup(free_ptr) char *path = *prefix ? path_join(prefix, found.p[i]) : strdup(found.p[i]);
                if (path)
                        r = scan_entry(s, upper, lower, path, found.p[i], depth);
                else
                        r = -ENOMEM;
        }

        names_done(&found);
        return r;
}

int overlay_scan(const struct overlay_dirs *dirs, overlay_protected is_protected, void *context, struct changes *ret,
                 struct err *e) {
        struct scan s = { .dirs = dirs, .is_protected = is_protected, .context = context, .e = e };
        cleanup(close_fd) int upper = open(dirs->upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (upper < 0)
                return err_errno(e, "cannot open the overlay %s", dirs->upper);

        cleanup(close_fd) int lower = open(dirs->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lower < 0)
                return err_errno(e, "cannot open the workspace %s", dirs->workspace);

        int r = scan_dir(&s, upper, lower, "", 0);
        if (r < 0) {
                changes_done(&s.found);
                return r;
        }

        *ret = s.found;
        return 0;
}

/* A place in a tree: its directory held open, its last name apart, so that no later step walks a path again. */
struct place {
        int dir;
        char name[NAME_MAX + 1];
};

static int open_place(const char *root, const char *path, struct place *ret) {
        cleanup(close_fd) int top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (top < 0)
                return -errno;

        struct str name = path_basename(path);
        if (name.n == 0 || name.n > NAME_MAX)
                return -EINVAL;

        cleanup(free_ptr) char *parent =
            name.n == strlen(path) ? strdup(".") : str_dup(str_first(str_of(path), strlen(path) - name.n - 1));
        if (!parent)
                return -ENOMEM;

        int dir = path_open_at(top, parent, O_RDONLY | O_DIRECTORY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        if (dir < 0)
                return dir;

        ret->dir = dir;
        memcpy(ret->name, name.p, name.n);
        ret->name[name.n] = '\0';

        return 0;
}

static void place_done(struct place *p) {
        close_fd(&p->dir);
}

static int stage_file(const struct place *from, const struct place *to, const char *staged, mode_t mode) {
        cleanup(close_fd) int source = openat(from->dir, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;

        if (source < 0 || fstat(source, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;

        cleanup(close_fd) int target =
            openat(to->dir, staged, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (target < 0)
                return -errno;

        int r = file_copy_content(source, target, (uint64_t)st.st_size, NULL, NULL);
        if (r == 0 && fchmod(target, mode & 0777) < 0)
                return -errno;

        return r;
}

/* Puts the staged entry in place; a directory that stands there is removed first, since rename cannot replace it. */
static int swap_in(const struct place *to, const char *staged) {
        if (renameat(to->dir, staged, to->dir, to->name) == 0)
                return 0;
        if (errno != EISDIR && errno != EEXIST && errno != ENOTEMPTY)
                return -errno;
        int r = tree_remove(to->dir, to->name);
        if (r < 0)
                return r;

        if (renameat(to->dir, staged, to->dir, to->name) == 0)
                return 0;

        return -errno;
}

static int put_directory(const struct overlay_dirs *dirs, const struct place *to, mode_t mode) {
        struct stat st;
        bool exists = fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0;

        if (exists && S_ISDIR(st.st_mode) && dirs->plain)
                return 0;
        if (exists && !S_ISDIR(st.st_mode) && unlinkat(to->dir, to->name, 0) < 0)
                return -errno;

        if (mkdirat(to->dir, to->name, mode & 0777) < 0 && errno != EEXIST)
                return -errno;

        cleanup(close_fd) int made = openat(to->dir, to->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made >= 0 && fchmod(made, mode & 0777) == 0)
                return 0;

        return -errno;
}

static int put_entry(const struct overlay_dirs *dirs, const struct change *c, const struct place *to) {
        if (S_ISDIR(c->mode))
                return put_directory(dirs, to, c->mode);

        char staged[32] = ".bailey-";
        random_id(staged + 8, 17);
        cleanup(place_done) struct place from = { .dir = -1 };
        int r = open_place(dirs->upper, c->path, &from);
        if (r < 0)
                return r;

        if (S_ISLNK(c->mode))
                r = symlinkat(text_or(c->link_target, ""), to->dir, staged) == 0 ? 0 : -errno;
        else
                r = stage_file(&from, to, staged, c->mode);

        if (r == 0)
                r = swap_in(to, staged);
        if (r < 0)
                unlinkat(to->dir, staged, 0);

        return r;
}

int overlay_apply(const struct overlay_dirs *dirs, const struct change *change, struct err *e) {
        if (change->flags & CHANGE_SPECIAL)
                return err_set(e, EINVAL, "%s is a socket, fifo or device and is not carried over", change->path);

        cleanup(place_done) struct place to = { .dir = -1 };
        int r = open_place(dirs->workspace, change->path, &to);
        if (r == 0)
                r = change->kind == CHANGE_DELETED ? tree_remove(to.dir, to.name) : put_entry(dirs, change, &to);
        if (r < 0)
                return err_set(e, -r, "cannot apply %s: %s", change->path, strerror(-r));

        return 0;
}

/* From a directory that the run closed to its owner: its mode is a change by itself, and comes back. */
static int unlink_in_closed(int directory, const char *name) {
        cleanup(close_fd) int dir = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        if (dir < 0 || fstat(dir, &st) < 0 || fchmod(dir, (st.st_mode & 07777) | S_IRWXU) < 0)
                return -errno;

        int r = unlinkat(dir, name, 0) < 0 ? -errno : 0;
        if (fchmod(dir, st.st_mode & 07777) < 0)
                return -errno;

        return r;
}

int overlay_forget(const struct overlay_dirs *dirs, const struct change *change, struct err *e) {
        if (change->kind != CHANGE_DELETED && S_ISDIR(change->mode))
                return 0; /* what is in it are changes of their own */

        cleanup(place_done) struct place from = { .dir = -1 };
        int r = open_place(dirs->upper, change->path, &from);
        if (r == 0 && unlinkat(from.dir, from.name, 0) < 0)
                r = errno == EACCES ? unlink_in_closed(from.dir, from.name) : -errno;
        if (r == -ENOENT) /* hidden with its directory: there is no entry for it */
                return 0;

        if (r < 0)
                return err_set(e, -r, "cannot take %s out of the overlay: %s", change->path, strerror(-r));

        return 0;
}
