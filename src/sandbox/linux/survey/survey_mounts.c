/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same directory may be mounted at several places: a home below /srv, the top of a btrfs, /host in a container. A
 * denied path is denied at each of them. /proc/self/mountinfo lists the mounted parts of file systems:
 *
 *     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *     id  of dev root  place
 *
 * A path's place in its file system is the root of its mount and the rest of the path. Another mount of the same device
 * shows it, if its root is at or above that place; if it is below, all of that mount is denied.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "policy/home_kind.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOUNTS_BYTES_MAX = 16 << 20, ALIASES_MAX = 256 };

struct mount_line {
        struct str device;
        char *root, *place;
};
typedef VEC(struct mount_line) mount_lines;

static void mount_lines_done(mount_lines *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].root);
                free(list->p[i].place);
        }
        vec_done(list);
}

/* Blanks, tabs, line ends and backslashes are written as \ooo. */
static char *mounts_unescape(struct str text) {
        char *out = malloc(text.n + 1);
        size_t n = 0;

        for (size_t i = 0; out && i < text.n; i++) {
                bool octal = text.p[i] == '\\' && i + 3 < text.n;

                out[n++] = octal
                               ? (char)((text.p[i + 1] - '0') << 6 | (text.p[i + 2] - '0') << 3 | (text.p[i + 3] - '0'))
                               : text.p[i];
                i += octal ? 3 : 0;
        }

        if (out)
                out[n] = '\0';

        return out;
}

static int add_line(mount_lines *list, struct str line) {
        struct str fields[5];

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (!str_split(&line, ' ', &fields[i]))
                        return 0;

        struct mount_line mount = { fields[2], mounts_unescape(fields[3]), mounts_unescape(fields[4]) };
        if (mount.root && mount.place && vec_push(list, mount) == 0)
                return 0;

        free(mount.root);
        free(mount.place);

        return -ENOMEM;
}

/* Most machines mount each file system once: then there is nothing to look for. */
static bool has_doubles(const mount_lines *list) {
        for (size_t i = 0; i < list->n; i++)
                for (size_t j = i + 1; j < list->n; j++)
                        if (str_eq(list->p[i].device, list->p[j].device))
                                return true;
        return false;
}

/* The mount that a path is on: the deepest one above it; of two at one place the later. */
static const struct mount_line *mount_of(const mount_lines *list, const char *path) {
        const struct mount_line *found = NULL;

        for (size_t i = 0; i < list->n; i++)
                if (path_is_within(path, list->p[i].place) &&
                    (!found || strlen(list->p[i].place) >= strlen(found->place)))
                        found = &list->p[i];
        return found;
}

/* The rest of a path below another one, without the slash; "" for the same. */
static const char *rest_below(const char *path, const char *top) {
        const char *rest = path + (strcmp(top, "/") == 0 ? 0 : strlen(top));
        return *rest == '/' ? rest + 1 : rest;
}

/* The path under which `other` shows `inside` of the file system. NULL: nowhere. */
static char *alias_of(const struct mount_line *other, const char *inside) {
        if (path_is_within(inside, other->root))
                return path_join(other->place, rest_below(inside, other->root));
        if (path_is_within(other->root, inside))
                return strdup(other->place);

        return NULL;
}

/* Whether something of the home is granted by this other name: the workspace may be a mount of its own. */
static bool is_granted_in(const struct plan_host *host, const struct path_rules *rules, const char *alias) {
        for (size_t i = 0; i < host->paths.n; i++)
                if (host->paths.p[i].grants && path_is_within(host->paths.p[i].path, alias))
                        return true;
        return path_rules_access(rules, alias, NULL) == PATH_WRITE;
}

static int add_alias(struct plan_host *host, const struct path_rules *rules, const char *alias,
                     const struct plan_path *denied, struct err *err) {
        struct plan_path closed = { .path = alias, .access = PATH_DENIED, .origin = denied->origin };
        struct stat st;

        if (lstat(alias, &st) < 0)
                return survey_doubt(err, errno, alias);
        if (S_ISLNK(st.st_mode) || path_rules_access(rules, alias, NULL) == PATH_DENIED)
                return 0;
        if (denied->astray && is_granted_in(host, rules, alias))
                return 0;

        closed.type = survey_type(&st);
        return survey_add(host, closed, err);
}

static int add_aliases(struct plan_host *host, const struct path_rules *rules, const mount_lines *list,
                       struct plan_path denied, unsigned *budget, struct err *err) {
        const struct mount_line *own = mount_of(list, denied.path);
        cleanup(free_ptr) char *inside = own ? path_join(own->root, rest_below(denied.path, own->place)) : NULL;
        int r = 0;

        if (own && !inside)
                return err_set(err, ENOMEM, "out of memory");

        for (size_t j = 0; own && j < list->n && r == 0; j++) {
                const struct mount_line *other = &list->p[j];
                if (other == own || !str_eq(other->device, own->device) || *budget == 0)
                        continue;

                cleanup(free_ptr) char *alias = alias_of(other, inside);
                if (!alias || strcmp(alias, denied.path) == 0)
                        continue;

                (*budget)--;
                r = add_alias(host, rules, alias, &denied, err);
        }

        return r;
}

/* Where the sandbox has a home of its own, no rule speaks of the real one: it is not there. Elsewhere it would be. */
static int add_home(const struct policy *policy, const struct path_rules *rules, const mount_lines *list,
                    struct plan_host *host, unsigned *budget, struct err *err) {
        const struct plan_path home = { .path = policy->home_inside,
                                        .access = PATH_DENIED,
                                        .astray = true, /* no rule says so */
                                        .origin = "built in: homes hold keys; --read opens a path in one" };

        if (!home_is_own(policy) || !policy->home_inside)
                return 0;
        if (access(policy->home_inside, F_OK) < 0)
                return survey_doubt(err, errno, policy->home_inside);

        return add_aliases(host, rules, list, home, budget, err);
}

int survey_mounts(const struct policy *policy, const struct path_rules *rules, struct plan_host *host,
                  struct err *err) {
        cleanup(buf_done) struct buf text = BUF(MOUNTS_BYTES_MAX);
        cleanup(mount_lines_done) mount_lines list = { 0 };
        cleanup(close_fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        unsigned budget = ALIASES_MAX;
        size_t n = host->paths.n;
        int r = fd < 0 ? -errno : fd_read_all(fd, &text);

        if (r < 0)
                return err_set(err, -r, "cannot read what is mounted where: %s", strerror(-r));

        struct str rest = buf_str(&text), line;
        while (r == 0 && str_split(&rest, '\n', &line))
                r = add_line(&list, line);

        if (r < 0)
                return err_set(err, ENOMEM, "out of memory");
        if (!has_doubles(&list))
                return 0;

        r = add_home(policy, rules, &list, host, &budget, err);
        for (size_t i = 0; i < n && r == 0; i++)
                if (host->paths.p[i].access == PATH_DENIED && host->paths.p[i].type != PLAN_PATH_MISSING)
                        r = add_aliases(host, rules, &list, host->paths.p[i], &budget, err);

        return r;
}
