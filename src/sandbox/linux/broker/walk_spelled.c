/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path as it is written: the caller's directory and the names it gives. If none of them is a link, which the kernel
 * checks as it opens the directory, then this is the canonical path of the opened object at that moment; no further
 * call is needed.
 *
 * Programs change one file after the other in the same directory. The last one is kept open, as the working directory
 * of the thread that serves: where that is now, the kernel says in one cheap call. If the answer equals the written
 * path, then the held directory has exactly that path at this moment. It is held only for a moment (KEEP_NS) for
 * another reason: the answer does not show a mask that is mounted over it meanwhile.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/broker/walk_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEEP_NS (2 * NS_PER_MS)

/* Appends the names of a path, each with a slash before it. -ELOOP for what is not plain: "..", a slash at the end. */
static int spell_names(char *text, size_t n, const char *path) {
        while (*path) {
                size_t length = strcspn(path, "/");
                bool nothing = length == 0 || (length == 1 && path[0] == '.'), ends = path[length] == '\0';

                if ((length == 2 && path[0] == '.' && path[1] == '.') || length > NAME_MAX || (nothing && ends))
                        return -ELOOP;

                if (!nothing) {
                        if (n + 1 + length >= PATH_MAX)
                                return -ELOOP;

                        text[n] = '/';
                        memcpy(text + n + 1, path, length);
                        n += 1 + length;
                }

                if (!ends && path[length + 1] == '\0')
                        return -ELOOP;

                path += length + !ends;
        }

        text[n] = '\0';
        return 0;
}

static int spelled_spell(struct tracee *tracee, int dirfd, const char *path, char text[static PATH_MAX]) {
        static const char gone[] = " (deleted)";
        ssize_t n = 0;

        if (path[0] == '\0')
                return -ELOOP;

        if (path[0] != '/') {
                n = tracee_base_path(tracee, dirfd, text, PATH_MAX);
                if (n < 0 || text[0] != '/' || n == PATH_MAX)
                        return -ELOOP;
                if (n >= (ssize_t)sizeof gone && memcmp(text + n - (sizeof gone - 1), gone, sizeof gone - 1) == 0)
                        return -ELOOP;
                if (n == 1)
                        n = 0; /* "/": the names bring their slash */
        }

        return spell_names(text, (size_t)n, path);
}

int walk_spell(struct tracee *tracee, int dirfd, const char *path, char ret[static PATH_MAX]) {
        int r = spelled_spell(tracee, dirfd, path, ret);

        if (r == 0 && str_starts(str_of(ret), STR("/proc/")))
                return -ELOOP;

        return r;
}

int walk_open_spelled(int dir, const char *path, int flags) {
        struct open_how how = { .flags = (unsigned)flags, .resolve = RESOLVE_NO_SYMLINKS };
        int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);

        if (fd >= 0)
                return fd;

        return -errno;
}

/* --- the directory that is kept --- */

/* Each thread that serves has one of its own, and a working directory of its own. */
struct kept_dir {
        bool there, entered; /* it is the thread's working directory */
        int fd;
        unsigned users; /* places that have it now */
        uint64_t since_ns;
        struct stat st;
        char path[PATH_MAX];
};
static _Thread_local struct kept_dir kept_dir;

void walk_let_go(struct place *place) {
        kept_dir.users--;
        place->kept = false;
}

static void place_borrow_kept(struct place *place) {
        kept_dir.users++;
        place->kept = place->borrowed = place->dir_known = true;
        place->dir = kept_dir.fd;
        place->dir_st = kept_dir.st;
}

void walk_leaves_directory(void) {
        kept_dir.entered = false;
}

static bool kept_is_at(const char *path) {
        char now[PATH_MAX];

        if (!kept_dir.there || strcmp(kept_dir.path, path) != 0 || clock_ns() - kept_dir.since_ns > KEEP_NS)
                return false;
        if (!kept_dir.entered)
                kept_dir.entered = fchdir(kept_dir.fd) == 0;
        return kept_dir.entered && syscall(SYS_getcwd, now, sizeof now) > 0 && strcmp(now, path) == 0;
}

/* What the place has opened is kept from now on, and its own no more. */
static void keep_dir(struct place *place, const char *path) {
        size_t n = strlen(path);

        if (kept_dir.users || !place->dir_known)
                return; /* another place of this call has one */
        if (kept_dir.there)
                close_fd(&kept_dir.fd);

        kept_dir.there = true;
        kept_dir.entered = false;
        kept_dir.fd = place->dir;
        kept_dir.since_ns = clock_ns();
        kept_dir.st = place->dir_st;
        memcpy(kept_dir.path, path, n + 1);
        place_borrow_kept(place);
}

static int open_dir(struct place *place, const char *path) {
        if (kept_is_at(path)) {
                place_borrow_kept(place);
                return 0;
        }

        place->dir = walk_open_spelled(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (place->dir < 0 || walk_dir_on_proc(place))
                return -ELOOP;

        keep_dir(place, path);
        return 0;
}

/* True the second time in a row. */
static bool is_same_dir(const char *path, size_t n) {
        static _Thread_local char last[PATH_MAX];
        static _Thread_local size_t last_n;
        bool same = n == last_n && memcmp(last, path, n) == 0;

        if (!same) {
                memcpy(last, path, n);
                last_n = n;
        }

        return same;
}

int walk_same_dir(const char *path, const char **ret_name) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        const char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : 0;

        *ret_name = path;
        if (n == 0 || n >= sizeof place.path || !is_same_dir(path, n))
                return AT_FDCWD;

        memcpy(place.path, path, n);
        place.path[n] = '\0';
        if (open_dir(&place, place.path) < 0 || !place.kept)
                return AT_FDCWD;

        *ret_name = slash + 1;
        return place.dir;
}

static int look_for_object(struct place *place) {
        place->object = openat(place->dir, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (place->object >= 0 || errno == ENOENT)
                return 0;

        return -ELOOP;
}

int walk_spelled(struct tracee *tracee, int dirfd, const char *path, enum walk_mode mode, struct place *place) {
        char *slash;
        size_t n;
        int r;

        if (walk_spell(tracee, dirfd, path, place->path) < 0)
                return -ELOOP;

        slash = strrchr(place->path, '/');
        if (!slash)
                return -ELOOP;

        n = strlen(slash + 1);
        memcpy(place->name, slash + 1, n + 1);
        *slash = '\0';
        r = open_dir(place, slash == place->path ? "/" : place->path);
        *slash = '/';

        if (r == 0 && mode == WALK_NOFOLLOW)
                r = look_for_object(place);

        if (r < 0) {
                place_done(place);
                place->dir_known = false;
                return r;
        }

        place->parent = mode == WALK_PARENT;
        return 0;
}
