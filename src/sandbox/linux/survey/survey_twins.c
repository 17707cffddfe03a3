/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denied files that have a second name in a place that is granted: a mask covers one name, and the content could be
 * read by the other. Files that are denied rarely have one, and nothing is searched when none does. Names that the host
 * makes later are not known; changes are another matter (shared.h).
 *
 * It is a part of every launch. So Bailey's own state is left out: hundreds of records that only Bailey makes, each
 * with one name.
 */
#include "sandbox/linux/survey/survey_internal.h"

#include "base/cleanup.h"
#include "base/files/listing.h"
#include "base/paths/path.h"
#include "policy/home_kind.h"
#include "policy/paths/paths_builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        LOOKS_MAX = 256,    /* files in one denied directory, so that a large one takes nothing from the next */
        LOOKS_ALL = 4096,   /* in all of them */
        DENIED_DEPTH = 2,   /* below a denied directory */
        NAMES_MAX = 400000, /* in places that are granted */
        DEPTH_MAX = 128,
        TWINS_MAX = 256, /* names that are masked */
};

static const char why[] = "built in: another name of a file that may not be read";

struct file {
        dev_t dev;
        ino_t ino;
};

struct twins {
        VEC(struct file) files;
        VEC(char *) names;
        unsigned looks, all_looks, seen;
        bool failed;
        int doubt; /* errno of a look that told nothing */
};

static void twins_done(struct twins *t) {
        for (size_t i = 0; i < t->names.n; i++)
                free(t->names.p[i]);
        vec_done(&t->names);
        vec_done(&t->files);
}

static void add_file(struct twins *t, const struct stat *st) {
        const struct file file = { st->st_dev, st->st_ino };

        if (S_ISREG(st->st_mode) && st->st_nlink > 1)
                t->failed |= vec_push(&t->files, file) < 0;
}

static bool looks_left(const struct twins *twins) {
        return twins->looks < LOOKS_MAX && twins->all_looks < LOOKS_ALL;
}

static struct listing *open_listing(struct twins *twins, int at, const char *name) {
        struct listing *listing = listing_open(at, name);

        if (!listing && !path_error_answers(errno))
                twins->doubt = errno;
        return listing;
}

static void look_into_denied(struct twins *twins, int at, const char *path, unsigned depth) {
        cleanup(listing_close) struct listing *dir = looks_left(twins) ? open_listing(twins, at, path) : NULL;
        const struct dirent64 *entry;

        while (dir && looks_left(twins) && (entry = listing_next(dir))) {
                struct stat st;

                twins->looks++;
                twins->all_looks++;

                if (entry->d_type == DT_DIR && depth < DENIED_DEPTH)
                        look_into_denied(twins, listing_fd(dir), entry->d_name, depth + 1);
                else if (entry->d_type == DT_REG &&
                         fstatat(listing_fd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        add_file(twins, &st);
        }

        if (dir && listing_error(dir))
                twins->doubt = listing_error(dir);
}

static void look_at_denied(struct twins *twins, const struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                struct stat st;

                if (path->access != PATH_DENIED || path->grants || strcmp(path->origin, BUILT_IN_OWN_STATE) == 0)
                        continue;

                twins->looks = 0;

                if (path->type == PLAN_PATH_DIR)
                        look_into_denied(twins, AT_FDCWD, path->path, 1);
                else if (path->type == PLAN_PATH_FILE && lstat(path->path, &st) == 0)
                        add_file(twins, &st);
        }
}

/* With a home of its own the sandbox sees nothing of the user's, and there is no rule for what is in it. */
static void look_at_home(struct twins *twins, const struct policy *policy, struct survey_dirs *dirs) {
        if (!policy->home || !home_is_own(policy))
                return;

        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const char *name = builtin_deny_read[i].path;
                cleanup(free_ptr) char *path = name[0] == '~' ? path_join(policy->home, name + 2) : NULL;
                struct survey_place at;
                struct stat st;

                if (name[0] != '~' || strcmp(builtin_deny_read[i].reason, BUILT_IN_OWN_STATE) == 0)
                        continue;

                int missing = path && survey_place(dirs, path, &at) == 0 ? survey_look(&at, &st) : ENOMEM;
                if (missing && !path_error_answers(missing))
                        twins->doubt = missing;
                if (missing)
                        continue;

                twins->looks = 0;

                if (S_ISDIR(st.st_mode))
                        look_into_denied(twins, at.dir->fd, at.name, 1);
                else
                        add_file(twins, &st);
        }
}

