/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ways to the same answer. A path whose last name is not followed is first tried as it is written
 * (walk_spelled.c).
 *
 * Nearly every other path is resolved by one openat2 call in the broker: both processes share the root and the mounts,
 * so it finds what the tracee would find. The exception is /proc, where `self` means the calling process: a path that
 * ends there, or passes through one of its magic links, is walked again component by component with the tracee's own
 * numbers. So is a path that was not found and has a link on its way: the link may be /proc/self, and then the search
 * was among the broker's descriptors and threads. Magic links are followed only for the tracee's own process, and
 * nothing below the broker's own entries in /proc is ever handed out.
 */
#include "sandbox/linux/broker/walk_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LINKS_MAX = 40, LOST_NAMES_MAX = 8 };

void place_init(struct place *place) {
        place->object = place->dir = -1;
        place->wants_directory = place->borrowed = place->kept = place->parent = place->dir_known = false;
        place->by_descriptor = place->led = false;
        place->name[0] = place->path[0] = '\0';
}

void place_done(struct place *place) {
        close_fd(&place->object);
        if (place->kept)
                walk_let_go(place);
        if (place->borrowed)
                place->dir = -1;
        close_fd(&place->dir);
        place->borrowed = false;
}

/* A descriptor of the directory saves three names for each path. */
static int own_descriptors(void) {
        static int kept = -1;

        if (kept < 0)
                kept = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return kept;
}

int walk_reopen(int fd, int flags, mode_t mode) {
        char name[16];

        snprintf(name, sizeof name, "%d", fd);
        fd = openat(own_descriptors(), name, flags, mode);
        if (fd >= 0)
                return fd;

        return -errno;
}

static int fd_path(int fd, char *ret, size_t size) {
        char link[16];

        snprintf(link, sizeof link, "%d", fd);
        ssize_t n = readlinkat(own_descriptors(), link, ret, size);
        if (n < 0)
                return -errno;
        if ((size_t)n >= size)
                return -ENAMETOOLONG;

        ret[n] = '\0';
        return 0;
}

/* Device numbers of file systems that are not /proc. Nobody mounts anything in here (the filter), and mounts of the
 * host stay outside (they are private): a number that was not /proc's once never is. Number 0 is nobody's. */
static _Atomic dev_t plain_devices[8];

bool walk_may_be_proc(dev_t device) {
        for (size_t i = 0; i < sizeof plain_devices / sizeof *plain_devices; i++)
                if (atomic_load_explicit(&plain_devices[i], memory_order_relaxed) == device)
                        return false;
        return true;
}

static void learn_plain(dev_t device) {
        static atomic_uint learned;
        unsigned slot = atomic_fetch_add(&learned, 1) % (sizeof plain_devices / sizeof *plain_devices);

        atomic_store(&plain_devices[slot], device);
}

