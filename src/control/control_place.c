/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control_place.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "store/audit_line.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Until it listens a socket has another name: a process that finds a socket that refuses connections takes it for a
 * dead one. */
static const char suffix[] = ".sock", suffix_before[] = ".new";
enum { BACKLOG = 128, STALE_SECONDS = 2 };

static bool is_own_directory(const char *path) {
        struct stat st;
        return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* The variable often survives into a session of another user (su, sudo): what it names must be ours, or ours to make.
 */
static bool is_session(const char *path) {
        struct stat st;

        if (!path || path[0] != '/')
                return false;
        if (lstat(path, &st) == 0)
                return is_own_directory(path);

        cleanup(free_ptr) char *above = str_dup(str_of(path));
        char *slash = above ? strrchr(above, '/') : NULL;
        if (!slash || slash == above)
                return false;

        *slash = '\0';
        return is_own_directory(above);
}

int control_directory(char **ret, struct err *err) {
        const char *session = getenv("XDG_RUNTIME_DIR");
        char fallback[64];

        snprintf(fallback, sizeof fallback, "/run/user/%u", (unsigned)geteuid());

        if (is_session(session))
                *ret = path_join(session, "bailey");
        else if (is_own_directory(fallback))
                *ret = path_join(fallback, "bailey");
        else
                *ret = str_format("/tmp/bailey-%u", (unsigned)geteuid());

        if (!*ret)
                return err_memory(err);

        return 0;
}

int control_make_directory(char **ret, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r = control_directory(&path, err);
        if (r == 0)
                r = path_make_private_dir(path, err);
        if (r < 0)
                return err_wrap(err, r, "the directory for control sockets (XDG_RUNTIME_DIR)");

        *ret = take_ptr(&path);
        return 0;
}

/* A socket's address has room for 107 bytes; a longer path goes through a descriptor of the directory. */
static int address_of(int directory_fd, const char *directory, const char *id, const char *end, struct sockaddr_un *ret,
                      struct err *err) {
        if (!audit_id_valid(id))
                return err_set(err, EINVAL, "a sandbox's id has 1 to %d letters, digits, '-' or '_'",
                               CONTROL_ID_MAX - 1);

        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        int n = snprintf(ret->sun_path, sizeof ret->sun_path, "%s/%s%s", directory, id, end);
        if (n > 0 && (size_t)n < sizeof ret->sun_path)
                return 0;

        snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s%s", directory_fd, id, end);
        return 0;
}

static int open_directory(const char *directory, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0) {
                if (errno == ENOENT)
                        return err_set(err, ENOENT, "no sandbox is running");
                return err_errno(err, "cannot open %s", directory);
        }

        if (st.st_uid != geteuid() || (st.st_mode & 0077))
                return err_set(err, EPERM, "%s must be yours alone (mode 0700): others could answer for you",
                               directory);

        *ret_fd = take_fd(&fd);
        return 0;
}

int control_address(const char *directory, const char *name, struct sockaddr_un *ret, int *ret_fd, struct err *err) {
        cleanup(close_fd) int place = -1;
        int r = open_directory(directory, &place, err);
        if (r == 0)
                r = address_of(place, directory, name, "", ret, err);
        if (r < 0)
                return r;

        *ret_fd = take_fd(&place);
        return 0;
}

int control_listen(const char *directory, const char *id, int *ret_fd, char **ret_path, struct err *err) {
        cleanup(close_fd) int place = -1, fd = -1;
        struct sockaddr_un to;
        int r = open_directory(directory, &place, err);
        if (r == 0)
                r = address_of(place, directory, id, suffix_before, &to, err);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to) < 0)
                return err_errno(err, "cannot make the control socket in %s", directory);

        cleanup(free_ptr) char *path = str_format("%s/%s%s", directory, id, suffix);
        cleanup(free_ptr) char *before = str_format("%s%s", id, suffix_before);
        if (!path || !before || listen(fd, BACKLOG) < 0 ||
            renameat(place, before, place, path + strlen(directory) + 1) < 0) {
                r = err_errno(err, "cannot listen on the control socket");
                if (before)
                        unlinkat(place, before, 0);
                return r;
        }

        *ret_path = take_ptr(&path);
        *ret_fd = take_fd(&fd);

        return 0;
}

void control_unlisten(char *path) {
        if (path)
                unlink(path);
        free(path);
}

/* Left by a dead run: nobody will listen on it again. A fresh one is left alone: an approved command gets a new one
 * under its old name. */
static void remove_stale(int directory_fd, const char *id) {
        cleanup(free_ptr) char *name = str_format("%s%s", id, suffix);
        struct stat st;
        if (name && fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
            st.st_ctime + STALE_SECONDS < time(NULL))
                unlinkat(directory_fd, name, 0);
}

