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

int container_seen_note(container_seen *seen, const char *tree, const char *path, const char *source, struct err *err) {
        cleanup(close_fd) int fd = seen_open(AT_FDCWD, source, RESOLVE_NO_SYMLINKS);
        struct stat st;

        if (fd < 0 && errno == ELOOP)
                return seen_changed(source, err);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot look at %s", source);

        struct container_sight sight = { str_dup(str_of(tree)), str_dup(str_of(path)), st.st_dev, st.st_ino };
        if (sight.tree && sight.path && vec_push(seen, sight) == 0)
                return 0;

        free(sight.tree);
        free(sight.path);
        return err_memory(err);
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

        if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0)
                return false;
        return !(st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) || (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int seen_check_one(const struct container_sight *sight, int root, struct err *err) {
        cleanup(close_fd) int fd = seen_open_inside(root, sight);
        struct stat st;

        if (fd < 0 && errno != ELOOP && errno != ENOENT && errno != ENOTDIR && errno != EXDEV)
                return err_errno(err, "cannot look at %s in the container", sight->path);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != sight->device || st.st_ino != sight->number || !is_mount(fd))
                return seen_changed(sight->path, err);

        return 0;
}

int container_seen_check(const container_seen *seen, int proc, struct err *err) {
        cleanup(close_fd) int root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r = 0;

        if (root < 0)
                return err_errno(err, "cannot look at the container's files");

        for (size_t i = 0; r == 0 && i < seen->n; i++)
                r = seen_check_one(&seen->p[i], root, err);

        return r;
}

void container_seen_done(container_seen *seen) {
        for (size_t i = 0; i < seen->n; i++) {
                free(seen->p[i].tree);
                free(seen->p[i].path);
        }
        vec_done(seen);
}
