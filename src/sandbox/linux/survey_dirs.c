/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories that the survey looks into. Rules name few directories and many names in them, almost none of which
 * exist; so a directory is opened once, from its parent, and a name costs one short look-up from there. A path is held
 * to be what it is at this one moment: later names are looked up in the same directory, whatever its path leads to by
 * then.
 */
#include "sandbox/linux/survey.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void survey_dir_done(struct survey_dir *d) {
        free(d->path);
        free(d->real);
        free(d->names);
        close_fd(&d->fd);
        *d = (struct survey_dir){ .fd = -1 };
}

void survey_dirs_done(struct survey_dirs *dirs) {
        for (size_t i = 0; i < dirs->n; i++)
                survey_dir_done(&dirs->d[i]);
        dirs->n = dirs->next = 0;
}

static struct survey_dir *find(struct survey_dirs *dirs, struct str path) {
        for (size_t i = dirs->n; i-- > 0;)
                if (dirs->d[i].path_n == path.n && memcmp(dirs->d[i].path, path.p, path.n) == 0)
                        return &dirs->d[i];
        return NULL;
}

/* The oldest goes when there is no room. */
static struct survey_dir *keep(struct survey_dirs *dirs, struct survey_dir made) {
        struct survey_dir *slot = &dirs->d[dirs->next];
        if (dirs->next < dirs->n)
                survey_dir_done(slot);
        else
                dirs->n++;
        dirs->next = (dirs->next + 1) % SURVEY_DIRS_MAX;
        *slot = made;
        return slot;
}

static const int open_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

/* Through a link, or where something that is no directory stands. */
static void open_by_path(struct survey_dir *d, const char *as_spelled) {
        d->real = realpath(d->path, NULL);
        d->fd = d->real ? open(d->real, open_flags | O_NOFOLLOW) : -1;
        d->error = d->fd >= 0 ? 0 : errno;
        if (!d->real)
                d->real = strdup(as_spelled);
}

static bool open_below(struct survey_dir *d, const struct survey_dir *parent, const char *name) {
        cleanup(free_ptr) char *real = path_join(parent->real, name);
        if (!real)
                return false;
        if (parent->error) {
                d->error = parent->error;
                d->real = take_ptr(&real);
                return true;
        }
        d->fd = openat(parent->fd, name, open_flags | O_NOFOLLOW);
        d->error = d->fd >= 0 ? 0 : errno;
        if (d->error == 0 || d->error == ENOENT)
                d->real = take_ptr(&real);
        else
                open_by_path(d, real);
        return d->real;
}

struct survey_dir *survey_dir(struct survey_dirs *dirs, struct str path) {
        struct survey_dir *known = find(dirs, path);
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
                ptrdiff_t slash = str_rfind(path, '/');
                const struct survey_dir *parent = survey_dir(dirs, str_first(path, slash ? (size_t)slash : 1));
                if (!parent || !open_below(&made, parent, made.path + slash + 1))
                        return NULL;
        }
        if (!made.real)
                return NULL;
        struct survey_dir kept = made;
        made = (struct survey_dir){ .fd = -1 };
        return keep(dirs, kept);
}
