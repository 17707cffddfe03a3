/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept is bounded: a sandbox decides how much of it there is. The oldest runs go first. */
#include "kept/kept.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOKS_MAX = 200000, DEPTH_MAX = 64 };

struct kept_run {
        char *id;
        uint64_t bytes;
        time_t since;
};
typedef VEC(struct kept_run) kept_runs;

static void kept_runs_done(kept_runs *runs) {
        for (size_t i = 0; i < runs->n; i++)
                free(runs->p[i].id);
        vec_done(runs);
}

/* Its size on disk. A tree that is too large to walk counts as the whole allowance. */
static uint64_t prune_measure(int at, const char *name, unsigned depth, unsigned *looks) {
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        uint64_t bytes = 0;

        if (!dir) {
                close_fd(&fd);
                return 0;
        }

        for (struct dirent *entry; (entry = readdir(dir));) {
                struct stat st;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;

                if (++*looks > LOOKS_MAX || depth > DEPTH_MAX) {
                        bytes = KEPT_BYTES_MAX;
                        break;
                }

                if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;

                bytes += (uint64_t)st.st_blocks * 512;
                if (S_ISDIR(st.st_mode))
                        bytes += prune_measure(dirfd(dir), entry->d_name, depth + 1, looks);
        }

        closedir(dir);
        return bytes;
}

static int list_runs(int top, kept_runs *ret) {
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        unsigned looks = 0;
        int r = 0;

        if (!dir) {
                close_fd(&fd);
                return -EIO;
        }

        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                struct stat st;

                if (entry->d_name[0] == '.' || fstatat(top, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                    !S_ISDIR(st.st_mode))
                        continue;

                struct kept_run run = { strdup(entry->d_name), prune_measure(top, entry->d_name, 0, &looks),
                                        st.st_mtime };
                if (!run.id || vec_push(ret, run) < 0) {
                        free(run.id);
                        r = -ENOMEM;
                }
        }

        closedir(dir);
        return r;
}

static int by_time(const void *a, const void *b) {
        const struct kept_run *left = a, *right = b;

        if (left->since != right->since)
                return left->since < right->since ? -1 : 1;
        return strcmp(left->id, right->id);
}

int kept_prune(const char *except, kept_pruned *pruned, void *context) {
        cleanup(free_ptr) char *state = NULL, *path = NULL;
        cleanup(kept_runs_done) kept_runs runs = { 0 };
        time_t now = (time_t)(clock_wall_us() / 1000000);
        uint64_t all = 0;

        if (dirs_state(&state) < 0)
                return 0;

        path = path_join(state, "kept");
        if (!path)
                return -ENOMEM;

        cleanup(close_fd) int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (top < 0)
                return 0;

        int r = list_runs(top, &runs);
        if (r < 0)
                return r;

        if (runs.n > 1)
                qsort(runs.p, runs.n, sizeof *runs.p, by_time);

        for (size_t i = 0; i < runs.n; i++)
                all += runs.p[i].bytes;

        for (size_t i = 0; i < runs.n; i++) {
                bool old = runs.p[i].since + (time_t)KEPT_DAYS_MAX * 86400 < now;

                if (strcmp(runs.p[i].id, except) == 0 || (!old && all <= KEPT_BYTES_MAX))
                        continue;
                if (tree_remove(top, runs.p[i].id) < 0)
                        continue; /* tried again by the next */

                all -= runs.p[i].bytes;
                pruned(runs.p[i].id, context);
        }

        return 0;
}
