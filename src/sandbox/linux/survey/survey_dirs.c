/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories that the survey looks into. Rules name few directories and many names in them, almost none of which
 * exist; so a directory is opened once, from its parent, and a name costs one short look-up from there. A path is held
 * to be what it is at this one moment: later names are looked up in the same directory, whatever its path leads to by
 * then.
 */
#include "sandbox/linux/survey/survey_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void survey_dir_done(struct survey_dir *dir) {
        free(dir->path);
        free(dir->real);
        free(dir->names);
        free(dir->listing);
        close_fd(&dir->fd);
        *dir = (struct survey_dir){ .fd = -1 };
}

void survey_dirs_done(struct survey_dirs *dirs) {
        for (size_t i = 0; i < dirs->n; i++)
                survey_dir_done(&dirs->d[i]);
        dirs->n = dirs->next = 0;
}

static struct survey_dir *dirs_find(struct survey_dirs *dirs, struct str path) {
        for (size_t i = dirs->n; i-- > 0;)
                if (dirs->d[i].path_n == path.n && memcmp(dirs->d[i].path, path.p, path.n) == 0)
                        return &dirs->d[i];
        return NULL;
}

/* The oldest goes when there is no room. */
static struct survey_dir *dirs_keep(struct survey_dirs *dirs, struct survey_dir made) {
        struct survey_dir *slot = &dirs->d[dirs->next];

        if (dirs->next < dirs->n)
                survey_dir_done(slot);
        else
                dirs->n++;

        dirs->next = (dirs->next + 1) % SURVEY_DIRS_MAX;
        *slot = made;

        return slot;
}

bool survey_dir_lacks(struct survey_dir *dir, const char *name) {
        if (dir->looks == NAMES_WORTH)
                dir->names = calloc(1, sizeof *dir->names);
        if (dir->names)
                names_look(dir->names, dir->fd, dir->looks);

        dir->looks++;
        return dir->names && names_lack(dir->names, name);
}

int survey_dir_list(struct survey_dir *dir, struct str *ret) {
        cleanup(listing_close) struct listing *listing = dir->error || dir->listed ? NULL : listing_open(dir->fd, ".");
        VEC(char) names = { 0 };
        int r = 0;

        if (dir->error && !path_error_answers(dir->error))
                return -dir->error;
        if (!dir->error && !dir->listed && !listing && !path_error_answers(errno))
                return -errno;

        for (const struct dirent64 *entry; r == 0 && listing && (entry = listing_next(listing));)
                for (size_t i = 0, n = strlen(entry->d_name) + 1; r == 0 && i < n; i++)
                        r = vec_push(&names, entry->d_name[i]);

        if (r == 0 && listing)
                r = -listing_error(listing);

        if (r < 0) {
                vec_done(&names);
                return r;
        }

        if (!dir->listed) {
                dir->listing = names.p;
                dir->listing_n = names.n;
                dir->listed = true;
        }

        *ret = str_n(dir->listing, dir->listing_n);
        return 0;
}

int survey_place(struct survey_dirs *dirs, const char *path, struct survey_place *ret) {
        const char *slash = strrchr(path, '/');

        ret->dir = survey_dir(dirs, str_n(path, slash > path ? (size_t)(slash - path) : 1));
        ret->name = slash + 1;
        if (!ret->dir)
                return -ENOMEM;

        return 0;
}

int survey_look(const struct survey_place *at, struct stat *ret) {
        if (at->dir->error)
                return at->dir->error;
        if (at->name[0] && survey_dir_lacks(at->dir, at->name))
                return ENOENT;
        if (fstatat(at->dir->fd, at->name, ret, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
                return errno;

        return 0;
}

static const int open_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

/* Through a link, or where something that is no directory stands. */
static void open_by_path(struct survey_dir *dir, const char *as_spelled) {
        dir->real = realpath(dir->path, NULL);
        if (dir->real)
                dir->fd = open(dir->real, open_flags | O_NOFOLLOW);
        else
                dir->fd = -1;
        dir->error = dir->fd >= 0 ? 0 : errno;
        if (!dir->real)
                dir->real = strdup(as_spelled);
}

static bool open_below(struct survey_dir *dir, struct survey_dir *parent, const char *name) {
        cleanup(free_ptr) char *real = path_join(parent->real, name);
        if (!real)
                return false;

        if (parent->error) {
                dir->error = parent->error;
                dir->real = take_ptr(&real);
                return true;
        }

        if (survey_dir_lacks(parent, name)) {
                dir->error = ENOENT;
                dir->real = take_ptr(&real);
                return true;
        }

        dir->fd = openat(parent->fd, name, open_flags | O_NOFOLLOW);
        dir->error = dir->fd >= 0 ? 0 : errno;
        if (dir->error == 0 || dir->error == ENOENT)
                dir->real = take_ptr(&real);
        else
                open_by_path(dir, real);

        return dir->real;
}

/* The nearest directory above that is known already. */
static struct survey_dir *find_above(struct survey_dirs *dirs, struct str path) {
        for (ptrdiff_t slash; (slash = str_rfind(path, '/')) > 0;) {
                path = str_first(path, (size_t)slash);
                struct survey_dir *known = dirs_find(dirs, path);
                if (known)
                        return known;
        }
        return dirs_find(dirs, STR("/"));
}

/* Several components at once, where no link is among them: one call instead of one for each. False: step by step. */
static bool open_far_below(struct survey_dir *dir, struct survey_dir *above) {
        struct str rest = str_skip(str_of(dir->path), above->path_n > 1 ? above->path_n + 1 : 1), more = rest, first;

        if (above->error || !str_split(&more, '/', &first) || !more.n)
                return false;

        cleanup(free_ptr) char *name = str_dup(first);
        cleanup(free_ptr) char *real = path_join(above->real, rest.p);
        if (!name || !real)
                return false;

        int fd = survey_dir_lacks(above, name)
                     ? -ENOENT
                     : path_open_at(above->fd, rest.p, O_PATH | O_DIRECTORY, 0, PATH_NO_SYMLINKS | PATH_BENEATH);
        if (fd < 0 && fd != -ENOENT)
                return false;

        dir->fd = fd < 0 ? -1 : fd;
        dir->error = fd < 0 ? ENOENT : 0;
        dir->real = take_ptr(&real);

        return true;
}

static bool open_stepwise(struct survey_dirs *dirs, struct survey_dir *made) {
        struct str path = str_of(made->path);
        ptrdiff_t slash = str_rfind(path, '/');
        struct survey_dir *parent = survey_dir(dirs, str_first(path, slash ? (size_t)slash : 1));

        return parent && open_below(made, parent, made->path + slash + 1);
}

struct survey_dir *survey_dir(struct survey_dirs *dirs, struct str path) {
        struct survey_dir *known = dirs_find(dirs, path);
        if (known)
                return known;

        cleanup(survey_dir_done) struct survey_dir made = { .path = str_dup(path), .path_n = path.n, .fd = -1 };
        if (!made.path)
                return NULL;

        if (path.n <= 1) {
                made.real = strdup("/");
                made.fd = open("/", open_flags);
                made.error = made.fd >= 0 ? 0 : errno;
        } else {
                struct survey_dir *above = find_above(dirs, path);
                if (!(above && open_far_below(&made, above)) && !open_stepwise(dirs, &made))
                        return NULL;
        }

        if (!made.real)
                return NULL;

        struct survey_dir kept = made;
        made = (struct survey_dir){ .fd = -1 };

        return dirs_keep(dirs, kept);
}