int control_connect(const char *directory, const char *id, int *ret_fd, struct err *err) {
        cleanup(close_fd) int place = -1, fd = -1;
        struct sockaddr_un to;
        int r = open_directory(directory, &place, err);
        if (r == 0)
                r = address_of(place, directory, id, suffix, &to, err);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
                if (errno == ENOENT)
                        return err_set(err, ENOENT, "there is no sandbox %s", id);
                if (errno != ECONNREFUSED)
                        return err_errno(err, "cannot reach the sandbox %s", id);

                remove_stale(place, id);
                return err_set(err, ECONNREFUSED, "the sandbox %s is gone", id);
        }

        *ret_fd = take_fd(&fd);
        return 0;
}

void control_ids_done(control_ids *ids) {
        for (size_t i = 0; i < ids->n; i++)
                free(ids->p[i]);
        vec_done(ids);
}

static int by_text(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void close_listing(DIR **dir) {
        if (*dir)
                closedir(*dir);
}

int control_list(control_ids *ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(close_fd) int fd = -1;
        int r = control_directory(&directory, err);
        if (r == 0)
                r = open_directory(directory, &fd, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;

        cleanup(close_listing) DIR *d = fdopendir(fd);
        if (!d)
                return err_errno(err, "cannot read %s", directory);

        (void)take_fd(&fd); /* the listing's now */
        struct dirent *entry;

        while ((entry = readdir(d))) {
                struct str name = str_of(entry->d_name);
                if (!str_ends(name, str_of(suffix)))
                        continue;

                cleanup(free_ptr) char *id = str_dup(str_first(name, name.n - (sizeof suffix - 1)));
                if (!id || (audit_id_valid(id) && vec_push(ret, id) < 0))
                        return err_memory(err);
                if (audit_id_valid(id))
                        (void)take_ptr(&id);
        }

        if (ret->n)
                qsort(ret->p, ret->n, sizeof *ret->p, by_text);

        return 0;
}

/*
 * Checks the peer. The directory keeps other users out and is hidden from sandboxes; this check holds if that fails,
 * and in a sandbox without namespaces, where a socket cannot be hidden.
 */
struct marks {
        uint64_t no_new_privileges, filters;
        ino_t processes; /* the pid namespace */
};

static uint64_t status_value(struct str status, struct str name) {
        struct str line;
        uint64_t value = 0;
        while (str_split(&status, '\n', &line))
                if (str_starts(line, name))
                        return str_to_u64(str_trim(str_skip(line, name.n)), UINT32_MAX, &value) ? value : 0;
        return 0;
}

static int read_marks(const char *process, struct marks *ret, struct err *err) {
        char path[64];
        struct stat st;
        cleanup(buf_done) struct buf status = BUF(65536);

        snprintf(path, sizeof path, "/proc/%s/status", process);
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fd_read_all(fd, &status) < 0)
                return err_set(err, EPERM, "the process that speaks cannot be looked at");

        snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
        if (stat(path, &st) < 0)
                return err_set(err, EPERM, "the process that speaks hides its namespaces");

        *ret = (struct marks){ status_value(buf_str(&status), STR("NoNewPrivs:")),
                               status_value(buf_str(&status), STR("Seccomp_filters:")), st.st_ino };
        return 0;
}

bool control_peer_is_certain(void) {
        int pair[2], pidfd = -1;
        socklen_t n = sizeof pidfd;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return false;

        bool certain = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0;
        close_fd(&pidfd);
        close_fd(&pair[0]);
        close_fd(&pair[1]);

        return certain;
}

int control_check_peer(int fd, struct err *err) {
        struct ucred peer;
        socklen_t n = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || n != sizeof peer)
                return err_errno(err, "cannot see who speaks");
        if (peer.uid != geteuid() && peer.uid != 0)
                return err_set(err, EPERM, "user %u may not control this sandbox", (unsigned)peer.uid);
        if (peer.uid == 0 && geteuid() != 0)
                return 0; /* root needs no leave, and cannot be looked at by us */

        cleanup(close_fd) int pidfd = -1;
        n = sizeof pidfd;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) < 0) {
                pidfd = -1;
                if (errno != ENOPROTOOPT) /* before 6.5 the number has to do; later it says that the process is gone */
                        return err_set(err, EPERM, "the process that spoke is gone");
        }

        char process[16];
        struct marks ours, theirs;
        snprintf(process, sizeof process, "%d", (int)peer.pid);

        int r = peer.pid > 0 ? read_marks(process, &theirs, err)
                             : err_set(err, EPERM, "the process that speaks is not in sight");
        if (r == 0 && pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0)
                r = err_set(err, EPERM, "the process that spoke is gone");
        if (r == 0)
                r = read_marks("self", &ours, err);
        if (r < 0)
                return r;

        if (theirs.processes != ours.processes || theirs.no_new_privileges > ours.no_new_privileges ||
            theirs.filters > ours.filters)
                return err_set(err, EPERM, "a confined process may not control a sandbox");

        return 0;
}