static bool is_twin(const struct twins *twins, dev_t dev, ino_t ino) {
        for (size_t i = 0; i < twins->files.n; i++)
                if (twins->files.p[i].ino == ino && twins->files.p[i].dev == dev)
                        return true;
        return false;
}

static void add_name(struct twins *t, const char *directory, const char *name) {
        cleanup(free_ptr) char *path = t->names.n < TWINS_MAX ? path_join(directory, name) : NULL;

        if (!path || vec_push(&t->names, path) < 0)
                t->failed = true;
        else
                take_ptr(&path);
}

static void twins_search(struct twins *twins, int at, const char *name, const char *path, unsigned depth) {
        cleanup(listing_close) struct listing *dir = open_listing(twins, at, name);
        struct stat st;
        bool known = dir && fstat(listing_fd(dir), &st) == 0;

        for (const struct dirent64 *entry; known && twins->seen < NAMES_MAX && (entry = listing_next(dir));) {
                twins->seen++;

                if (entry->d_type == DT_DIR && depth < DEPTH_MAX) {
                        cleanup(free_ptr) char *below = path_join(path, entry->d_name);
                        if (below)
                                twins_search(twins, listing_fd(dir), entry->d_name, below, depth + 1);
                } else if (is_twin(twins, st.st_dev, entry->d_ino))
                        add_name(twins, path, entry->d_name);
        }

        if (dir && listing_error(dir))
                twins->doubt = listing_error(dir);
}

/* The workspace and what is granted of the home, if it can only be read, too: nothing else there holds a user's links.
 */
static bool is_searched(const struct policy *policy, const struct plan_path *root) {
        if (!root->grants || root->type != PLAN_PATH_DIR)
                return false;
        if (root->access == PATH_WRITE)
                return true;
        if (root->access != PATH_READ)
                return false;

        return (policy->workspace && path_is_within(root->path, policy->workspace)) ||
               (policy->home && path_is_within(root->path, policy->home) && strcmp(root->path, policy->home) != 0);
}

static void search_granted(struct twins *twins, const struct policy *policy, const struct plan_host *host) {
        bool whole = policy->workspace == NULL; /* the workspace was among them */

        for (size_t i = 0; twins->files.n && i < host->paths.n; i++) {
                const struct plan_path *root = &host->paths.p[i];

                if (!is_searched(policy, root))
                        continue;

                twins_search(twins, AT_FDCWD, root->path, root->path, 0);
                whole = whole || path_is_within(policy->workspace, root->path);
        }

        if (twins->files.n && !whole) /* it is read as a part of the home, without a grant of its own */
                twins_search(twins, AT_FDCWD, policy->workspace, policy->workspace, 0);
}

int survey_twins(const struct policy *policy, const struct path_rules *rules, struct survey_dirs *dirs,
                 struct plan_host *host, struct err *err) {
        cleanup(twins_done) struct twins twins = { 0 };

        look_at_denied(&twins, host);
        look_at_home(&twins, policy, dirs);

        search_granted(&twins, policy, host);

        if (twins.doubt)
                return survey_doubt(err, twins.doubt, "files that may not be read");

        if (twins.failed)
                return err_set(err, E2BIG,
                               "files that may not be read have more than %d other names in places that are granted",
                               TWINS_MAX);

        for (size_t i = 0; i < twins.names.n; i++) {
                const struct plan_path twin = { .path = twins.names.p[i],
                                                .type = PLAN_PATH_FILE,
                                                .access = PATH_DENIED,
                                                .protected = true,
                                                .origin = why };
                int r = 0;

                if (path_rules_host_access(rules, twin.path, NULL) != PATH_DENIED)
                        r = survey_add(host, twin, err);

                if (r < 0)
                        return r;
        }

        return 0;
}
