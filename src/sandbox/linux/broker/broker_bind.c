/* SPDX-License-Identifier: Apache-2.0 */
/* bind(): a Unix socket with a path makes a new name in a directory, as mknod() does. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The text is what getsockname() says later, so it is used as it came, from the caller's directory. Nobody inside can
 * change its target meanwhile: every rename and link waits for this call to end.
 */
static int bind_by_text(struct held *held, int fd, const struct sockaddr_un *to, size_t n) {
        cleanup(close_fd) int base = -1;

        if (to->sun_path[0] != '/')
                base = tracee_open_base(&held->tracee, AT_FDCWD);

        mode_t before;
        int r;

        walk_leaves_directory();
        if (to->sun_path[0] != '/' && (base < 0 || fchdir(base) < 0)) {
                if (base < 0)
                        return base;
                return -errno;
        }

        before = umask(held->tracee.umask);
        r = bind(fd, (const struct sockaddr *)to, (socklen_t)n) < 0 ? -errno : 0;
        umask(before);

        if (base >= 0 && chdir("/") < 0)
                return -errno;

        return r;
}

/* Whether the text leads the broker to the directory that was judged: not if it goes through /proc/self. */
static bool text_leads_to(struct held *held, const struct place *place, const char *text) {
        char parent[sizeof(struct sockaddr_un)] = ".";
        const char *slash = strrchr(text, '/');
        struct stat by_text, judged;

        if (place->parent)
                return true;
        if (place->wants_directory)
                return false;

        if (slash) {
                size_t n = (size_t)(slash - text) + 1;

                memcpy(parent, text, n);
                parent[n] = '\0';
        }

        cleanup(close_fd) int base = -1;

        if (text[0] != '/')
                base = tracee_open_base(&held->tracee, AT_FDCWD);

        return fstatat(base >= 0 ? base : AT_FDCWD, parent, &by_text, 0) == 0 && fstat(place->dir, &judged) == 0 &&
               by_text.st_dev == judged.st_dev && by_text.st_ino == judged.st_ino;
}

/* The descriptor in /proc/self/fd/N/name, or -1. */
static int number_in(const char *text) {
        static const char *const fronts[] = { "/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/" };
        struct str rest, digits;
        uint64_t number;

        for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
                rest = str_of(text);
                if (!str_starts(rest, str_of(fronts[i])))
                        continue;

                rest = str_skip(rest, strlen(fronts[i]));
                if (str_split(&rest, '/', &digits) && str_to_u64(digits, 1 << 20, &number))
                        return (int)number;
        }

        return -1;
}

/* Through one of the caller's descriptors: in a process whose descriptor of that number is the same directory. */
static int bind_lent(struct held *held, int fd, const struct place *place, const struct sockaddr_un *to, size_t n) {
        int number = number_in(to->sun_path), status = 0;
        pid_t pid;

        if (number < 0)
                return -EBUSY;

        pid = fork();
        if (pid < 0)
                return -errno;

        if (pid == 0) {
                int own = fcntl(fd, F_DUPFD_CLOEXEC, number + 1);
                bool lent = own >= 0 && dup2(place->dir, number) >= 0;
                int r = -EBUSY;

                if (lent)
                        r = bind_by_text(held, own, to, n);

                _exit(-r);
        }

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (!WIFEXITED(status))
                return -EIO;

        return -WEXITSTATUS(status);
}

/* Then the address will read differently, and mean the same. */
static int bind_in(struct held *h, int fd, const struct place *place) {
        struct sockaddr_un held = { .sun_family = AF_UNIX };
        int n = snprintf(held.sun_path, sizeof held.sun_path, "/proc/self/fd/%d/%s", place->dir, place->name);

        if (n < 0 || (size_t)n >= sizeof held.sun_path)
                return -ENAMETOOLONG;
        if (bind(fd, (struct sockaddr *)&held, sizeof held) < 0)
                return -errno;

        if (fchmodat(place->dir, place->name, 0777 & ~h->tracee.umask, 0) < 0)
                return -errno;

        return 0;
}

static int bind_named(struct held *held, int fd, const struct sockaddr_un *to, size_t n) {
        char name[sizeof to->sun_path + 1] = { 0 };
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        struct stat st;
        int r;

        memcpy(name, to->sun_path, n - offsetof(struct sockaddr_un, sun_path)); /* the kernel needs no NUL either */
        held->writes = true;
        r = walk(&held->tracee, AT_FDCWD, name, WALK_PARENT, &place);
        if (r < 0)
                return r;

        memcpy(held->path, place.path, strlen(place.path) + 1);
        if (place.dir < 0 || fstatat(place.dir, place.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return -EADDRINUSE;

        r = judge_new(held, &place, S_IFSOCK);
        if (r < 0)
                return r;

        if (text_leads_to(held, &place, name))
                r = bind_by_text(held, fd, to, n);
        else
                r = bind_lent(held, fd, &place, to, n);
        if (r == -EBUSY)
                r = bind_in(held, fd, &place);
        if (r == 0)
                judge_made(held, &place, -1);
        if (r == 0 && datagram_is(fd)) /* it receives from now on; others have to listen first */
                broker_own_socket(fd);

        return r;
}

int op_bind(struct held *held) {
        _Alignas(struct sockaddr_storage) char address[sizeof(struct sockaddr_storage)] = { 0 };
        const struct sockaddr_un *to = (const struct sockaddr_un *)address;
        int length = (int)held->args[2], domain = 0;
        bool fits = length >= 0 && (size_t)length <= sizeof address;
        size_t n = fits ? (size_t)length : 0;
        socklen_t domain_n = sizeof domain;

        if (!fits)
                return -EINVAL;

        cleanup(close_fd) int fd =
            tracee_take(&held->tracee, (int)held->args[0], &(struct tracee_bytes){ held->args[1], n, address });
        if (fd < 0)
                return fd;

        bool named = n > offsetof(struct sockaddr_un, sun_path) && to->sun_family == AF_UNIX && to->sun_path[0];
        if (named && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_n) == 0 && domain == AF_UNIX) {
                if (n > sizeof *to)
                        return -EINVAL;
                return bind_named(held, fd, to, n);
        }

        if (bind(fd, (const struct sockaddr *)address, (socklen_t)n) < 0)
                return -errno;

        return 0;
}
