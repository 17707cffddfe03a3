/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine is told names, and follows them when it starts the container. Whoever else writes to the workspace, another
 * sandbox that runs there, may have put a link in a name's place by then: another directory of this host would be
 * mounted, and writable. So each source is looked at before the engine is called, without following a link. When the
 * container's first process waits for its word, what is mounted is compared: each place is a mount, and the same file
 * or directory.
 */
#include "container/container_seen.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

static int seen_open(int at, const char *path, uint64_t resolve) {
        const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve };

        return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

static int seen_changed(const char *path, struct err *err) {
        return err_set(err, ESTALE, "%s was replaced while the container was made; the command was not started", path);
}

/* A source as it is now. */
static int seen_look(const char *source, struct stat *ret, struct err *err) {
        cleanup(close_fd) int fd = seen_open(AT_FDCWD, source, RESOLVE_NO_SYMLINKS);

        if (fd < 0 && errno == ELOOP)
                return seen_changed(source, err);
        if (fd < 0 || fstat(fd, ret) < 0)
                return err_errno(err, "cannot look at %s", source);

        return 0;
}

static void sight_done(struct container_sight *sight) {
        free(sight->tree);
        free(sight->path);
        free(sight->later);
}

/* Takes the sight's texts. */
static int seen_add(container_seen *seen, struct container_sight sight, struct err *err) {
        if (sight.tree && sight.path && vec_push(seen, sight) == 0)
                return 0;

        sight_done(&sight);
        return err_memory(err);
}

int container_seen_note(container_seen *seen, const char *tree, const char *path, const char *source, struct err *err) {
        struct stat st;
        int r = seen_look(source, &st, err);
        if (r < 0)
                return r;

        return seen_add(seen,
                        (struct container_sight){ .tree = str_dup(str_of(tree)),
                                                  .path = str_dup(str_of(path)),
                                                  .device = st.st_dev,
                                                  .number = st.st_ino },
                        err);
}

int container_seen_note_own(container_seen *seen, struct str path, const char *source, struct err *err) {
        cleanup(free_ptr) char *inside = str_dup(path);

        if (!inside)
                return err_memory(err);
        if (access(source, F_OK) == 0 || errno != ENOENT)
                return container_seen_note(seen, inside, inside, source, err);

        char *later = str_dup(str_of(source));
        if (!later)
                return err_memory(err);

        return seen_add(seen,
                        (struct container_sight){
                            .tree = str_dup(str_of(inside)), .path = str_dup(str_of(inside)), .later = later },
                        err);
}

/* The image may have links above a tree; from there on the names are this host's. */
static int seen_open_inside(int root, const struct container_sight *sight) {
        cleanup(close_fd) int tree = seen_open(root, sight->tree, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

        if (tree < 0 || strcmp(sight->tree, sight->path) == 0)
                return take_fd(&tree);

        return seen_open(tree, sight->path + strlen(sight->tree) + 1, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static bool is_mount(int fd) {
        struct statx st;

        return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Linux before 5.8 does not tell what is a mount. */
static bool tells_mounts(int fd) {
        struct statx st;

        return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 && (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT);
}

static int seen_check_one(const struct container_sight *sight, int root, struct err *err) {
        cleanup(close_fd) int fd = seen_open_inside(root, sight);
        struct stat st, wanted = { .st_dev = sight->device, .st_ino = sight->number };
        int r = sight->later ? seen_look(sight->later, &wanted, err) : 0;

        if (r < 0)
                return r;

        if (fd < 0 && errno != ELOOP && errno != ENOENT && errno != ENOTDIR && errno != EXDEV)
                return err_errno(err, "cannot look at %s in the container", sight->path);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != wanted.st_dev || st.st_ino != wanted.st_ino || !is_mount(fd))
                return seen_changed(sight->path, err);

        return 0;
}

int container_seen_check(const container_seen *seen, int proc, struct err *err) {
        cleanup(close_fd) int root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r = 0;

        if (root < 0)
                return err_errno(err, "cannot look at the container's files");
        if (!tells_mounts(root))
                return err_set(err, EOPNOTSUPP,
                               "this kernel does not say what is a mount, so nobody can tell what the container has of "
                               "this host's files; Linux 5.8 and newer do");

        for (size_t i = 0; r == 0 && i < seen->n; i++)
                r = seen_check_one(&seen->p[i], root, err);

        return r;
}

void container_seen_done(container_seen *seen) {
        for (size_t i = 0; i < seen->n; i++)
                sight_done(&seen->p[i]);
        vec_done(seen);
}
