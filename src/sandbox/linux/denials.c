/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/denials.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "sandbox/linux/mask_again.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#define BEGIN_NS (100 * NS_PER_MS)
/* After a look, another one: a directory may have been filled before it was watched. */
#define AGAIN_NS (200 * NS_PER_MS)
#define UNWATCHED_NS (1000 * NS_PER_MS)

static int denials_add(struct denials *d, const char *path) {
        for (size_t i = 0; i < d->paths.n; i++)
                if (strcmp(d->paths.p[i], path) == 0)
                        return 0;

        cleanup(free_ptr) char *copy = strdup(path);
        if (!copy || vec_push(&d->paths, copy) < 0)
                return -ENOMEM;

        take_ptr(&copy);
        return 0;
}

/* The sandbox has its own there, unless a person said otherwise. */
static bool is_private(const char *path) {
        for (const char *const *dir = plan_private_dirs; *dir; dir++)
                if (path_is_within(path, *dir))
                        return true;
        return false;
}

static bool denials_denies(const struct path_rules *rules, const struct path_rule *rule) {
        return rule->decides_read && !rule->grants && !rule->is_glob &&
               !(rule->built_in && is_private(rule->pattern)) &&
               path_rules_host_access(rules, rule->pattern, NULL) == PATH_DENIED;
}

/* In the sandbox's own home the host's directory does not exist, and grants below it are in a directory of the
 * sandbox's: a mask would hide those grants and nothing else. */
static bool holds_grant_in_own_home(const struct path_rules *rules, const char *path) {
        bool in_own = false, holds_grant = false;

        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                bool around = !rule->is_glob && path_is_within(path, rule->pattern);

                if (rule->own)
                        in_own |= around;
                else if (rule->grants && around && !path_is_within(rule->pattern, path) && in_own)
                        return false; /* a part of the real home is laid in, with what is denied in it */
                else if (rule->grants && !rule->is_glob)
                        holds_grant |= path_is_within(rule->pattern, path);
        }

        return in_own && holds_grant;
}

/* Only granted and laid parts of the real home are there. Everything else is the sandbox's own: a mask there would hide
 * files that Bailey itself put below it. */
static bool is_of_own_home(const struct plan_host *host, const char *path) {
        const char *home = host->home.path;

        if (!home || !path_is_within(path, home))
                return false;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *shown = &host->paths.p[i];
                if (shown->grants && shown->type != PLAN_PATH_MISSING && strcmp(shown->path, home) != 0 &&
                    path_is_within(shown->path, home) && path_is_within(path, shown->path))
                        return false;
        }

        for (size_t i = 0; i < host->home.laid.n; i++)
                if (path_is_within(path, host->home.laid.p[i].path))
                        return false;

        return true;
}

/* As the rules spell them, for what is not there yet, and as the survey found them, where links lead elsewhere. */
static int denials_collect(struct denials *denials) {
        int r = 0;
        for (size_t i = 0; i < path_rules_count(denials->rules) && r == 0; i++) {
                const struct path_rule *rule = path_rules_at(denials->rules, i);
                if (denials_denies(denials->rules, rule) && !is_of_own_home(denials->host, rule->pattern) &&
                    !holds_grant_in_own_home(denials->rules, rule->pattern))
                        r = denials_add(denials, rule->pattern);
        }

        for (size_t i = 0; i < denials->host->paths.n && r == 0; i++) {
                const struct plan_path *path = &denials->host->paths.p[i];
                if (path->access == PATH_DENIED && path->type != PLAN_PATH_MISSING && !is_private(path->path) &&
                    !holds_grant_in_own_home(denials->rules, path->path))
                        r = denials_add(denials, path->path);
        }

        return r;
}

static int denials_remember(struct denials *d, int watch, const char *path) {
        for (size_t i = 0; i < d->dirs.n; i++)
                if (d->dirs.p[i].watch == watch && strcmp(d->dirs.p[i].path, path) == 0)
                        return 0;

        struct denials_dir dir = { watch, strdup(path) };
        if (!dir.path || vec_push(&d->dirs, dir) < 0) {
                free(dir.path);
                return -ENOMEM;
        }

        return 1;
}

/* The nearest directory above that exists. 1: it was not watched before. */
static int watch_above(struct denials *denials, const char *path) {
        const uint32_t mask = IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR;
        char dir[PATH_MAX];

        if (strlen(path) >= sizeof dir)
                return -ENAMETOOLONG;

        memcpy(dir, path, strlen(path) + 1);

        for (char *slash; (slash = strrchr(dir, '/'));) {
                slash[slash == dir] = '\0';
                int watch = inotify_add_watch(denials->news, dir, mask);
                if (watch >= 0)
                        return denials_remember(denials, watch, dir);
                if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                        return -errno;
                if (slash == dir)
                        return 0;
        }

        return 0;
}

/* Neighbours are mostly in one directory, and it has been looked at. */
static bool same_dir(const char *a, const char *b) {
        size_t n = (size_t)(strrchr(a, '/') - a);
        return (size_t)(strrchr(b, '/') - b) == n && memcmp(a, b, n) == 0;
}