static bool is_on_proc(int fd, const struct stat *st) {
        struct statfs fs;

        if (st && !walk_may_be_proc(st->st_dev))
                return false;
        if (fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
                return true;
        if (st)
                learn_plain(st->st_dev);

        return false;
}

static bool on_proc(int fd) {
        struct stat st;

        return is_on_proc(fd, fstat(fd, &st) == 0 ? &st : NULL);
}

bool walk_dir_on_proc(struct place *place) {
        place->dir_known = fstat(place->dir, &place->dir_st) == 0;
        return is_on_proc(place->dir, place->dir_known ? &place->dir_st : NULL);
}

static int open_resolving(int base, const char *path, int flags, uint64_t resolve) {
        struct open_how how = { .flags = (unsigned)(O_PATH | O_CLOEXEC | flags), .resolve = resolve };
        int fd = (int)syscall(SYS_openat2, base, path, &how, sizeof how);

        if (fd >= 0)
                return fd;

        return -errno;
}

/* -ELOOP asks for the slow way. */
static int open_plain(int base, const char *path, int flags) {
        int fd, again;

        fd = open_resolving(base, path, flags, RESOLVE_NO_MAGICLINKS);
        if (fd >= 0)
                return fd;
        if (fd == -ENOSYS || fd == -EPERM)
                return -ELOOP; /* an older kernel, or a filter above: the slow way does without it */

        /* Not found without any link on the way: then neither the tracee finds it. */
        again = open_resolving(base, path, flags, RESOLVE_NO_SYMLINKS);
        if (again < 0)
                return again;

        close(again); /* it appeared just now */
        return -ELOOP;
}

/* /proc/N/...: N is the broker itself or one of its threads. */
static bool is_own_proc(const char *path) {
        char digits[16], task[48];
        struct str rest = str_skip(str_of(path), strlen("/proc/")), first;
        if (!str_starts(str_of(path), STR("/proc/")) || !str_split(&rest, '/', &first) || first.n == 0 ||
            first.n >= sizeof digits || !ascii_is_digit(first.p[0]))
                return false;
        snprintf(task, sizeof task, "/proc/self/task/%.*s", STR_FMT(first));
        return access(task, F_OK) == 0;
}

/*
 * A file that was found by its name and has none any more: another one was renamed over it in the middle of the lookup.
 * The kernel takes away what was mounted on it in the same moment, so it may be a file that a mask hid; and its path,
 * by which it would be judged, ends with a word that no rule has.
 */
static bool has_lost_name(const struct place *place) {
        struct stat st;

        return !place->by_descriptor && str_ends(str_of(place->path), STR(" (deleted)")) &&
               fstat(place->object, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

/* Links on the way are the sandbox's: one of them could lead to the very thing that is held. */
static int stat_without_links(const char *path, struct stat *ret) {
        cleanup(close_fd) int fd = open_resolving(AT_FDCWD, path, O_NOFOLLOW, RESOLVE_NO_SYMLINKS);

        if (fd == -ENOSYS || fd == -EPERM) { /* an older kernel, or a filter above */
                if (lstat(path, ret) < 0)
                        return -errno;
                return 0;
        }
        if (fd < 0)
                return fd;

        if (fstat(fd, ret) < 0)
                return -errno;

        return 0;
}

/*
 * Whether the path that the kernel gives for something leads there. It does not when the caller began at a descriptor
 * in a mount that was taken away since (a grant that was forgotten): such a path begins at the mount, so that no rule
 * about its real place would meet it. /proc shows each process something else, and is never such a mount.
 */
static int path_confirm(int fd, const char *path) {
        struct stat held, there;

        if (path[0] != '/')
                return 0; /* nameless */
        if (fstat(fd, &held) < 0)
                return -errno;
        if ((S_ISDIR(held.st_mode) && held.st_nlink == 0) || is_on_proc(fd, &held))
                return 0; /* a directory that was removed has nothing in it */

        int r = stat_without_links(path, &there);
        if (r < 0) {
                if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
                        return -ESTALE;
                return r;
        }

        if (held.st_dev == there.st_dev && held.st_ino == there.st_ino)
                return 0;

        return -ESTALE;
}

/* Fills in the canonical path of what was found; refuses the broker's own entries. -ESTALE: it is not there any more.
 * What was found by exactly this path, and no link to an open file on it, was there. */
static int walk_settle(struct place *place, const char *written) {
        bool by_name = place->object < 0 || place->parent;
        int fd = by_name ? place->dir : place->object;
        int r = fd_path(fd, place->path, sizeof place->path);
        if (r < 0)
                return r;
        if (!by_name && has_lost_name(place))
                return -ESTALE;

        if (!place->by_descriptor && (place->led || strcmp(place->path, written) != 0)) {
                r = path_confirm(fd, place->path);
                if (r < 0)
                        return r;
        }

        if (by_name) {
                size_t n = strlen(place->path), name_n = strlen(place->name);
                bool root = n == 1;

                if (n + 1 + name_n + 1 > sizeof place->path)
                        return -ENAMETOOLONG;

                snprintf(place->path + n, sizeof place->path - n, "%s%s", root ? "" : "/", place->name);
        }

        if (is_own_proc(place->path))
                return -EACCES;

        return 0;
}

/* What is left of a path while links are spliced in at its front. */
struct rest {
        char text[2 * PATH_MAX];
        size_t at;
};

static int rest_prepend(struct rest *rest, const char *front, size_t front_n) {
        const char *tail = rest->text + rest->at;
        size_t tail_n = strlen(tail);
        char joined[2 * PATH_MAX];

        if (front_n + 1 + tail_n + 1 > sizeof joined)
                return -ENAMETOOLONG;

        memcpy(joined, front, front_n);
        joined[front_n] = '/';
        memcpy(joined + front_n + 1, tail, tail_n + 1);
        memcpy(rest->text, joined, front_n + tail_n + 2);
        rest->at = 0;

        return 0;
}

/* The next component; false at the end. *ret_last: nothing but slashes follows. */
static int rest_next(struct rest *rest, char name[static NAME_MAX + 1], bool *ret_last) {
        while (rest->text[rest->at] == '/')
                rest->at++;

        size_t n = strcspn(rest->text + rest->at, "/");
        if (n == 0)
                return 0;
        if (n > NAME_MAX)
                return -ENAMETOOLONG;

        memcpy(name, rest->text + rest->at, n);
        name[n] = '\0';
        rest->at += n;
        *ret_last = rest->text[rest->at + strspn(rest->text + rest->at, "/")] == '\0';

        return 1;
}

/* A link on /proc. Returns 1 when the rest was extended by its text, 0 when *ret_fd is where it leads, or an error. */
static int step_proc_link(const struct tracee *tracee, int at, const char *name, struct rest *rest, int *ret_fd) {
        char where[PATH_MAX], own[32], text[PATH_MAX];
        size_t own_n;
        int r = fd_path(at, where, sizeof where);
        if (r < 0)
                return r;

        if (strcmp(where, "/proc") == 0) {
                int n;

                if (strcmp(name, "self") == 0)
                        n = snprintf(text, sizeof text, "%d", tracee->tgid);
                else if (strcmp(name, "thread-self") == 0)
                        n = snprintf(text, sizeof text, "%d/task/%d", tracee->tgid, tracee->tid);
                else
                        n = (int)readlinkat(at, name, text, sizeof text - 1);

                if (n < 0)
                        r = -errno;
                else
                        r = rest_prepend(rest, text, (size_t)n);
                if (r < 0)
                        return r;

                return 1;
        }

        own_n = (size_t)snprintf(own, sizeof own, "/proc/%d", tracee->tgid);
        if (strncmp(where, own, own_n) != 0 || (where[own_n] != '\0' && where[own_n] != '/'))
                return -EACCES; /* through another process's links nobody is led */

        *ret_fd = tracee_follow_magic(tracee, at, name);
        if (*ret_fd < 0)
                return *ret_fd;

        return 0;
}

static int step_link(const struct tracee *tracee, int *at, int link, const char *name, struct rest *rest, int *ret_fd) {
        if (on_proc(link))
                return step_proc_link(tracee, *at, name, rest, ret_fd);

        char text[PATH_MAX];
        ssize_t n = readlinkat(link, "", text, sizeof text);
        if (n < 0)
                return -errno;
        if ((size_t)n == sizeof text)
                return -ENAMETOOLONG;

        if (text[0] == '/') {
                int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (root < 0)
                        return -errno;

                close_fd(at);
                *at = root;
        }

        int r = rest_prepend(rest, text, (size_t)n);
        if (r < 0)
                return r;

        return 1;
}

/* The end of the path: what was found there, and the directory that has it, unless it was reached by a descriptor. */
static void walk_arrive(struct place *place, int *at, int *object, const char *name) {
        bool named = name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;

        place->object = take_fd(object);

        if (named) {
                place->dir = take_fd(at);
                memcpy(place->name, name, strlen(name) + 1);
        }
}

static int walk_slowly(const struct tracee *tracee, int base, const char *path, enum walk_mode mode,
                       struct place *place) {
        struct rest rest = { .at = 0 };
        char name[NAME_MAX + 1];
        bool last = false;
        unsigned links = 0;
        size_t length = strlen(path);
        if (length + 1 > sizeof rest.text)
                return -ENAMETOOLONG;

        memcpy(rest.text, path, length + 1);
        cleanup(close_fd) int at = openat(base, path[0] == '/' ? "/" : ".", O_PATH | O_CLOEXEC);
        if (at < 0)
                return -errno;

        for (int r; (r = rest_next(&rest, name, &last)) != 0;) {
                if (r < 0)
                        return r;

                cleanup(close_fd) int next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                struct stat st;
                if (next < 0 && (errno != ENOENT || !last))
                        return -errno;
                if (next >= 0 && fstat(next, &st) < 0)
                        return -errno;

                if (next >= 0 && S_ISLNK(st.st_mode) && (!last || mode == WALK_FOLLOW || place->wants_directory)) {
                        int target = -1;

                        if (++links > LINKS_MAX)
                                return -ELOOP;

                        r = step_link(tracee, &at, next, name, &rest, &target);
                        if (r < 0)
                                return r;
                        if (r == 1)
                                continue; /* the link's text goes first now */

                        close_fd(&next);
                        next = target;
                        name[0] = '\0'; /* reached by a descriptor, not by this name */
                        place->by_descriptor = last;
                        place->led = true;
                }

                if (last) {
                        walk_arrive(place, &at, &next, name);
                        return 0;
                }

                close_fd(&at);
                at = take_fd(&next);
        }

        place->object = take_fd(&at); /* "/" or nothing but slashes */
        return 0;
}

/* One call when the path stays clear of /proc's peculiarities; -ELOOP asks for the slow way. */
static int walk_quickly(int base, const char *path, enum walk_mode mode, struct place *place) {
        int object = open_plain(base, path, mode == WALK_FOLLOW ? 0 : O_NOFOLLOW);
        if (object < 0)
                return object;
        place->object = object;
        if (on_proc(object))
                return -ELOOP;

        return 0;
}

/* The directory and the last name, for what does not exist yet or is about to lose its name. */
static int split_off_name(int base, const char *path, struct place *place) {
        size_t n = strlen(path);
        while (n > 1 && path[n - 1] == '/')
                n--;

        size_t start = n;
        while (start > 0 && path[start - 1] != '/')
                start--;

        struct str name = str_n(path + start, n - start);
        if (name.n == 0 || str_is(name, ".") || str_is(name, ".."))
                return 0; /* no name to hold; what the call does with that is its own error */
        if (name.n > NAME_MAX)
                return -ENAMETOOLONG;

        char parent[PATH_MAX];
        memcpy(parent, path, start);
        parent[start] = '\0';

        int dir = start ? open_plain(base, parent, O_DIRECTORY) : base;
        if (dir < 0)
                return dir;

        place->dir = dir;
        place->borrowed = !start;
        memcpy(place->name, name.p, name.n);
        place->name[name.n] = '\0';

        if (walk_dir_on_proc(place))
                return -ELOOP;

        return 0;
}

/* With the name apart: the object is looked up by it in the directory that is held. */
static int walk_named(int base, const char *path, struct place *place) {
        int r = split_off_name(base, path, place);
        if (r < 0 || place->dir < 0 || place->parent)
                return r;
        place->object = openat(place->dir, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (place->object >= 0 || errno == ENOENT)
                return 0;

        return -errno;
}

static int walk_from(const struct tracee *tracee, int from, const char *path, enum walk_mode mode,
                     struct place *place) {
        place->parent = mode == WALK_PARENT;
        int r = mode == WALK_FOLLOW ? walk_quickly(from, path, mode, place) : walk_named(from, path, place);
        if (mode != WALK_FOLLOW && r == 0 && place->dir < 0)
                r = walk_quickly(from, path, mode, place);

        if (mode == WALK_FOLLOW && r == -ENOENT) {
                r = walk_named(from, path, place);
                if (r == 0 && place->object >= 0)
                        r = -ELOOP; /* something is there after all: a dangling link, followed below */
        }

        if (r != -ELOOP)
                return r;

        place_done(place);
        place->name[0] = '\0';
        place->parent = place->dir_known = false; /* the object comes with it */

        return walk_slowly(tracee, from, path, mode, place);
}

int walk_descriptor(struct tracee *tracee, int number, struct place *ret) {
        int r;

        place_init(ret);
        ret->by_descriptor = true;
        ret->object = tracee_open_base(tracee, number);
        if (ret->object < 0)
                return ret->object;

        r = tracee_confirm(tracee);
        if (r == 0)
                r = walk_settle(ret, "");
        if (r < 0)
                place_done(ret);

        return r;
}

static int walk_based(struct tracee *tracee, int dirfd, const char *path, enum walk_mode mode, struct place *place) {
        cleanup(close_fd) int base = path[0] == '/' ? -1 : tracee_open_base(tracee, dirfd);
        int r;

        if (path[0] != '/' && base < 0)
                return base;

        r = walk_from(tracee, base >= 0 ? base : AT_FDCWD, path, mode, place);
        if (r == 0 && place->object < 0 && place->dir < 0)
                r = -ENOENT;

        place->parent &= place->object < 0;
        if (r == 0)
                r = walk_settle(place, path);

        if (r < 0) {
                place_done(place);
                return r;
        }

        if (place->borrowed) { /* the directory goes on with the place */
                (void)take_fd(&base);
                place->borrowed = false;
        }

        return 0;
}

int walk(struct tracee *tracee, int dirfd, const char *path, enum walk_mode mode, struct place *ret) {
        int r;

        place_init(ret);
        if (path[0] == '\0') {
                if (tracee_confirm(tracee) < 0)
                        return -ESRCH;
                return -ENOENT;
        }

        if (mode == WALK_FOLLOW)
                r = -ELOOP;
        else
                r = walk_spelled(tracee, dirfd, path, mode, ret);
        for (int tries = 0; r < 0 && tries < LOST_NAMES_MAX; tries++) {
                place_init(ret);
                ret->wants_directory = path[strlen(path) - 1] == '/';
                r = walk_based(tracee, dirfd, path, mode, ret);
                if (r != -ESTALE)
                        break;
        }

        if (r == -ESTALE)
                r = -ENOENT;

        if (r == 0) {
                r = tracee_confirm(tracee);
                if (r < 0)
                        place_done(ret);
        }

        return r;
}
