/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three things that no guard can represent, because they are unknown at launch: repositories, wherever they lie or
 * appear (made/repos.h), settings of agents below the top (made/settings.h), and files that have names elsewhere
 * (shared.h).
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/paths/deep_settings.h"
#include "sandbox/linux/broker/broker_ops.h"
#include "sandbox/linux/broker/made/repos.h"
#include "sandbox/linux/broker/made/settings.h"
#include "sandbox/linux/broker/shared.h"
#include "sandbox/linux/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int judge_repository(struct held *held, const struct place *place) {
        struct closed_look look;
        int r;

        if (!held->broker->repos || place->path[0] != '/')
                return 0;

        r = repos_judge(held->broker->repos, place->path);
        if (r != -EACCES)
                return r;

        closed_look(held->broker->closed, place->path, &look);
        if (look.guard)
                return 0; /* known at launch: its guard has been asked */

        held->glob = PLAN_REPOSITORY_WHY;
        return r;
}

/* The guard of a name at the top judges that name, and nothing behind it. */
static size_t guarded_n(const struct closed_look *look) {
        return look->guard ? strlen(look->guard->path) : 0;
}

int judge_parts(struct held *held, const struct place *place) {
        struct deep_found found;
        struct closed_look look;
        int r = judge_repository(held, place);

        if (r < 0 || !held->broker->settings || place->path[0] != '/' || !deep_settings_find(place->path, 0, &found))
                return r;

        closed_look(held->broker->closed, place->path, &look);
        if (settings_judge(held->broker->settings, place->path, guarded_n(&look)) == 0)
                return 0;

        held->glob = DEEP_SETTINGS_WHY;
        return -EACCES;
}

int judge_settings(struct held *held, const struct place *place, const struct closed_look *look, mode_t kind) {
        bool brought = kind != S_IFDIR || held->moves;
        int r;

        if (!held->broker->settings)
                return 0;

        r = settings_making(held->broker->settings, place->path, guarded_n(look), brought, &held->noted);
        if (r == -EACCES)
                held->glob = DEEP_SETTINGS_WHY;

        return r;
}

/* One that was there at launch, and is guarded, is none that was made. */
static bool is_guarded_repository(const struct held *held, const char *path) {
        const char *slash = strrchr(path, '/');
        char config[PATH_MAX];
        struct closed_look look;

        if (snprintf(config, sizeof config, "%.*s/config", (int)(slash - path), path) >= (int)sizeof config)
                return true;

        closed_look(held->broker->closed, config, &look);
        return look.guard && look.guard->kind != PLAN_GUARD_MISSING;
}

int judge_founding(struct held *held, const struct place *place) {
        if (!held->broker->repos || !repos_founds(place->name) || is_guarded_repository(held, place->path))
                return 0;
        return repos_founding(held->broker->repos, place->path);
}

void note_made(struct held *held, const struct place *place, bool replaced) {
        if (held->noted)
                settings_made(held->broker->settings, place->path);
        if (!held->broker->repos || !repos_founds(place->name) || is_guarded_repository(held, place->path))
                return;
        repos_made(held->broker->repos, place->path, replaced);
}

int judge_moving(struct held *held, const struct place *from, const struct place *to, bool exchanged) {
        if (held->broker->notes)
                return notes_moving(held->broker->notes, from->path, to->path, exchanged);

        return 0;
}

void note_moved(struct held *held, const struct place *from, const struct place *to, bool exchanged) {
        if (held->broker->notes)
                notes_moved(held->broker->notes, from->path, to->path, exchanged);
}

void note_not_moved(struct held *held) {
        if (held->broker->notes)
                notes_not_moved(held->broker->notes);
}

/* --- files with several names --- */

static int part_from_others(struct place *place, bool empty) {
        char *slash = strrchr(place->path, '/');
        char directory[PATH_MAX];
        size_t n = (size_t)(slash - place->path);

        if (place->dir >= 0 && strcmp(place->name, slash + 1) == 0)
                return shared_part(place->dir, place->name, empty, &place->object);

        memcpy(directory, place->path, n);
        directory[n] = '\0';
        cleanup(close_fd) int dir = open(n ? directory : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (dir < 0)
                return -EACCES;

        return shared_part(dir, slash + 1, empty, &place->object);
}

int judge_shared(struct held *held, struct place *place, enum sharing sharing) {
        struct stat st;

        if (!held->broker->shared || place->path[0] != '/' || place->object < 0)
                return 0;
        if (fstat(place->object, &st) < 0)
                return -errno;

        if (st.st_nlink < 2 || !S_ISREG(st.st_mode) || !repos_cover(held->broker->repos, place->path) ||
            !shared_is_foreign(held->broker->shared, &st))
                return 0;

        if (sharing != SHARING_ENDS && sharing != SHARING_ENDS_EMPTY) {
                held->glob = PLAN_SHARED_WHY;
                return -EACCES;
        }

        int r = part_from_others(place, sharing == SHARING_ENDS_EMPTY);
        if (r == 0)
                shared_unlinked(held->broker->shared,
                                &st); /* the file has one name less here: the others are judged anew */

        if (r == 0 && held->broker->fresh)
                fresh_made(held->broker->fresh, place->object, "");

        return r;
}

void note_linked(struct held *held, int object) {
        struct stat st;

        if (!held->broker->shared || fstat(object, &st) < 0)
                return;
        st.st_nlink--; /* as it was before */
        shared_linked(held->broker->shared, &st);
}

void note_replacing(struct held *held, const struct place *to) {
        struct stat st;

        if (!held->broker->repos || (!repos_founds(to->name) && !shared_knows_any(held->broker->shared)))
                return;
        held->replaces = fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (held->replaces)
                shared_unlinked(held->broker->shared, &st);
}

void note_unlinked(struct held *held, const struct place *place) {
        struct stat st;

        if (!held->broker->shared || !shared_knows_any(held->broker->shared))
                return;
        if (fstatat(place->dir, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                shared_unlinked(held->broker->shared, &st);
}
