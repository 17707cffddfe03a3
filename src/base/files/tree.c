/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maker of the tree may not want it removed: it may be nested deeper than there are descriptors or stack, and its
 * directories may be closed to their owner. So a directory that lies too deep is moved up to the top and taken there in
 * a later round, modes are repaired first, and one entry that stays is no reason to keep its neighbours.
 */
#include "base/files/tree.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, ROUNDS_MAX = 1 << 20 };

struct removal {
        int top;    /* the directory that goes */
        bool again; /* something was moved up into it */
};

static int remove_at(struct removal *removal, int parent, const char *name, int depth);

static int empty_dir(struct removal *removal, int fd, int depth) {
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), first = 0;
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        if (!dir) {
                first = -errno;
                close_fd(&copy);
                return first;
        }

        for (struct dirent *entry; (entry = readdir(dir));) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                int s = remove_at(removal, fd, entry->d_name, depth + 1);
                if (first == 0)
                        first = s;
        }

        closedir(dir);
        return first;
}

/* Each round takes away the upper levels of everything that is there; the last one moves nothing. */
static int empty_top(int fd) {
        struct removal removal = { .top = fd, .again = true };
        int first = 0;

        for (int round = 0; removal.again && round < ROUNDS_MAX; round++) {
                removal.again = false;
                int s = empty_dir(&removal, fd, 0);
                if (first == 0)
                        first = s;
        }

        return first;
}

/* Closed by its owner, who is us: opened again after its mode is repaired, never through a link. */
static int open_dir(int parent, const char *name) {
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        struct stat st;
        int fd = openat(parent, name, flags);
        if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
                fd = openat(parent, name, flags);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
                (void)fchmod(fd, 0700); /* if it is not ours, the next call fails and says so */

        return fd;
}

/* To be taken in the next round, under a name that nothing there has. */
static int move_up(struct removal *removal, int parent, const char *name) {
        char up[24];
        random_id(up, sizeof up);
        if (renameat(parent, name, removal->top, up) < 0)
                return -errno;
        removal->again = true;
        return 0;
}

static int remove_at(struct removal *removal, int parent, const char *name, int depth) {
        if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return 0;

        cleanup(close_fd) int fd = open_dir(parent, name);
        if (fd < 0)
                return fd;
        if (depth == DEPTH_MAX)
                return move_up(removal, parent, name);

        int s = depth == 0 ? empty_top(fd) : empty_dir(removal, fd, depth);
        if (s < 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
                return s;

        return -errno;
}

int tree_remove(int parent_fd, const char *name) {
        return remove_at(NULL, parent_fd, name, 0);
}
