/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets with a path, as the kernel lists them: a read-only mount would not stop connect(). Relative names cannot
 * be judged from here and cannot be reached by name from another directory either, unless the server's directory is
 * visible; they are skipped. So are sockets in the directory that is hidden whole: with 200 sandboxes, looking up each
 * took 0.2 ms of a launch.
 *
 * The kernel lists those of our own network namespace, and a container engine without root, for one, listens in
 * another. So what a rule grants by its path is looked at by its file. (The other end of a connection is listed where
 * the client is, by the listener's name: without this, such a socket could be reached while somebody else was connected
 * to it.)
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* By name alone, so only what lies in the directory itself: further down the name could lead out of it again. */
static bool is_hidden(const char *hidden, struct str name) {
        size_t n = hidden ? strlen(hidden) : 0;

        return n > 0 && name.n > n && name.p[n] == '/' && memcmp(name.p, hidden, n) == 0 &&
               str_find(str_skip(name, n + 1), '/') < 0;
}

/* What a path leads to, if that is a socket. */
static int socket_lead(const char *path, char **ret) {
        struct stat st;

        if (stat(path, &st) < 0) {
                if (!path_error_answers(errno))
                        return -errno;
                return 0;
        }
        if (!S_ISSOCK(st.st_mode))
                return 0;

        *ret = realpath(path, NULL);
        if (*ret || path_error_answers(errno))
                return 0;

        return -errno;
}

/* Where a socket really is; *ret stays NULL where there is none. */
static int socket_resolve(struct survey_dirs *dirs, struct str name, char **ret) {
        cleanup(free_ptr) char *spelled = str_dup(name), *path = NULL;
        struct survey_place at;
        struct stat st;

        if (!spelled)
                return -ENOMEM;

        int r = path_normalise(name, NULL, &path);
        if (r == -ENOMEM)
                return r;

        /* A name with dots in it, or a link: whatever the kernel makes of it. */
        if (r < 0 || strcmp(path, spelled) != 0)
                return socket_lead(spelled, ret);

        r = survey_place(dirs, path, &at);
        if (r < 0)
                return r;

        int missing = survey_look(&at, &st);
        if (missing) {
                if (path_error_answers(missing))
                        return 0;
                return -missing;
        }
        if (S_ISLNK(st.st_mode))
                return socket_lead(path, ret);
        if (!S_ISSOCK(st.st_mode))
                return 0;

        *ret = path_join(at.dir->real, at.name);
        if (!*ret)
                return -ENOMEM;

        return 0;
}

static int add_socket(struct survey_dirs *dirs, struct str name, struct plan_host *host) {
        cleanup(free_ptr) char *real = NULL;
        int r = socket_resolve(dirs, name, &real);

        if (r < 0 || !real)
                return r;

        r = vec_push(&host->sockets, real);
        if (r == 0)
                take_ptr(&real);

        return r;
}

/* The seventh field of a line is the inode, what follows is the path. */
static int read_list(struct buf *ret) {
        cleanup(buf_done) struct buf list = BUF(16 << 20);
        cleanup(close_fd) int fd = open("/proc/net/unix", O_RDONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd_read_all(fd, &list);

        struct str rest = buf_str(&list), line;
        while (r == 0 && str_split(&rest, '\n', &line)) {
                ptrdiff_t slash = str_find(line, '/');
                if (slash < 1 || line.p[slash - 1] != ' ')
                        continue;

                r = buf_append(ret, str_skip(line, (size_t)slash));
                if (r == 0)
                        r = buf_append(ret, str_n("", 1));
        }

        return r;
}

static int list_names(struct buf *ret) {
        if (survey_unix_names(ret) == 0)
                return 0;

        buf_clear(ret);
        return read_list(ret);
}

static bool is_listed(const struct plan_host *host, const char *path) {
        for (size_t i = 0; i < host->sockets.n; i++)
                if (strcmp(host->sockets.p[i], path) == 0)
                        return true;
        return false;
}

/* Whoever listens there, and in whatever network namespace. */
static int add_granted(struct survey_dirs *dirs, struct plan_host *host) {
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];

                if (!path->grants || path->access == PATH_DENIED || path->type != PLAN_PATH_FILE ||
                    is_listed(host, path->path))
                        continue;

                int r = add_socket(dirs, str_of(path->path), host);
                if (r < 0)
                        return r;
        }

        return 0;
}

int survey_sockets(const char *hidden, struct survey_dirs *dirs, struct plan_host *host, struct err *err) {
        cleanup(buf_done) struct buf names = BUF(16 << 20);
        int r = list_names(&names);

        if (r < 0 && r != -ENOENT)
                return err_set(err, -r, "cannot list the host's sockets: %s", strerror(-r));

        struct str rest = buf_str(&names), name;
        while (str_split(&rest, '\0', &name)) {
                if (name.n == 0 || is_hidden(hidden, name))
                        continue;

                r = add_socket(dirs, name, host);
                if (r < 0)
                        return err_set(err, -r, "cannot look at the host's sockets: %s", strerror(-r));
        }

        r = add_granted(dirs, host);
        if (r < 0)
                return err_set(err, -r, "cannot look at sockets that a rule names: %s", strerror(-r));

        return 0;
}
