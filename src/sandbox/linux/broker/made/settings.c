/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/made/settings.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/vec.h"
#include "policy/paths/deep_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
        OWN_MAX = 1024, /* objects that are held; the oldest goes first, and is closed from then on */
        OWN_SHARE = 8,  /* and no more than this part of the descriptors that there may be */
};

struct own {
        dev_t dev;
        ino_t ino;
        int held; /* O_PATH, so that the number is not used again */
};

struct settings {
        VEC(const char *) roots;  /* directories that the sandbox may write, with guards in them */
        VEC(const char *) grants; /* they, and whatever else is granted for writing */
        struct own own[OWN_MAX];
        size_t n_own; /* that were ever learned */
        size_t most;  /* of them at once */
        struct notes *notes;
};

void settings_free(struct settings *settings) {
        if (!settings)
                return;

        for (size_t i = 0; i < settings->n_own && i < settings->most; i++)
                close_fd(&settings->own[i].held);

        vec_done(&settings->roots);
        vec_done(&settings->grants);
        free(settings);
}

void settings_freep(struct settings **settings) {
        settings_free(*settings);
        *settings = NULL;
}

static int add_grants(struct settings *settings, const struct plan *plan) {
        int r = 0;

        for (size_t i = 0; i < settings->roots.n && r == 0; i++)
                r = vec_push(&settings->grants, settings->roots.p[i]);

        for (size_t i = 0; i < plan->openings.n && r == 0; i++)
                r = vec_push(&settings->grants, plan->openings.p[i]);

        for (size_t i = 0; i < plan->path_rules.n && r == 0; i++)
                if (plan->path_rules.p[i].grants && !plan->path_rules.p[i].decides_read)
                        r = vec_push(&settings->grants, plan->path_rules.p[i].pattern);

        return r;
}

static const char *root_of(const struct settings *settings, const char *path) {
        for (size_t i = 0; i < settings->roots.n; i++)
                if (path_is_within(path, settings->roots.p[i]))
                        return settings->roots.p[i];
        return NULL;
}

static size_t own_most(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / OWN_SHARE >= OWN_MAX)
                return OWN_MAX;

        return max_of((size_t)limit.rlim_cur / OWN_SHARE, 1);
}

int settings_new(const struct plan *plan, struct notes *notes, struct settings **ret) {
        cleanup(settings_freep) struct settings *settings = calloc(1, sizeof *settings);

        if (!settings)
                return -ENOMEM;

        settings->notes = notes;
        settings->most = own_most();
        for (size_t i = 0; i < plan->guards.n; i++) {
                const char *root = plan->guards.p[i].root;
                if (root && root[0] == '/' && root[1] && !root_of(settings, root) &&
                    vec_push(&settings->roots, root) < 0)
                        return -ENOMEM;
        }

        if (add_grants(settings, plan) < 0)
                return -ENOMEM;

        *ret = take_ptr(&settings);
        return 0;
}

/* --- what is the sandbox's own --- */

/* By its object and by its path: another name of the same file is another matter. */
static bool is_own(const struct settings *settings, const char *path) {
        size_t n = min_of(settings->n_own, settings->most);
        struct stat st;

        if (!notes_have(settings->notes, NOTE_SETTINGS, path) || lstat(path, &st) < 0)
                return false;

        for (size_t i = n; i-- > 0;)
                if (settings->own[i].ino == st.st_ino && settings->own[i].dev == st.st_dev)
                        return true;

        return false;
}

void settings_made(struct settings *settings, const char *path) {
        struct own *slot = &settings->own[settings->n_own % settings->most];
        struct stat st;

        if (is_own(settings, path))
                return;

        int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0) {
                close_fd(&fd);
                return;
        }

        if (settings->n_own >= settings->most)
                close_fd(&slot->held);

        *slot = (struct own){ st.st_dev, st.st_ino, fd };
        settings->n_own++;
}

/* --- which paths --- */

/* Where an overlay is mounted below a root, nothing reaches the host. */
static bool is_overlaid(const char *root, const char *path) {
        char directory[PATH_MAX];
        size_t n = (size_t)(strrchr(path, '/') - path);
        struct stat of_root, st;
        struct statfs fs;

        if (n == 0 || n >= sizeof directory)
                return false;

        memcpy(directory, path, n);
        directory[n] = '\0';
        return stat(root, &of_root) == 0 && stat(directory, &st) == 0 && of_root.st_dev != st.st_dev &&
               statfs(directory, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* How much of the path a grant names itself; nothing in that much of it is closed by its name. */
static size_t granted_n(const struct settings *settings, const char *path) {
        size_t most = 0;

        for (size_t i = 0; i < settings->grants.n; i++)
                if (path_is_within(path, settings->grants.p[i]))
                        most = max_of(most, strlen(settings->grants.p[i]));
        return most;
}

/* The last name in the path: what lies in a directory of the sandbox's own may have come along with it, and may be
 * taken out of it again. */
static bool find_last(const char *path, size_t from, struct deep_found *ret) {
        bool found = false;

        for (; deep_settings_find(path, from, ret); from = ret->n)
                found = true;
        return found;
}

/* *ret_above: see struct deep_found. */
static bool is_covered(const struct settings *settings, const char *path, size_t from, bool brought,
                       size_t *ret_above) {
        struct deep_found found;
        bool whole = deep_settings_find(path, from, &found);

        if (!whole && !(brought && deep_settings_begins(path, from)))
                return false; /* nearly always */

        const char *root = root_of(settings, path);
        if (!root)
                return false;

        from = max_of(from, granted_n(settings, path));
        if (brought && deep_settings_begins(path, from))
                *ret_above = strlen(path);
        else if (find_last(path, from, &found))
                *ret_above = found.above;
        else
                return false;

        return !is_overlaid(root, path);
}

/* The path or a directory above it, as far as the name, is something that the sandbox made. */
static bool is_in_own(const struct settings *settings, const char *path, size_t above) {
        char part[PATH_MAX];
        size_t n = strlen(path);

        if (n >= sizeof part)
                return false;

        memcpy(part, path, n + 1);
        for (; above <= n; above++) {
                if (path[above] != '/' && path[above] != '\0')
                        continue;

                part[above] = '\0';
                if (is_own(settings, part))
                        return true;
                part[above] = path[above];
        }

        return false;
}

int settings_judge(const struct settings *settings, const char *path, size_t from) {
        size_t above;

        if (!is_covered(settings, path, from, false, &above) || is_in_own(settings, path, above))
                return 0;

        return -EACCES;
}

int settings_making(struct settings *settings, const char *path, size_t from, bool brought, bool *ret_noted) {
        struct stat st;
        size_t above;
        int r;

        if (!is_covered(settings, path, from, brought, &above))
                return 0;

        if (is_in_own(settings, path, above)) {
                *ret_noted |=
                    notes_have(settings->notes, NOTE_SETTINGS, path); /* another object may come in its place */
                return 0;
        }

        if (lstat(path, &st) == 0 || !path_error_answers(errno))
                return -EACCES;
        if (!notes_are_kept(settings->notes))
                return -EACCES; /* nobody would move it away */
        if (notes_are_full(settings->notes, NOTE_SETTINGS))
                return -EDQUOT;

        r = notes_add(settings->notes, NOTE_SETTINGS, path);
        if (r == 0)
                *ret_noted = true;

        return r;
}
