/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two things that no guard can stand for, because nobody could know of them at launch: repositories, wherever they lie
 * or appear (repos.h), and files that have names elsewhere (shared.h).
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker_ops.h"
#include "sandbox/linux/fresh.h"
#include "sandbox/linux/repos.h"
#include "sandbox/linux/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char closed_repository[] = "built in: git runs what it says, outside too";

int judge_repository(struct held *h, const struct place *p) {
        struct closed_look look;
        int r;

        if (!h->broker->repos || p->path[0] != '/')
                return 0;
        r = repos_judge(h->broker->repos, p->path);
        if (r != -EACCES)
                return r;

        closed_look(h->broker->closed, p->path, &look);
        if (look.guard)
                return 0; /* known at launch: its guard has been asked */
        h->glob = closed_repository;
        return r;
}

/* One that was there at launch, and is guarded, is none that was made. */
static bool is_guarded_repository(const struct held *h, const char *path) {
        const char *slash = strrchr(path, '/');
        char config[PATH_MAX];
        struct closed_look look;

        if (snprintf(config, sizeof config, "%.*s/config", (int)(slash - path), path) >= (int)sizeof config)
                return true;
        closed_look(h->broker->closed, config, &look);
        return look.guard && look.guard->kind != PLAN_GUARD_MISSING;
}

int judge_founding(struct held *h, const struct place *p) {
        if (!h->broker->repos || !repos_founds(p->name) || is_guarded_repository(h, p->path))
                return 0;
        return repos_founding(h->broker->repos, p->path);
}

void note_made(struct held *h, const struct place *p, bool replaced) {
        if (!h->broker->repos || !repos_founds(p->name) || is_guarded_repository(h, p->path))
                return;
        repos_made(h->broker->repos, p->path, replaced);
}

int judge_moving(struct held *h, const struct place *from, const struct place *to, bool exchanged) {
        return h->broker->repos ? repos_moving(h->broker->repos, from->path, to->path, exchanged) : 0;
}

void note_moved(struct held *h, const struct place *from, const struct place *to, bool exchanged) {
        if (h->broker->repos)
                repos_moved(h->broker->repos, from->path, to->path, exchanged);
}

void note_not_moved(struct held *h) {
        if (h->broker->repos)
                repos_not_moved(h->broker->repos);
}

/* --- files with several names --- */

static int part_from_others(struct place *p, bool empty) {
        char *slash = strrchr(p->path, '/');
        char directory[PATH_MAX];
        size_t n = (size_t)(slash - p->path);

        if (p->dir >= 0 && strcmp(p->name, slash + 1) == 0)
                return shared_part(p->dir, p->name, empty, &p->object);

        memcpy(directory, p->path, n);
        directory[n] = '\0';
        cleanup(close_fd) int dir = open(n ? directory : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return dir < 0 ? -EACCES : shared_part(dir, slash + 1, empty, &p->object);
}

int judge_shared(struct held *h, struct place *p, enum sharing sharing) {
        struct stat st;

        if (!h->broker->shared || p->path[0] != '/' || p->object < 0)
                return 0;
        if (fstat(p->object, &st) < 0)
                return -errno;
        if (st.st_nlink < 2 || !S_ISREG(st.st_mode) || !repos_cover(h->broker->repos, p->path) ||
            !shared_is_foreign(h->broker->shared, &st))
                return 0;
        if (sharing != SHARING_ENDS && sharing != SHARING_ENDS_EMPTY) {
                h->glob = "the file has another name, elsewhere";
                return -EACCES;
        }

        int r = part_from_others(p, sharing == SHARING_ENDS_EMPTY);
        if (r == 0)
                shared_unlinked(h->broker->shared,
                                &st); /* the file has one name less here: the others are judged anew */
        if (r == 0 && h->broker->fresh)
                fresh_made(h->broker->fresh, p->object, "");
        return r;
}

void note_linked(struct held *h, int object) {
        struct stat st;

        if (!h->broker->shared || fstat(object, &st) < 0)
                return;
        st.st_nlink--; /* as it was before */
        shared_linked(h->broker->shared, &st);
}

void note_replacing(struct held *h, const struct place *to) {
        struct stat st;

        if (!h->broker->repos || (!repos_founds(to->name) && !shared_knows_any(h->broker->shared)))
                return;
        h->replaces = fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (h->replaces)
                shared_unlinked(h->broker->shared, &st);
}

void note_unlinked(struct held *h, const struct place *p) {
        struct stat st;

        if (!h->broker->shared || !shared_knows_any(h->broker->shared))
                return;
        if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                shared_unlinked(h->broker->shared, &st);
}
