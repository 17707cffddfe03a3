/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that git's configuration came to name while the sandbox ran. What was written there during the run is moved
 * away like anything else under a protected name, whoever wrote it: a file does not tell.
 *
 * Git runs the files of a directory of hooks, and nothing below it. A file counts as written when its status changed
 * since the run began, which no program can set.
 */
#include "kept/guard_registry.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/listing.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef VEC(char *) written_paths;

static void written_done(written_paths *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

/* Takes the path. */
static int written_add(written_paths *list, char *given) {
        cleanup(free_ptr) char *path = given;

        if (!path || vec_push(list, path) < 0)
                return -ENOMEM;

        take_ptr(&path);
        return 0;
}

/* A person named this very file for writing. */
static bool is_granted(const struct plan_host *host, const char *path) {
        for (size_t i = 0; i < host->paths.n; i++)
                if (host->paths.p[i].grants && host->paths.p[i].access == PATH_WRITE &&
                    strcmp(host->paths.p[i].path, path) == 0)
                        return true;
        return false;
}

static int look_in_directory(const char *directory, uint64_t since_us, written_paths *ret) {
        cleanup(listing_close) struct listing *files = listing_open(AT_FDCWD, directory);
        struct stat st;
        int r = 0;

        if (!files && !path_error_answers(errno))
                return -errno;
        if (!files) /* closed to its owner: nobody but the sandbox does that */
                return lstat(directory, &st) == 0 && clock_is_since(&st, since_us) ? written_add(ret, strdup(directory))
                                                                                   : 0;

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(files));) {
                if (fstatat(listing_fd(files), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode))
                        continue;
                if (clock_is_since(&st, since_us))
                        r = written_add(ret, path_join(directory, entry->d_name));
        }

        return r == 0 ? -listing_error(files) : r;
}

static int look_at_named(const struct plan_path *named, uint64_t since_us, written_paths *ret) {
        struct stat st;

        if (lstat(named->path, &st) < 0)
                return path_error_answers(errno) ? 0 : -errno;
        if (S_ISDIR(st.st_mode))
                return look_in_directory(named->path, since_us, ret);

        return clock_is_since(&st, since_us) ? written_add(ret, strdup(named->path)) : 0;
}

int guards_end_named(struct guards *guards, const struct policy *policy, const struct path_rules *rules,
                     const struct plan_host *host, struct err *err) {
        cleanup(written_done) written_paths written = { 0 };
        struct plan_host now = { 0 };
        int r;

        if (!guards->began_us || !survey_git_changed(host, guards->began_us))
                return 0;

        r = survey_git_named(policy, rules, host, &now, err);
        for (size_t i = 0; i < now.paths.n && r == 0; i++) {
                /* What the sandbox wrote into an overlay is not there, and `bailey apply` looks for itself. */
                if (guards_overlaid(policy, now.paths.p[i].path))
                        continue;

                r = look_at_named(&now.paths.p[i], guards->began_us, &written);
                if (r < 0)
                        err_set(err, -r, "cannot look at %s, which git's configuration came to name: %s",
                                now.paths.p[i].path, strerror(-r));
        }

        if (now.git_incomplete)
                log_warning("what some of git's configuration has come to name was not looked at: " SURVEY_INCOMPLETE);

        survey_done(&now);
        if (r < 0)
                return r;

        size_t kept = 0;
        for (size_t i = 0; i < written.n; i++) {
                if (is_granted(host, written.p[i]))
                        free(written.p[i]);
                else
                        written.p[kept++] = written.p[i];
        }

        written.n = kept;
        return guards_add_missing(guards, (const char *const *)written.p, written.n, err);
}
