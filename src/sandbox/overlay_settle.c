/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was applied leaves the overlay, and with it every mark that speaks of it. Otherwise the same change would be
 * found again later, against what the user has made of the workspace since.
 *
 * A directory that was removed and made anew is opaque: whatever the workspace has there and the overlay has not is
 * gone. A file that has left the overlay would be gone, too. So before anything leaves, each hidden name gets a
 * whiteout of its own, and the directory loses its mark. Directories that hold no change any more are removed last.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/log.h"
#include "sandbox/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SETTLE_DEPTH_MAX = 512 };

/* A directory of the overlay, and the workspace's own of the same path; -1: it has none. The run may have taken from
 * its owner what it takes to tidy the overlay's; its mode is a change by itself, and comes back. */
struct settle {
        int upper, lower;
        unsigned depth;
        mode_t mode;
        bool opened; /* the owner has more rights for the moment */
};
typedef int settle_each(const struct settle *at, const char *name);

static int open_below(int parent, const char *name) {
        if (parent < 0)
                return -ENOENT;

        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        return fd;
}

static int each_name(int directory, settle_each *each, const struct settle *at) {
        cleanup(listing_close) struct listing *names = listing_open(directory, ".");
        int r = 0;

        if (!names)
                return -errno;

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(names));)
                r = each(at, entry->d_name);

        if (r != 0)
                return r;

        return -listing_error(names);
}

/* 1: both are directories, or only the overlay's; 0: nothing to enter. */
static int settle_enter(const struct settle *at, const char *name, struct settle *ret) {
        struct stat st;

        if (fstatat(at->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                return 0;

        struct settle below = { .upper = -1, .lower = -1, .depth = at->depth + 1, .mode = st.st_mode & 07777 };
        if ((st.st_mode & S_IRWXU) != S_IRWXU && st.st_uid == geteuid())
                below.opened = fchmodat(at->upper, name, below.mode | S_IRWXU, 0) == 0;

        below.upper = open_below(at->upper, name);
        if (below.upper < 0) {
                if (below.opened && fchmodat(at->upper, name, below.mode, 0) < 0)
                        return -errno;
                return below.upper;
        }

        below.lower = open_below(at->lower, name);
        *ret = below;
        return 1;
}

static void settle_done(struct settle *at) {
        if (at->opened && at->upper >= 0 && fchmod(at->upper, at->mode) < 0)
                log_warning("the mode of a directory in the overlay cannot be put back: %s", strerror(errno));
        at->opened = false;
        close_fd(&at->upper);
        close_fd(&at->lower);
}

/* --- before --- */

static int hide_name(const struct settle *at, const char *name) {
        struct stat st;

        if (fstatat(at->upper, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (mknodat(at->upper, name, S_IFCHR, 0) < 0 && errno != EEXIST)
                return -errno;

        return 0;
}

static settle_each unveil_name;

static int unveil_dir(const struct settle *at) {
        char value[2];
        bool opaque = fgetxattr(at->upper, OVERLAY_OPAQUE, value, sizeof value) == 1 && value[0] == 'y';
        int r = 0;

        if (at->depth > SETTLE_DEPTH_MAX)
                return -ELOOP;

        if (opaque && at->lower >= 0)
                r = each_name(at->lower, hide_name, at);
        if (r == 0 && opaque && fremovexattr(at->upper, OVERLAY_OPAQUE) < 0)
                r = -errno;
        if (r < 0)
                return r;

        return each_name(at->upper, unveil_name, at);
}

static int unveil_name(const struct settle *at, const char *name) {
        cleanup(settle_done) struct settle below = { .upper = -1, .lower = -1 };
        int r = settle_enter(at, name, &below);

        if (r <= 0)
                return r;

        return unveil_dir(&below);
}

/* --- after --- */

/* One that the workspace lacks, or has in another mode, is a change by itself. */
static int prune_name(const struct settle *at, const char *name) {
        cleanup(settle_done) struct settle below = { .upper = -1, .lower = -1 };
        struct stat lower;
        int r = settle_enter(at, name, &below);

        if (r <= 0 || below.lower < 0) {
                if (r < 0)
                        return r;
                return 0;
        }
        if (below.depth > SETTLE_DEPTH_MAX)
                return -ELOOP;

        r = each_name(below.upper, prune_name, &below);
        if (r < 0)
                return r;
        if (fstat(below.lower, &lower) < 0)
                return -errno;
        if (below.mode != (lower.st_mode & 07777))
                return 0;

        /* One that stays is only untidy. */
        if (unlinkat(at->upper, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != EEXIST && errno != EACCES &&
            errno != EPERM)
                return -errno;
        return 0;
}

static int settle_top(const struct overlay_dirs *dirs, struct settle *ret) {
        struct stat st;

        if (lstat(dirs->upper, &st) < 0)
                return -errno;

        ret->mode = st.st_mode & 07777;
        if (S_ISDIR(st.st_mode) && (st.st_mode & S_IRWXU) != S_IRWXU && st.st_uid == geteuid())
                ret->opened = chmod(dirs->upper, ret->mode | S_IRWXU) == 0;

        ret->upper = open(dirs->upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->upper < 0)
                return -errno;

        ret->lower = open(dirs->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->lower < 0)
                return -errno;

        return 0;
}

int overlay_unveil(const struct overlay_dirs *dirs, struct err *e) {
        cleanup(settle_done) struct settle top = { .upper = -1, .lower = -1 };
        int r = 0;

        if (!dirs->plain)
                r = settle_top(dirs, &top);

        if (r == 0 && !dirs->plain)
                r = unveil_dir(&top);

        if (r < 0)
                return err_set(e, -r, "cannot prepare the overlay %s: %s", dirs->upper, strerror(-r));

        return 0;
}

int overlay_prune(const struct overlay_dirs *dirs, struct err *e) {
        cleanup(settle_done) struct settle top = { .upper = -1, .lower = -1 };
        int r = 0;

        if (!dirs->plain)
                r = settle_top(dirs, &top);

        if (r == 0 && !dirs->plain)
                r = each_name(top.upper, prune_name, &top);

        if (r < 0)
                return err_set(e, -r, "cannot tidy the overlay %s: %s", dirs->upper, strerror(-r));

        return 0;
}