static int watch_all(struct denials *denials) {
        int fresh = 0;

        for (size_t i = 0; i < denials->paths.n; i++) {
                if (i > 0 && same_dir(denials->paths.p[i], denials->paths.p[i - 1]))
                        continue;

                int r = watch_above(denials, denials->paths.p[i]);
                if (r < 0)
                        return r;

                fresh += r;
        }

        return fresh;
}

static int by_text(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int denials_open(struct denials *denials, pid_t init, const struct path_rules *rules, const struct plan_host *host,
                 struct err *err) {
        char path[48];

        snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)init);
        denials->mounts = open(path, O_RDONLY | O_CLOEXEC);
        if (denials->mounts < 0 && errno == ENOENT)
                return 0; /* init is gone already, and says why */
        if (denials->mounts < 0)
                return err_errno(err, "cannot open %s", path);

        denials->rules = rules;
        denials->host = host;

        return 0;
}

void denials_begin(struct denials *denials) {
        if (denials->mounts >= 0)
                denials->next_ns = clock_ns() + BEGIN_NS;
}

static int denials_watch(struct denials *denials) {
        denials->begun = true;
        int r = denials_collect(denials);
        if (r < 0)
                return r;
        if (denials->paths.n > 1)
                qsort(denials->paths.p, denials->paths.n, sizeof *denials->paths.p, by_text);

        denials->news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        return 0;
}

/* The first path that the name is, or is on the way to; d->paths.n: none. */
static size_t find_below(const struct denials *denials, const char *dir, const char *name) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
        if (n < 0 || (size_t)n >= sizeof path)
                return 0;

        for (size_t i = 0; i < denials->paths.n; i++)
                if (path_is_within(denials->paths.p[i], path))
                        return i;

        return denials->paths.n;
}

/* Which of the paths it is about; d->paths.n: none. If that is unclear, the first. A directory may be known by two
 * paths, one of them through a link. */
static size_t denials_concerned(const struct denials *denials, const struct inotify_event *event) {
        size_t found = denials->paths.n;
        if (event->len == 0) {
                if (event->mask & IN_IGNORED)
                        return found;
                return 0;
        }
        for (size_t i = 0; i < denials->dirs.n && found == denials->paths.n; i++)
                if (denials->dirs.p[i].watch == event->wd)
                        found = find_below(denials, denials->dirs.p[i].path, event->name);
        return found;
}

static void denials_forget(struct denials *denials, int watch) {
        for (size_t i = denials->dirs.n; i-- > 0;)
                if (denials->dirs.p[i].watch == watch) {
                        free(denials->dirs.p[i].path);
                        denials->dirs.p[i] = denials->dirs.p[--denials->dirs.n];
                }
}

static size_t read_events(struct denials *denials) {
        _Alignas(struct inotify_event) char events[16384];
        size_t found = denials->paths.n;
        ssize_t n = read(denials->news, events, sizeof events);
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *event = (const struct inotify_event *)(events + at);
                size_t path = denials_concerned(denials, event);
                if (path < found)
                        found = path;

                if (event->mask & (IN_IGNORED | IN_MOVE_SELF)) { /* elsewhere its path would be another */
                        if (event->mask & IN_MOVE_SELF)
                                (void)inotify_rm_watch(denials->news, event->wd);
                        denials_forget(denials, event->wd);
                }

                at += (ssize_t)(sizeof *event + event->len);
        }

        return found;
}

/* Masks first. What was filled before it was watched is found by the next look. */
static int denials_look(struct denials *denials, size_t first, bool news) {
        int masked = mask_again(denials->mounts, denials->paths.p, denials->paths.n, first);
        int fresh = masked < 0 || denials->news < 0 ? 0 : watch_all(denials);
        if (fresh < 0) { /* too many, for this user */
                close_fd(&denials->news);
                fresh = 0;
        }

        if (denials->news < 0)
                denials->next_ns = clock_ns() + UNWATCHED_NS;
        else if (news || fresh > 0 || masked > 0)
                denials->next_ns = clock_ns() + AGAIN_NS;
        else
                denials->next_ns = 0;
        return masked;
}

int denials_step(struct denials *denials, struct err *err) {
        bool due = denials->next_ns && clock_ns() >= denials->next_ns;
        int r = due && !denials->begun ? denials_watch(denials) : 0;
        size_t first = denials->news >= 0 ? read_events(denials) : denials->paths.n;
        bool news = first < denials->paths.n;
        if (r == 0 && denials->paths.n && (news || due))
                r = denials_look(denials, news ? first : 0, news);
        else if (due)
                denials->next_ns = 0; /* nothing is denied */

        if (r < 0)
                return err_set(err, -r, "a denied path may have been replaced outside, and could not be closed again");

        return r;
}

void denials_done(struct denials *d) {
        close_fd(&d->news);
        close_fd(&d->mounts);
        for (size_t i = 0; i < d->paths.n; i++)
                free(d->paths.p[i]);

        for (size_t i = 0; i < d->dirs.n; i++)
                free(d->dirs.p[i].path);

        vec_done(&d->paths);
        vec_done(&d->dirs);
}
