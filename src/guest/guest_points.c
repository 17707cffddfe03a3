/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_points.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "guest/guest_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct point {
        const struct guest *guest;
        const char *path;
        bool directory;
};

/* The group bits are the mask of the access list, by which the host user comes in. */
static int point_give(const struct guest *guest, int fd, mode_t mode) {
        if (guest->kind == GUEST_OWN)
                return 0;
        if (fchown(fd, guest->ids.inner_uid, guest->ids.inner_gid) < 0 || fchmod(fd, mode) < 0)
                return -errno;
        return 0;
}

/* Returns its descriptor. One that is still the host user's was left by a start that was killed before it gave it away.
 */
static int point_directory(const struct guest *guest, int at, const char *name) {
        struct stat st;
        bool made = mkdirat(at, name, 0700) == 0;

        if (!made && errno != EEXIST)
                return -errno;

        cleanup(close_fd) int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;

        int r = 0;

        if (made || st.st_uid == 0)
                r = point_give(guest, fd, 0770);

        if (r < 0)
                return r;

        return take_fd(&fd);
}

static int point_file(const struct guest *guest, int at, const char *name) {
        cleanup(close_fd) int fd = openat(at, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat st;

        if (fd >= 0)
                return point_give(guest, fd, 0660);
        if (errno != EEXIST || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISREG(st.st_mode))
                return 0;

        if (S_ISDIR(st.st_mode))
                return -EISDIR;

        return -ELOOP;
}

/* Each start has a place of its own for its certificates. Those of starts that are over are empty. */
static bool point_is_of_a_start(const char *path) {
        cleanup(free_ptr) char *state = NULL, *top = NULL;
        const char *home = path_home(), *slash = strrchr(path, '/');

        if (!home || !slash || dirs_state(&state) < 0 || !path_is_within(state, home) || strcmp(state, home) == 0)
                return false;

        top = str_format("%s/certificates", state + strlen(home) + 1);
        return top && strlen(top) == (size_t)(slash - path) && memcmp(top, path, strlen(top)) == 0;
}

static void points_sweep(int at) {
        int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *list = fd < 0 ? NULL : fdopendir(fd);

        if (!list) {
                close_fd(&fd);
                return;
        }

        for (const struct dirent *entry; (entry = readdir(list));)
                if (entry->d_name[0] != '.')
                        (void)unlinkat(at, entry->d_name, AT_REMOVEDIR);

        closedir(list);
}

static int point_walk(const struct point *point, int home) {
        struct str rest = str_of(point->path), part;
        cleanup(close_fd) int at = home;

        while (str_split(&rest, '/', &part)) {
                char name[NAME_MAX + 1];
                bool last = rest.n == 0;

                if (part.n == 0 || part.n > NAME_MAX || str_eq(part, STR(".")) || str_eq(part, STR("..")))
                        return -EINVAL;
                memcpy(name, part.p, part.n);
                name[part.n] = '\0';

                if (last && !point->directory)
                        return point_file(point->guest, at, name);
                if (last && point_is_of_a_start(point->path))
                        points_sweep(at);

                int next = point_directory(point->guest, at, name);
                if (next < 0)
                        return next;
                close_fd(&at);
                at = next;
        }

        return 0;
}

static int point_make(void *arg, struct err *err) {
        const struct point *point = arg;
        int home = openat(point->guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (home < 0)
                return err_errno(err, "cannot open %s", point->guest->home);

        int r = point_walk(point, home);
        if (r == -ELOOP || r == -ENOTDIR || r == -EISDIR)
                return err_set(err, -r,
                               "~/%s of the host cannot be shown to the guest: something else has that name in the "
                               "guest's home %s",
                               point->path, point->guest->home);
        if (r < 0)
                return err_set(err, -r, "cannot make a place for ~/%s in the guest's home %s: %s", point->path,
                               point->guest->home, strerror(-r));

        return 0;
}

int guest_point_make(const struct guest *guest, const char *path, bool directory, struct err *err) {
        struct point point = { guest, path, directory };

        return guest_inside(guest, point_make, &point, err);
}
