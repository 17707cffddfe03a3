/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant holds for what its path leads to, links followed. But whoever may write in a directory may replace what is in
 * it by a link, and then chooses what the next run's grant is for. So links on the way are trusted only outside of the
 * places that sandboxes write to; through another one a path gets what its end has by its own name, and no more.
 */
#include "base/path.h"
#include "sandbox/linux/survey.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 };

/* What was walked (real, no slash at the end) and what is left of the path. */
struct way {
        char at[PATH_MAX], rest[2 * PATH_MAX];
};

static bool take_link(struct way *w, const char *link) {
        char text[PATH_MAX], joined[2 * PATH_MAX];
        ssize_t n = readlink(link, text, sizeof text - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        int size = snprintf(joined, sizeof joined, "%s/%s", text, w->rest);
        if (size < 0 || (size_t)size >= sizeof joined)
                return false;
        memcpy(w->rest, joined, (size_t)size + 1);
        if (text[0] == '/')
                w->at[0] = '\0';
        return true;
}

/* The next component, cut off the rest; false at the end. */
static bool next_name(struct way *w, char name[static NAME_MAX + 1]) {
        const char *from = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(from, "/");
        if (n == 0 || n > NAME_MAX)
                return false;
        memcpy(name, from, n);
        name[n] = '\0';
        memmove(w->rest, from + n, strlen(from + n) + 1);
        return true;
}

static bool may_write(const struct path_rules *rules, const char *workspace, const char *dir) {
        return (workspace && path_is_within(dir, workspace)) || path_rules_access(rules, dir, NULL) == PATH_WRITE;
}

bool survey_link_planted(const struct path_rules *rules, const char *workspace, const char *path, const char *real) {
        struct way w = { .at = "" };
        char name[NAME_MAX + 1], here[PATH_MAX];
        struct stat st;
        unsigned links = 0;
        if (strlen(path) >= sizeof w.rest)
                return true;
        memcpy(w.rest, path, strlen(path) + 1);
        while (next_name(&w, name)) {
                if (strcmp(name, ".") == 0)
                        continue;
                if (strcmp(name, "..") == 0) {
                        char *slash = strrchr(w.at, '/');
                        if (slash)
                                *slash = '\0';
                        continue;
                }
                int n = snprintf(here, sizeof here, "%s/%s", w.at, name);
                if (n < 0 || (size_t)n >= sizeof here)
                        return true;
                if (lstat(here, &st) < 0)
                        return true; /* it was there a moment ago */
                if (!S_ISLNK(st.st_mode))
                        memcpy(w.at, here, (size_t)n + 1);
                else if (may_write(rules, workspace, w.at[0] ? w.at : "/") || ++links > LINKS_MAX ||
                         !take_link(&w, here))
                        return true;
        }
        /* The same end as before, or somebody is changing the way while it is looked at. */
        return strcmp(w.at[0] ? w.at : "/", real) != 0;
}
