/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links on the way to a path.
 *
 * A grant holds for the target of its path, links followed. But a sandbox that may write in a directory may replace an
 * entry by a link, and so choose the target of the next run's grant. So links are trusted only outside the places that
 * sandboxes write to; through any other link a path gets only the access that its target has under its own name.
 *
 * A refusal holds for the target of its path too, but only as long as the path leads there: each link on the way that
 * lies where the sandbox may write is a guard of its own.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LED_HERE "built in: a link at a refused path leads here"
enum { LINKS_MAX = 40 };

/* The link's text comes before what is left of the way. */
static int way_take_link(struct survey_way *way) {
        char joined[sizeof way->rest];
        ssize_t n = readlink(way->link, way->text, sizeof way->text - 1);
        if (n < 0)
                return -errno;
        if (n <= 0)
                return -ENOENT;

        way->text[n] = '\0';

        int size = snprintf(joined, sizeof joined, "%s/%s", way->text, way->rest);
        if (size < 0 || (size_t)size >= sizeof joined)
                return -ENAMETOOLONG;

        memcpy(way->rest, joined, (size_t)size + 1);
        if (way->text[0] == '/')
                way->at[0] = '\0';

        return 0;
}

/* The next component, cut off the rest; false at the end. */
static bool way_take_name(struct survey_way *way, char name[static NAME_MAX + 1]) {
        const char *from = way->rest + strspn(way->rest, "/");
        size_t n = strcspn(from, "/");

        if (n == 0 || n > NAME_MAX)
                return false;

        memcpy(name, from, n);
        name[n] = '\0';
        memmove(way->rest, from + n, strlen(from + n) + 1);

        return true;
}

static int way_join(char ret[static PATH_MAX], const char *dir, const char *name) {
        int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);
        if (n < 0 || n >= PATH_MAX)
                return -ENAMETOOLONG;

        return 0;
}

/* If a path does not exist, the sandbox would make that name, and the rest below it. */
static int way_end_missing(struct survey_way *way, const char *here) {
        cleanup(free_ptr) char *whole = str_format("%s/%s", here, way->rest);
        cleanup(free_ptr) char *normal = NULL;

        if (!whole || path_normalise(str_of(whole), NULL, &normal) < 0 || strlen(normal) >= sizeof way->end)
                return -ENAMETOOLONG;
        memcpy(way->end, normal, strlen(normal) + 1);
        return -ENOENT;
}

void survey_way_begin(struct survey_way *way, const char *directory, const char *path) {
        way->links = 0;
        snprintf(way->at, sizeof way->at, "%s", directory);
        snprintf(way->rest, sizeof way->rest, "%s", path);
}

int survey_way_next(struct survey_way *way) {
        char name[NAME_MAX + 1], here[PATH_MAX];
        struct stat st;

        while (way_take_name(way, name)) {
                if (strcmp(name, ".") == 0)
                        continue;

                if (strcmp(name, "..") == 0) {
                        char *slash = strrchr(way->at, '/');
                        if (slash)
                                *slash = '\0';
                        continue;
                }

                if (way_join(here, way->at, name) < 0)
                        return -ENAMETOOLONG;
                if (lstat(here, &st) < 0) {
                        if (errno != ENOENT)
                                return -errno;
                        return way_end_missing(way, here);
                }

                if (!S_ISLNK(st.st_mode)) {
                        memcpy(way->at, here, strlen(here) + 1);
                        continue;
                }

                if (++way->links > LINKS_MAX)
                        return -ELOOP;

                const char *dir = way->at[0] ? way->at : "/";
                memcpy(way->dir, dir, strlen(dir) + 1);
                memcpy(way->link, here, strlen(here) + 1);
                int r = way_take_link(way);
                if (r == -ENOENT)
                        return way_end_missing(way, here); /* it was taken away just now */
                if (r != -EINVAL && r < 0)
                        return r;
                if (r != -EINVAL)
                        return 1;

                memcpy(way->at, here, strlen(here) + 1); /* or replaced by what is no link */
        }

        return 0;
}

/* Where the way has led by now, if the sandbox may write there: refused as the rule refuses its own path. */
static int add_led(const struct path_rules *rules, const struct path_rule *rule, const char *path, bool missing,
                   struct plan_host *host, struct err *err) {
        if (path_rules_access(rules, path, NULL) != PATH_WRITE)
                return 0;

        struct plan_path found = { .path = path, .type = PLAN_PATH_FILE, .access = PATH_READ, .origin = LED_HERE };
        found.protected = rule->protected;
        if (missing)
                found.type = PLAN_PATH_MISSING;
        if (rule->decides_read)
                found.access = PATH_DENIED;
        return survey_add(host, found, err);
}

static int survey_led(const struct path_rules *rules, const struct path_rule *rule, struct plan_host *host,
                      struct err *err) {
        struct survey_way way;
        int r = 0, step;

        survey_way_begin(&way, "", rule->pattern);
        while ((step = survey_way_next(&way)) == 1 && r == 0)
                r = add_led(rules, rule, way.link, false, host, err);

        if (r < 0 || way.links == 0)
                return r;
        if (step == 0)
                return add_led(rules, rule, way.at, false, host, err);
        return step == -ENOENT ? add_led(rules, rule, way.end, true, host, err) : 0;
}

int survey_refused_links(const struct path_rules *rules, struct plan_host *host, struct err *err) {
        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (rule->grants || rule->is_glob || rule->own)
                        continue;

                int r = survey_led(rules, rule, host, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

bool survey_may_write(const struct path_rules *rules, const char *workspace, const char *dir) {
        return (workspace && path_is_within(dir, workspace)) || path_rules_host_access(rules, dir, NULL) == PATH_WRITE;
}

bool survey_may_write_around(const struct path_rules *rules, const char *path) {
        cleanup(free_ptr) char *dir = strdup(path);
        char *slash = dir ? strrchr(dir, '/') : NULL;

        if (!slash)
                return true;
        slash[slash == dir] = '\0';
        return path_rules_host_access(rules, dir, NULL) == PATH_WRITE;
}

bool survey_link_planted(const struct path_rules *rules, const char *workspace, const char *path, const char *real) {
        struct survey_way way;
        int r;

        if (strlen(path) >= PATH_MAX)
                return true;

        survey_way_begin(&way, "", path);

        while ((r = survey_way_next(&way)) > 0)
                if (survey_may_write(rules, workspace, way.dir))
                        return true;

        /* The same end as before, or somebody is changing the way while it is looked at. */
        return r < 0 || strcmp(way.at[0] ? way.at : "/", real) != 0;
}
