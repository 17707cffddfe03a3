/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded paths: protected places that did not exist at launch. A mount cannot stand where there is nothing, and a
 * placeholder would be seen on the host, so these are swept when the last process of the sandbox is dead: by the
 * supervisor, or by init when the supervisor was killed. At that moment nothing of the sandbox can race with it.
 *
 * The walk goes component by component and never through a link. A link or a file where a directory belongs was put
 * there by the sandbox (at launch the path did not exist, and existing parents are mount points that cannot be
 * replaced), and the protected name would be found through it: it is removed itself.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/tree.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* A parent that is no directory is a find as well. Guards share parents: the last answer is kept. */
struct parent {
        char path[PATH_MAX];
        bool swapped;
};

static bool swapped_parent(struct parent *p, const char *path) {
        size_t n = (size_t)(strrchr(path, '/') - path);
        struct stat st;
        if (n == 0 || n >= sizeof p->path)
                return n > 0;
        if (strncmp(p->path, path, n) == 0 && p->path[n] == '\0')
                return p->swapped;
        memcpy(p->path, path, n);
        p->path[n] = '\0';
        p->swapped = lstat(p->path, &st) == 0 && !S_ISDIR(st.st_mode);
        return p->swapped;
}

static bool same_link(const char *path, const char *text) {
        char now[PATH_MAX];
        ssize_t n = readlink(path, now, sizeof now);
        return n >= 0 && str_eq(str_n(now, (size_t)n), str_of(text));
}

/* 1 removed, 0 nothing there: almost always, and then one call says so. */
static int sweep_one(const struct plan_guard *guard, struct parent *parent) {
        const char *path = guard->path;
        struct stat any;
        if (guard->link && same_link(path, guard->link))
                return 0;
        if (lstat(path, &any) < 0 && (errno == ENOENT || errno == ENOTDIR) && !swapped_parent(parent, path))
                return 0;
        cleanup(close_fd) int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct str rest = str_skip(str_of(path), 1), part;
        if (at < 0)
                return -errno;
        while (str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];
                if (part.n == 0 || part.n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, part.p, part.n);
                name[part.n] = '\0';
                int next = rest.n ? openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
                if (next >= 0) {
                        close_fd(&at);
                        at = next;
                        continue;
                }
                struct stat st;
                if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return errno == ENOENT ? 0 : -errno;
                int r = tree_remove(at, name);
                return r < 0 ? r : 1;
        }
        return 0;
}

int guard_sweep(const struct plan *p, void (*report)(const char *path, void *context), void *context, struct err *e) {
        int removed = 0, failed = 0;
        struct parent parent = { 0 };
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
